"""Attention functions of other libraries, seen while they run."""
