"""Trained models that ship with the package: their table, how they are made and found.

Each is a folder next to this file, with its own name, written by `pack.py`.
"""
