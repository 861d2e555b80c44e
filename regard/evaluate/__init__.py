"""Evaluation: BLEU, chrF, alignment error rate and the metrics of all other tasks."""
