"""Complete systems; a file is a Config and a Model, top to bottom like the paper."""
