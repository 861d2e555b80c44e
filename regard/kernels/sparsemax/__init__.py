"""Fused kernels: sparsemax."""
