"""Any score can be multi-headed, and no score knows that heads exist."""

import pytest
import torch
from built import built
from laws.cases import CHOOSING, HISTORY, NORMALIZERS, SCORES, WINDOWS, B, S, T, seeded
from torch.testing import assert_close

from regard import History, Mask, MultiHead
from regard.attention.parts import Sizes

HEADS, SIZE = 3, 5  # dim 15
SIZES = Sizes(query=SIZE, keys=SIZE, hidden=13, positions=19, half_width=2, filters=3, width=3)
KINDS = (
    [(score, "softmax", "global") for score in SCORES]
    + [("additive", normalizer, "global") for normalizer in NORMALIZERS]
    + [("dot", "softmax", window) for window in WINDOWS]
)
MASKS = {
    "lengths": Mask(lengths=torch.tensor([7, 4])),
    "dense": torch.arange(B * T * S).view(B, T, S) % 3 != 1,
    "one row for all": torch.tensor([True, False, True, True, False, True, True]),
    "causal": Mask(causal=True),
}


def make(kind):
    score, normalizer, window = kind
    attention = built(score, SIZES, normalizer=normalizer, window=window)
    heads = MultiHead(HEADS * SIZE, HEADS, attention=attention).double().eval()
    previous = torch.randn(B, HEADS, 1, S).double().softmax(-1)
    history = History(previous, 2 * previous) if score in HISTORY else None
    return heads, history


@pytest.mark.parametrize("kind", KINDS, ids="+".join)
def test_each_head_is_plain_attention_in_its_own_subspace(kind):
    heads, history = make(kind)
    query, keys, values = (torch.randn(B, n, HEADS * SIZE).double() for n in (T, S, S))
    for name, mask in MASKS.items():
        result = heads(query, heads.prepare(keys, values, mask), history=history)
        assert result.weights.shape == (B, HEADS, T, S)
        contexts = []
        for h in range(HEADS):
            part = slice(h * SIZE, (h + 1) * SIZE)
            q, k, v = heads.W_Q(query)[..., part], heads.W_K(keys)[..., part], heads.W_V(values)[..., part]
            own = None if history is None else History(history.previous[:, h], history.cumulative[:, h])
            alone = heads.attention(q, heads.attention.prepare(k, v, mask), history=own)
            assert_close(result.weights[:, h], alone.weights, msg=name)
            contexts.append(alone.context)
        assert_close(result.context, heads.W_O(torch.cat(contexts, -1)), msg=name)


@pytest.mark.parametrize("kind", KINDS, ids="+".join)
def test_heads_are_independent(kind):
    heads, history = make(kind)
    query, keys = torch.randn(B, T, HEADS * SIZE).double(), torch.randn(B, S, HEADS * SIZE).double()
    before = heads(query, heads.prepare(keys), history=history).weights
    with torch.no_grad():
        heads.W_Q.weight[:SIZE] += 10  # the first head's rows
        heads.W_K.weight[:SIZE] -= 10
    after = heads(query, heads.prepare(keys), history=history).weights
    assert_close(after[:, 1:], before[:, 1:])
    if kind[1] not in (*CHOOSING, "mean"):
        assert not torch.allclose(after[:, 0], before[:, 0])


@pytest.mark.parametrize("kind", KINDS, ids="+".join)
def test_the_order_of_heads_does_not_matter(kind):
    heads, history = make(kind)
    query, keys = torch.randn(B, T, HEADS * SIZE).double(), torch.randn(B, S, HEADS * SIZE).double()
    before = heads(query, heads.prepare(keys), history=history)
    order = torch.tensor([2, 0, 1])
    rows = (order[:, None] * SIZE + torch.arange(SIZE)).flatten()
    with torch.no_grad():
        for W in (heads.W_Q, heads.W_K, heads.W_V):
            W.weight.copy_(W.weight[rows])
        heads.W_O.weight.copy_(heads.W_O.weight[:, rows])
    moved = None if history is None else History(history.previous[:, order], history.cumulative[:, order])
    after = heads(query, heads.prepare(keys), history=moved)
    assert_close(after.context, before.context)
    assert_close(after.weights, before.weights[:, order])


@pytest.mark.parametrize("kind", KINDS, ids="+".join)
def test_heads_and_plain_attention_are_interchangeable(kind):
    """One head with projections that change nothing is the attention inside it."""
    score, normalizer, window = kind
    attention = built(score, SIZES, normalizer=normalizer, window=window).double().train()
    heads = MultiHead(SIZE, 1, attention=attention).double().train()
    with torch.no_grad():
        for W in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
            W.weight.copy_(torch.eye(SIZE))
    query, keys = torch.randn(B, T, SIZE).double(), torch.randn(B, S, SIZE).double()
    mask = Mask(lengths=torch.tensor([7, 4]))
    results = []
    for module in (heads, attention):
        source = module.prepare(keys, mask=mask)
        history = History.start(source, at=1) if score in HISTORY else None
        results.append(module(query, source, history=history, generator=seeded()))
    assert_close(results[0].context, results[1].context)
    assert_close(results[0].weights[:, 0], results[1].weights)


def test_keys_and_values_may_have_their_own_sizes():
    heads = MultiHead(15, 3, dim_keys=7, dim_values=11, bias=True)
    source = heads.prepare(torch.randn(B, S, 7), torch.randn(B, S, 11))
    assert source.keys.shape == source.values.shape == (B, 3, S, 5)
    assert heads(torch.randn(B, T, 15), source).context.shape == (B, T, 15)
    assert all(W.bias is not None for W in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O))


def test_heads_without_batch_axis():
    heads = MultiHead(15, 3).double()
    query, keys = torch.randn(T, 15).double(), torch.randn(S, 15).double()
    dense = torch.arange(T * S).view(T, S) % 3 != 1
    result = heads(query, heads.prepare(keys, None, dense))
    batched = heads(query[None], heads.prepare(keys[None], None, dense[None]))
    assert_close(result.context, batched.context[0])
    assert_close(result.weights, batched.weights[0])
    assert (result.weights[:, ~dense] == 0).all()


def test_the_cache_of_a_decoder_with_heads_equals_causal_attention():
    heads = MultiHead(15, 3).double()
    x = torch.randn(B, S, 15).double()
    pad = torch.tensor([[True] * 7, [True] * 4 + [False] * 3])[:, None, :]  # (B, 1, S): seen by no query
    whole = heads(x, heads.prepare(x, None, Mask(causal=True) & pad))
    source = None
    for t in range(S):
        one = heads.prepare(x[:, t : t + 1], None, Mask(causal=True) & pad[..., t : t + 1])
        source = one if source is None else source.append(one)
        step = heads(x[:, t : t + 1], source.at(t))
        assert_close(step.context, whole.context[:, t : t + 1])
        assert_close(step.weights, whole.weights[:, :, t : t + 1, : t + 1])
