"""`regard.view`: the attention of a whole model on one page, in a notebook or in a file."""
