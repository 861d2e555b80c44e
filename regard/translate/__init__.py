"""Text of any length through a trained translator: streams, files in chunks, several processes."""
