"""Fused kernels: a Neural Turing Machine over a whole sequence."""
