"""The training loop, its configuration and the run folder."""
