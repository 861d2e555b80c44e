"""Translates text of any length: streams, files in chunks, several processes."""
