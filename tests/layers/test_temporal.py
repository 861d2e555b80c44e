"""Dilated causal convolutions and causal attention: against loops, and what each step can see."""

import pytest
import torch
from oracles import snail as oracle
from seeds import offset_seed

from regard.attention.mask import Mask
from regard.errors import ConfigError, ShapeError
from regard.layers.temporal import (
    AttentionBlock,
    Blocks,
    DenseBlock,
    TCBlock,
    blocks_for,
    dilations_for,
    later,
    seen_with_ends,
)


def lags_of(dilations):
    """How far back a stack of two-tap convolutions reads: every sum of some of its dilations."""
    lags = {0}
    for dilation in dilations:
        lags |= {lag + dilation for lag in lags}
    return lags


def seen(block, T, C):
    """(T, T) which inputs move which outputs, by gradients of the added channels."""
    x = torch.randn(1, T, C, dtype=torch.float64, requires_grad=True)
    added = block.double()(x)[..., C:]
    rows = [torch.autograd.grad(added[0, t].sum(), x, retain_graph=True)[0][0] for t in range(T)]
    return torch.stack([row.abs().sum(-1) > 0 for row in rows])


@pytest.mark.parametrize("dilation", [1, 2, 3, 7])
def test_a_dense_block_is_the_paper_s_in_loops(dilation):
    block = DenseBlock(inputs=3, dilation=dilation, filters=2).double()
    x = torch.randn(2, 6, 3, dtype=torch.float64)
    W = {"W_now": block.now.weight, "b_now": block.now.bias, "W_before": block.before.weight}
    numbers = {name: value.tolist() for name, value in W.items()}
    expected = [oracle.dense(row, dilation=dilation, **numbers) for row in x.tolist()]
    torch.testing.assert_close(block(x), torch.tensor(expected, dtype=torch.float64))


def test_a_dense_block_is_a_convolution_with_padding_on_the_left():
    block = DenseBlock(inputs=3, dilation=2, filters=4).double()
    x = torch.randn(2, 9, 3, dtype=torch.float64)
    kernel = torch.stack([block.before.weight, block.now.weight], -1)  # (2 D, C, 2)
    padded = torch.nn.functional.pad(x.mT, (2, 0))
    f, g = torch.nn.functional.conv1d(padded, kernel, block.now.bias, dilation=2).mT.chunk(2, -1)
    torch.testing.assert_close(block(x)[..., 3:], f.tanh() * g.sigmoid())


def test_an_attention_block_is_the_paper_s_in_loops():
    block = AttentionBlock(inputs=3, keys=4, values=2).double()
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    numbers = {}
    for letter, part in (("q", block.query), ("k", block.keys), ("v", block.values)):
        numbers[f"W_{letter}"], numbers[f"b_{letter}"] = part.weight.tolist(), part.bias.tolist()
    expected = [oracle.attention(row, **numbers) for row in x.tolist()]
    torch.testing.assert_close(block(x), torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(
    ("dilations", "lags"),
    [("doubling", set(range(16))), ("printed", set(range(0, 32, 2)))],
    ids=["doubling", "printed"],
)
def test_the_receptive_field_is_every_lag_or_every_even_lag(dilations, lags):
    block = TCBlock(inputs=3, steps=16, filters=4, dilations=dilations)
    T = 40  # longer than the stack reads
    assert lags_of(block.dilations) == lags
    for t, row in enumerate(seen(block, T, 3)):
        assert {t - s for s in row.nonzero().flatten().tolist()} == {lag for lag in lags if lag <= t}


def test_three_printed_dilations_read_the_even_lags_up_to_fourteen():
    assert lags_of((2, 4, 8)) == set(range(0, 16, 2))
    assert lags_of((1, 2, 4, 8)) == set(range(16))


def test_attention_sees_every_step_up_to_its_own_and_none_behind():
    assert torch.equal(seen(AttentionBlock(inputs=3, keys=4, values=2), 12, 3), torch.ones(12, 12).tril() > 0)


@pytest.mark.parametrize("kind", ["doubling", "printed", "attention"])
def test_what_comes_later_changes_nothing(kind):
    if kind == "attention":
        block = AttentionBlock(inputs=3, keys=4, values=2)
    else:
        block = TCBlock(inputs=3, steps=8, filters=4, dilations=kind)
    x = torch.randn(2, 8, 3)
    changed = x.clone()
    changed[:, 5:] = torch.randn(2, 3, 3)
    assert torch.equal(block(x)[:, :5], block(changed)[:, :5])


def test_the_number_of_dense_blocks_is_the_binary_logarithm_rounded_up():
    assert [blocks_for(T) for T in (1, 2, 3, 4, 6, 21, 26, 101)] == [1, 1, 2, 2, 3, 5, 5, 7]
    assert dilations_for(6, "doubling") == (1, 2, 4)
    assert dilations_for(6, "printed") == (2, 4, 8)


def test_every_block_keeps_its_input_and_says_how_wide_it_is():
    x = torch.randn(2, 6, 5)
    for block, width in (
        (TCBlock(inputs=5, steps=6, filters=4), 5 + 3 * 4),
        (AttentionBlock(inputs=5, keys=4, values=7), 12),
    ):
        assert block(x).shape == (2, 6, width)
        assert block.outputs == width
        assert torch.equal(block(x)[..., :5], x)


def test_every_parameter_learns():
    parts = TCBlock(inputs=5, steps=6, filters=4), AttentionBlock(inputs=17, keys=4, values=7)
    block = torch.nn.Sequential(*parts).double()
    block(torch.randn(2, 6, 5, dtype=torch.float64)).square().sum().backward()
    still = [name for name, p in block.named_parameters() if p.grad.abs().max() < 1e-12]
    assert still == ["1.keys.bias"]  # a shift of all keys moves all scores of a query alike


def test_moving_further_than_the_sequence_leaves_nothing():
    x = torch.randn(1, 3, 2)
    assert torch.equal(later(x, 1)[:, 1:], x[:, :2])
    assert not later(x, 3).any()
    assert later(x, 8).shape == x.shape


def test_what_is_wrong_is_said():
    with pytest.raises(ConfigError, match=r"^DenseBlock: `dilation` has 0; expected 1 or more\.$"):
        DenseBlock(inputs=2, dilation=0, filters=2)
    message = r"^TCBlock: `dilations` has 'print'; expected one of doubling, printed\.$"
    with pytest.raises(ConfigError, match=message):
        TCBlock(inputs=2, steps=4, filters=2, dilations="print")
    with pytest.raises(ShapeError, match=r"^TCBlock: `x` has shape \(4, 2\); expected \(B, T, C\)\.$"):
        TCBlock(inputs=2, steps=4, filters=2)(torch.randn(4, 2))


@pytest.mark.parametrize("dilations", ["doubling", "printed"])
def test_one_step_at_a_time_gives_what_the_whole_sequence_gives(dilations):
    torch.manual_seed(offset_seed(0))
    tc = TCBlock(inputs=5, steps=11, filters=3, dilations=dilations)
    blocks = Blocks(tc, AttentionBlock(inputs=tc.outputs, keys=4, values=6)).double()
    x = torch.randn(2, 11, 5, dtype=torch.float64)
    state, found = blocks.start(2), []
    for t in range(11):
        y, state = blocks.step(x[:, t], state)
        found.append(y)
    torch.testing.assert_close(torch.stack(found, 1), blocks(x))


@pytest.mark.parametrize("S", [1, 2, 7])
@pytest.mark.parametrize(
    "build",
    [
        lambda: DenseBlock(inputs=3, dilation=1, filters=2),
        lambda: DenseBlock(inputs=3, dilation=5, filters=2),
        lambda: TCBlock(inputs=3, steps=8, filters=2),
        lambda: AttentionBlock(inputs=3, keys=4, values=2),
        lambda: Blocks(AttentionBlock(inputs=3, keys=4, values=2), TCBlock(inputs=5, steps=8, filters=2)),
    ],
    ids=["dense-1", "dense-5", "tc", "attention", "blocks"],
)
def test_several_ends_are_sequences_of_their_own(build, S):
    block = build().double()
    x = torch.randn(2, S + 3, 3, dtype=torch.float64)
    together = block(x, 3)
    for end in range(3):
        alone = block(torch.cat([x[:, :S], x[:, [S + end]]], 1))
        torch.testing.assert_close(together[:, S + end], alone[:, -1])
        torch.testing.assert_close(together[:, :S], alone[:, :-1])


def test_one_end_is_a_plain_causal_sequence():
    assert seen_with_ends(5, 1, torch.device("cpu")) == Mask(causal=True)


def test_blocks_that_begin_alike_look_at_what_is_like_the_query():
    """The first scores are x_t · P x_s; with as many keys as inputs P changes nothing."""
    block = AttentionBlock(inputs=4, keys=4, values=2, alike=True).double()
    x = torch.randn(1, 6, 4, dtype=torch.float64)
    scores = block.attention.align(block.query(x), block.attention.prepare(block.keys(x))).scores
    torch.testing.assert_close(scores, x @ x.mT, rtol=1e-5, atol=1e-5)  # the matrix was drawn in float32
    assert block.keys.weight is not block.query.weight  # and then they learn apart
