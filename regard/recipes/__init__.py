"""Recipes: each file reproduces one number."""
