"""The command `regard`."""
