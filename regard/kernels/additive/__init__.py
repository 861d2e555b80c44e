"""Fused kernels: additive attention on a CPU and on a GPU."""
