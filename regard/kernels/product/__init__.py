"""Fused kernels: scores that are a product."""
