"""Fused kernels: local windows."""
