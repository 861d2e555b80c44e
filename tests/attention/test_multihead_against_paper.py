"""Multi-head attention against Vaswani 2017, section 3.2.2, as loops over scalars."""

import pytest
import torch
from oracles.multihead import multihead
from torch.testing import assert_close

from regard import ConfigError, Mask, MultiHead


def test_multihead():
    heads = MultiHead(15, 3).double()
    query, keys, values = (torch.randn(2, n, 15).double() for n in (3, 7, 7))
    result = heads(query, heads.prepare(keys, values))
    matrices = [W.weight.tolist() for W in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O)]
    for b in range(2):
        lists = (x[b].tolist() for x in (query, keys, values))
        outputs, weights = multihead(*lists, *matrices, heads=3)
        assert_close(result.context[b], torch.tensor(outputs, dtype=torch.float64))
        assert_close(result.weights[b], torch.tensor(weights, dtype=torch.float64))


def test_two_heads_by_hand():
    """Identity projections, one-hot keys of size 1 per head: each head sees only its own half."""
    heads = MultiHead(2, 2)
    with torch.no_grad():
        for W in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
            W.weight.copy_(torch.eye(2))
    keys = torch.tensor([[0.0, 1.0], [1.0, 0.0]]) * torch.tensor(3.0).log()  # ln 3 or 0
    result = heads(torch.ones(1, 2), heads.prepare(keys, torch.tensor([[1.0, 0.0], [0.0, 1.0]])))
    # head 0 scores (0, ln 3), head 1 (ln 3, 0): weights (1/4, 3/4) and (3/4, 1/4)
    assert_close(result.weights, torch.tensor([[[0.25, 0.75]], [[0.75, 0.25]]]))
    assert_close(result.context, torch.tensor([[0.25, 0.25]]))


def test_without_a_source_it_is_self_attention():
    heads, x = MultiHead(8, 2), torch.randn(2, 5, 8)
    mask = Mask(causal=True, lengths=torch.tensor([5, 3]))
    found, expected = heads(x, mask=mask), heads(x, heads.prepare(x, mask=mask))
    assert torch.equal(found.context, expected.context)
    assert torch.equal(found.weights, expected.weights)
    assert torch.equal(heads(x).context, heads(x, heads.prepare(x)).context)
    with pytest.raises(ConfigError, match=r"^MultiHead: `mask` is given together with a source; expected"):
        heads(x, heads.prepare(x), mask=mask)
