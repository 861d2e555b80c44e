"""What runs how fast, and in how much memory: measured here, parity first."""
