"""Complete systems: a Config and a Model per file, top to bottom like the paper."""
