"""Trained systems for Python code: `regard.load(name)` returns one; its methods take and return plain values.

One file per system. Lists in, lists out; results can be printed, saved and shown.
"""
