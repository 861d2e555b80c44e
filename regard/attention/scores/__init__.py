"""Scores: e[t, s] = score(q_t, k_s), one equation a file."""
