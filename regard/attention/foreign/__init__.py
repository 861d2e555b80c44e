"""Records the attention functions of other libraries while they run."""
