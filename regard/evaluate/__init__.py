"""Measuring: BLEU, chrF, alignment error rate."""
