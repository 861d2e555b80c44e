"""Reading and writing an external memory."""
