"""The heads of a Neural Turing Machine against Graves 2014 number by number, and what no step may break."""

import pytest
import torch
from oracles import heads as oracle
from torch.autograd import gradcheck
from torch.testing import assert_close

from regard.attention.memory.cells import MemoryState, product, write
from regard.attention.memory.heads import Controls, Heads, address, advance, squash
from regard.errors import ConfigError

B, N, M, n = 2, 6, 4, 5


def state(R, W, rows=N):
    weights = torch.randn(B, R + W, rows, dtype=torch.float64).softmax(-1)
    return MemoryState(torch.randn(B, rows, M, dtype=torch.float64), weights[:, :R], weights[:, R:])


def fixed(*, H=1, W=1, shift=1, gate=0.0, key=None, erase=1.0, add=None, strength=1.0, gamma=1.0):
    """Controls by hand for one sequence: shift is -1, 0 or 1 for all heads."""
    shifts = torch.zeros(1, H, 3)
    shifts[..., shift + 1] = 1.0
    return Controls(
        key=torch.zeros(1, H, M) if key is None else key,
        strength=torch.full((1, H, 1), strength),
        gate=torch.full((1, H, 1), gate),
        shifts=shifts,
        gamma=torch.full((1, H, 1), gamma),
        erase=torch.full((1, W, M), erase),
        add=torch.zeros(1, W, M) if add is None else add,
    )


@pytest.mark.parametrize(("R", "W", "reach"), [(1, 1, 1), (3, 2, 2), (1, 4, 0), (2, 3, 7)])
def test_a_step_equals_the_paper_number_by_number(R, W, reach):
    sizes = {"width": M, "reads": R, "writes": W, "reach": reach}
    heads = Heads(inputs=n, **sizes).double()
    before, h = state(R, W), torch.randn(B, n, dtype=torch.float64)
    reads, after = advance(before, heads(h))
    spoken = heads.speak(h).tolist()
    for b in range(B):
        controls = oracle.controls(spoken[b], **sizes)
        previous = torch.cat([before.read, before.write], 1)[b].tolist()
        cells, weights, read = oracle.advance(before.cells[b].tolist(), previous, controls, R)
        assert_close(after.cells[b], torch.tensor(cells, dtype=torch.float64))
        assert_close(torch.cat([after.read, after.write], 1)[b], torch.tensor(weights, dtype=torch.float64))
        assert_close(reads[b], torch.tensor(read, dtype=torch.float64))


def test_controls_keep_their_ranges_however_loudly_the_controller_speaks():
    spoken = torch.randn(50, 2 * (M + 6) + 2 * M) * 1000
    controls = squash(spoken, width=M, reads=1, writes=1, reach=1)
    assert (controls.strength >= 0).all()
    assert (controls.gamma >= 1).all()
    assert ((controls.gate >= 0) & (controls.gate <= 1)).all()
    assert_close(controls.shifts.sum(-1), torch.ones(50, 2))
    assert (controls.add.abs() <= 1).all()
    assert (controls.key.abs() <= 1).all()


def test_weightings_stay_distributions_over_many_steps_of_loud_heads():
    heads = Heads(inputs=n, width=M, reads=2, writes=2, reach=1)
    now = MemoryState(*(part.float() for part in state(2, 2)))
    for _ in range(60):
        _, now = advance(now, heads(50 * torch.randn(B, n)))
        for weights in (now.read, now.write):
            assert (weights >= 0).all()
            assert_close(weights.sum(-1), torch.ones(B, 2))
        assert now.cells.isfinite().all()


def test_a_closed_gate_and_no_shift_keep_the_head_where_it_stood():
    previous = torch.randn(1, 1, N).softmax(-1)
    assert_close(address(torch.randn(1, N, M), previous, fixed(shift=0)), previous)


def test_a_shift_of_one_steps_round_the_end():
    previous = torch.eye(N)[None, N - 1 :]
    assert_close(address(torch.randn(1, N, M), previous, fixed(shift=1)), torch.eye(N)[None, :1])


def test_an_open_gate_finds_the_row_most_like_the_key():
    cells = torch.randn(1, N, M)
    found = address(
        cells, torch.eye(N)[None, :1], fixed(shift=0, gate=1.0, key=cells[:, 4:5], strength=200.0)
    )
    assert found.argmax() == 4


def test_a_sequence_longer_than_the_memory_overwrites_its_beginning():
    vectors = torch.arange(6.0)[:, None].expand(6, M) + 1
    now = MemoryState(torch.zeros(1, 4, M), torch.eye(4)[None, :1], torch.eye(4)[None, 3:])
    for vector in vectors:
        controls = fixed(H=2, add=vector[None, None])
        _, now = advance(now, controls)
    assert_close(now.cells[0, :, 0], torch.tensor([5.0, 6.0, 3.0, 4.0]))


def test_a_read_sees_what_was_written_in_the_same_step():
    now = MemoryState(torch.zeros(1, N, M), torch.eye(N)[None, :1], torch.eye(N)[None, :1])
    reads, _ = advance(now, fixed(H=2, add=torch.full((1, 1, M), 0.5)))
    assert_close(reads, torch.full((1, 1, M), 0.5))


def test_an_empty_memory_and_a_silent_key_give_finite_gradients():
    cells = torch.zeros(1, N, M, requires_grad=True)
    key = torch.zeros(1, 1, M, requires_grad=True)
    gamma = torch.full((1, 1, 1), 40.0, requires_grad=True)
    controls = fixed(shift=1, gate=0.5, key=key)._replace(gamma=gamma)
    weights = address(cells, torch.eye(N)[None, :1], controls)
    weights.square().sum().backward()
    assert weights.isfinite().all()
    for leaf in (cells, key, gamma):
        assert leaf.grad.isfinite().all()


def test_a_whole_step_has_the_right_gradient():
    heads = Heads(inputs=n, width=M, reads=1, writes=2, reach=1).double()
    before = state(1, 2)

    def step(h, cells):
        reads, after = advance(before._replace(cells=cells), heads(h))
        return reads, after.cells, after.read

    h = torch.randn(B, n, dtype=torch.float64, requires_grad=True)
    assert gradcheck(step, (h, before.cells.requires_grad_()))


@pytest.mark.parametrize("H", [1, 2, 3, 4, 7])
def test_the_product_by_halves_is_the_product_also_with_zeros(H):
    factors = torch.randn(B, H, 3, dtype=torch.float64)
    factors[0, 0, 0] = 0.0
    assert_close(product(factors), factors.prod(1))
    assert gradcheck(product, factors.requires_grad_())


def test_writing_erases_completely_where_weight_and_erase_are_one():
    cells, row = torch.randn(1, N, M), torch.eye(N)[None, 2:3]
    add = torch.randn(1, 1, M)
    new = write(cells, row, torch.ones(1, 1, M), add)
    assert torch.equal(new[0, 2], add[0, 0])
    assert torch.equal(new[0, 3], cells[0, 3])


@pytest.mark.parametrize("name", ["width", "reads", "writes"])
def test_heads_need_at_least_one_of_everything(name):
    sizes = {"width": 3, "reads": 1, "writes": 1} | {name: 0}
    with pytest.raises(ConfigError, match=rf"^Heads: `{name}` has 0; expected 1 or more\.$"):
        Heads(inputs=2, **sizes)


def test_a_negative_reach_is_refused():
    with pytest.raises(ConfigError, match=r"^Heads: `reach` has -1; expected 0 or more\.$"):
        Heads(inputs=2, width=3, reach=-1)
