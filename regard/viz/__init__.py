"""Drawing: alignments, curves, reports."""
