"""The HTTP server: trained systems behind a small JSON API, and the page of the studio.

app.py has the routes, requests.py and answers.py what goes in and out, work.py what is computed for them.
Every model has one queue and one thread (batching.py), so requests that wait together are computed together.
"""
