"""Normalizers: from scores to weights; rows live on the simplex."""
