"""Models that promise a gradient for every parameter keep it, whatever attends in them."""

from dataclasses import replace

import pytest
import torch

from regard import catalog
from regard.data.batches import pair_batch
from regard.errors import RegardError
from regard.tasks.translation import cross_entropy

BATCH = pair_batch([[5, 6, 7, 8], [8]], [[4, 9, 5], [5, 6, 7, 8, 9, 10]])
PARTS = ("score", "window")
LOCATION = {"score": "location"}
SIZES = {
    "rnnsearch": {"embedding": 8, "hidden": 8, "readout": 8},
    "seq2seq": {"embedding": 8, "hidden": 8},
    "luong": {"embedding": 8, "hidden": 8},
    "transformer": {"layers": 2, "d_model": 8, "d_ff": 8},
}


def promising():
    """Every such model, once plain and once with each score and each window."""
    for row in catalog.rows("model"):
        if row.load().uses_all_parameters:
            yield row.key, {}
            if row.key != "seq2seq":
                yield from ((row.key, {part: name}) for part in PARTS for name in catalog.names(part))


@pytest.mark.parametrize(("name", "parts"), list(promising()))
def test_every_parameter_gets_a_gradient(name, parts):
    kind = catalog.find(name, "model").load()
    torch.manual_seed(1)
    try:
        config = kind.Config(source_vocab=12, target_vocab=12, **SIZES[name])
        if parts:
            config = replace(config, attention=replace(config.attention, **parts))
        model = kind(config).train()
    except RegardError as error:
        pytest.skip(f"the model does not take it: {error}")
    cross_entropy(model(BATCH), BATCH).total.backward()
    without = [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None]
    # the location score of a Transformer reads no keys, and the model says so
    assert bool(without) == (not model.uses_all_parameters)
    assert model.uses_all_parameters == ((name, parts) != ("transformer", LOCATION))
