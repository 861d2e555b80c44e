"""Windows: where a query may look, and how strongly."""
