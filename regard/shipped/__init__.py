"""Trained models that come with the package: the table of them, how they are made, where they are found.

Each lies in a folder of its name beside this file, as `pack.py` writes it.
"""
