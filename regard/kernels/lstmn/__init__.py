"""Fused kernels: the LSTMN's tape."""
