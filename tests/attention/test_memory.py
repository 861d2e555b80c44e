"""The memory of a Neural Turing Machine against Graves 2014, as loops over scalars, and by hand."""

import pytest
import torch
from oracles import ntm
from torch.autograd import gradcheck
from torch.testing import assert_close

from regard.attention.memory.addressing import content_weights, interpolate, sharpen, shift
from regard.attention.memory.cells import MemoryState, read, write

B, H, N, M = 2, 3, 7, 5


def simplex(*shape):
    return torch.randn(*shape).double().softmax(-1)


def rows(function, *tensors):
    """The oracle for each batch row; tensors of one number each arrive as numbers."""
    lists = [tensor.tolist() for tensor in tensors]
    numbers = [[part[0] if len(part) == 1 else part for part in parts] for parts in zip(*lists, strict=True)]
    out = [function(*parts) for parts in numbers]
    return torch.tensor(out, dtype=torch.float64)


def test_content_weights():
    cells, key, strength = (
        torch.randn(B, N, M).double(),
        torch.randn(B, M).double(),
        3 * torch.rand(B, 1).double(),
    )
    assert_close(content_weights(cells, key, strength), rows(ntm.content, cells, key, strength))


def test_interpolate():
    content, previous, gate = simplex(B, N), simplex(B, N), torch.rand(B, 1).double()
    assert_close(interpolate(content, previous, gate), rows(ntm.interpolate, content, previous, gate))


@pytest.mark.parametrize("width", [3, 5, 7])
def test_shift(width):
    weights, shifts = simplex(B, N), simplex(B, width)
    assert_close(shift(weights, shifts), rows(ntm.shift, weights, shifts))


def test_shift_wraps_round_a_memory_smaller_than_the_filter():
    weights, shifts = simplex(B, 2), simplex(B, 5)
    assert_close(shift(weights, shifts), rows(ntm.shift, weights, shifts))


def test_sharpen():
    weights, gamma = simplex(B, N), 1 + 3 * torch.rand(B, 1).double()
    assert_close(sharpen(weights, gamma), rows(ntm.sharpen, weights, gamma))


def test_read_and_write_with_one_head():
    cells, weights = torch.randn(B, N, M).double(), simplex(B, N)
    erase, add = torch.rand(B, M).double(), torch.randn(B, M).double()
    assert_close(read(cells, weights), rows(ntm.read, cells, weights))
    expected = rows(lambda c, w, e, a: ntm.write(c, [(w, e, a)]), cells, weights, erase, add)
    before = cells.clone()
    assert_close(write(cells, weights, erase, add), expected)
    assert torch.equal(cells, before)


def test_read_and_write_with_several_heads():
    cells, weights = torch.randn(B, N, M).double(), simplex(B, H, N)
    erase, add = torch.rand(B, H, M).double(), torch.randn(B, H, M).double()
    for h in range(H):
        assert_close(read(cells, weights)[:, h], rows(ntm.read, cells, weights[:, h]))
    expected = rows(
        lambda c, w, e, a: ntm.write(c, list(zip(w, e, a, strict=True))), cells, weights, erase, add
    )
    new = write(cells, weights, erase, add)
    assert_close(new, expected)
    order = torch.tensor([2, 0, 1])
    assert_close(write(cells, weights[:, order], erase[:, order], add[:, order]), new)


def test_heads_are_a_leading_axis_of_addressing():
    cells, key, strength = (
        torch.randn(B, N, M).double(),
        torch.randn(B, H, M).double(),
        torch.rand(B, H, 1).double(),
    )
    weights = content_weights(cells[:, None], key, strength)
    for h in range(H):
        assert_close(weights[:, h], content_weights(cells, key[:, h], strength[:, h]))


def test_a_closed_gate_an_unmoved_shift_and_no_sharpening_keep_the_weights():
    previous, content = simplex(B, N), simplex(B, N)
    gated = interpolate(content, previous, torch.zeros(B, 1).double())
    stay = torch.tensor([0.0, 1.0, 0.0]).double().expand(B, 3)
    assert_close(sharpen(shift(gated, stay), torch.ones(B, 1).double()), previous)
    assert_close(interpolate(content, previous, torch.ones(B, 1).double()), content)


def test_a_shift_of_one_rotates_the_weights_round_the_end():
    weights = torch.tensor([[0.1, 0.2, 0.7]])
    forward, back = torch.tensor([[0.0, 0.0, 1.0]]), torch.tensor([[1.0, 0.0, 0.0]])
    assert_close(shift(weights, forward), torch.tensor([[0.7, 0.1, 0.2]]))
    assert_close(shift(weights, back), torch.tensor([[0.2, 0.7, 0.1]]))


def test_the_paper_s_shift_of_6_7():
    """Section 3.3.2: a shift of 6.7 puts 0.3 on 6 and 0.7 on 7. From row 1 of 10: rows 7 and 8."""
    shifts = torch.zeros(1, 15)  # offsets -7 .. 7
    shifts[0, 7 + 6], shifts[0, 7 + 7] = 0.3, 0.7
    weights = torch.zeros(1, 10)
    weights[0, 1] = 1
    expected = torch.zeros(1, 10)
    expected[0, 7], expected[0, 8] = 0.3, 0.7
    assert_close(shift(weights, shifts), expected)


def test_sharpening_by_hand():
    """0.36, 0.09, 0.01 divided by 0.46."""
    result = sharpen(torch.tensor([[0.6, 0.3, 0.1]]), torch.tensor([[2.0]]))
    assert_close(result, torch.tensor([[0.36, 0.09, 0.01]]) / 0.46)


def test_sharpening_survives_large_gamma_and_zero_weights():
    weights = torch.tensor([[0.5, 0.3, 0.2, 0.0]], requires_grad=True)
    result = sharpen(weights, torch.tensor([[1000.0]]))
    assert_close(result, torch.tensor([[1.0, 0.0, 0.0, 0.0]]))
    (grad,) = torch.autograd.grad(result[0, 0], weights)
    assert torch.isfinite(grad).all()
    assert sharpen(weights, torch.ones(1, 1))[0, 3] < 1e-30


def test_erasing_all_and_adding_writes_the_row_exactly():
    cells, add = torch.randn(B, N, M), torch.randn(B, M)
    place = torch.nn.functional.one_hot(torch.tensor([2, 5]), N).float()
    new = write(cells, place, torch.ones(B, M), add)
    assert torch.equal(read(new, place), add)
    untouched = place == 0
    assert torch.equal(new[untouched], cells[untouched])


def test_a_large_strength_looks_up_the_nearest_direction():
    cells = torch.randn(B, N, M)
    weights = content_weights(cells, 7 * cells[:, 4], torch.full((B, 1), 1000.0))
    assert_close(weights[:, 4], torch.ones(B))


def test_an_empty_memory_is_addressed_evenly_with_a_moderate_gradient():
    cells = torch.zeros(B, N, M, requires_grad=True)
    weights = content_weights(cells, torch.randn(B, M), torch.ones(B, 1))
    assert_close(weights, torch.full((B, N), 1 / N))
    weights[:, 0].sum().backward()
    assert cells.grad.abs().max() < 10


def stage(cells, key, strength, previous, gate, shifts, gamma):
    content = content_weights(cells, key, strength)
    gated = interpolate(content, previous, gate)
    moved = shift(gated, shifts)
    return content, gated, moved, sharpen(moved, gamma)


def arguments():
    return (
        torch.randn(B, N, M).double(),
        torch.randn(B, M).double(),
        1 + torch.rand(B, 1).double(),
        simplex(B, N),
        torch.rand(B, 1).double(),
        simplex(B, 3),
        1 + torch.rand(B, 1).double(),
    )


def test_weights_stay_on_the_simplex_through_every_stage():
    for weights in stage(*arguments()):
        assert (weights >= 0).all()
        assert_close(weights.sum(-1), torch.ones(B).double())


def test_the_whole_step_agrees_with_differences():
    inputs = [x.requires_grad_() for x in arguments()]
    erase, add = torch.rand(B, M).double().requires_grad_(), torch.randn(B, M).double().requires_grad_()

    def step(*tensors):
        weights = stage(*tensors[:-2])[-1]
        new = write(tensors[0], weights, *tensors[-2:])
        return new, read(new, weights)

    assert gradcheck(step, (*inputs, erase, add), fast_mode=True)


def test_addressing_keeps_float32_under_autocast():
    inputs = [x.float() for x in arguments()]
    inputs[2] = inputs[2] * 20  # a strength that shows what a rounded cosine loses
    exact = stage(*inputs)
    with torch.autocast("cpu", torch.bfloat16):
        for weights, expected in zip(stage(*inputs), exact, strict=True):
            assert_close(weights, expected, atol=1e-5, rtol=1e-5)


def test_the_state_is_a_value():
    state = MemoryState(torch.zeros(B, N, M), torch.zeros(B, 1, N), torch.zeros(B, 2, N))
    assert state._replace(read=state.write).read is state.write
