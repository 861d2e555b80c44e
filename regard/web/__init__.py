"""Code for the browser: drawing components, and the libraries that the studio uses."""
