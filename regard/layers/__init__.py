"""Parts shared by at least two models."""
