"""Trained models in the formats of other programs, and reading them back to translate."""
