"""Fused implementations; each names the reference it must equal."""
