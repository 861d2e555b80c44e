"""What to learn: data, batches, loss, metric."""
