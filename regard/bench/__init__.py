"""Benchmarks of speed and memory; every kernel must pass parity first."""
