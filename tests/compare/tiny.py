"""Settings of a training that takes a second, for comparisons in one process and in two."""

TINY = (
    "task.train=200",
    "task.valid=8",
    "task.test=8",
    "model.embedding=8",
    "model.hidden=16",
    "model.attention.hidden=8",
    "model.readout=8",
    "train.steps=6",
    "train.batch=120",
    "train.evaluate_every=3",
    "train.log_every=2",
    "train.threads=1",
)
