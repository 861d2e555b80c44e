"""Trained systems for Python code: `regard.load(name)` gives one, whose methods take and give plain things.

One file a system. Lists in, lists out; what comes back can be printed, saved and shown.
"""
