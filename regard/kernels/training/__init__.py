"""Fused kernels: the loss, and residual connections with their norm."""
