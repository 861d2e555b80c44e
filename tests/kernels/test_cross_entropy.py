"""The loss of two passes in closed form beside the textbook's, in every precision and in any chunks."""

import pytest
import torch
from kernels.capturing import captured
from kernels.cross_entropy_cases import WORDS, check, gradient_of, scores_of
from kernels.interpreting import check_in_interpreter

from regard.errors import KernelRefused
from regard.kernels.training import cross_entropy
from regard.kernels.training.cross_entropy import CROSS_ENTROPY, cross_entropy_of_two


def ours(smoothing, weight=3.0, words=WORDS):
    return lambda z: cross_entropy_of_two(z, words, smoothing=smoothing, weight=weight)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weight", [0.0, 3.0])
def test_the_gradient_is_that_of_the_loss(smoothing, weight):
    assert torch.autograd.gradcheck(ours(smoothing, weight), scores_of(torch.float64).requires_grad_())


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_it_is_what_the_textbooks_formula_gives(smoothing, dtype):
    check(ours(smoothing), scores_of(dtype), WORDS, smoothing, 3.0)


def test_large_scores_lose_nothing():
    check(ours(0.1), scores_of(scale=40.0), WORDS, 0.1, 3.0)


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_chunks_of_rows_make_no_difference(rows, monkeypatch):
    scores = scores_of()
    whole = gradient_of(ours(0.1), scores)
    monkeypatch.setattr(cross_entropy, "CHUNK", rows * scores.shape[-1])
    for found, expected in zip(gradient_of(ours(0.1), scores), whole, strict=True):
        torch.testing.assert_close(found, expected)


def test_rows_that_count_nothing_get_no_gradient():
    _, slope = gradient_of(ours(0.1), scores_of())
    assert torch.equal(slope[2::5], torch.zeros_like(slope[2::5]))
    assert (slope.abs().sum(-1) > 0).tolist() == [True, True, False, True, True] * 2


def test_no_row_at_all_costs_nothing():
    loss, slope = gradient_of(ours(0.1, words=WORDS[:0]), scores_of()[:0])
    assert loss == 0
    assert slope.shape == (0, 13)


def test_without_a_gradient_the_loss_is_the_same():
    scores = scores_of()
    loss, _ = gradient_of(ours(0.1), scores)
    assert torch.equal(ours(0.1)(scores), loss)


def test_a_loss_scale_reaches_gradients_too_small_for_half_precision():
    scores = scores_of(torch.float16, scale=0.1)
    scores[:, 5] = -16.0  # p is e^-18, 1.5e-8: in float16 nothing
    _, slope = gradient_of(ours(0.0), scores, factor=2.0**16)
    assert (slope[[0, 1, 3, 4], 5] > 0).all()


def test_autocast_changes_nothing():
    scores = scores_of(torch.bfloat16)
    expected = gradient_of(ours(0.1), scores)
    with torch.autocast("cpu", torch.bfloat16):
        found = gradient_of(ours(0.1), scores)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_gradient_of_the_gradient_is_refused():
    scores = scores_of().requires_grad_()
    with pytest.raises(KernelRefused, match=r"no second derivative; expected one backward pass\.$"):
        torch.autograd.grad(ours(0.1)(scores), scores, create_graph=True)


def test_nothing_of_the_size_of_the_scores_is_made_but_the_gradient(monkeypatch):
    """Of 400 rows, ten of each pass at a time."""
    made = []

    class Watching(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            given = {x.untyped_storage().data_ptr() for x in args if isinstance(x, torch.Tensor)}
            if isinstance(out, torch.Tensor) and out.untyped_storage().data_ptr() not in given:
                made.append((out.numel(), function))
            return out

    scores, words = scores_of(torch.bfloat16, rows=200, size=50), torch.arange(200) % 50
    monkeypatch.setattr(cross_entropy, "CHUNK", 10 * 50)
    scores.requires_grad_()
    with Watching():
        cross_entropy_of_two(scores, words, smoothing=0.1, weight=3.0).backward()
    large = [function for size, function in made if size > 4 * 10 * 50]
    assert large == [torch.ops.aten.empty_like.default, torch.ops.aten.mul.Tensor]  # by the upstream one


def test_the_triton_kernel_in_the_interpreter():
    check_in_interpreter("cross_entropy_interpreted.py")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
@pytest.mark.parametrize("triton", [False, True])
class TestOnAGPU:
    @pytest.fixture(autouse=True)
    def _way(self, triton, monkeypatch):
        if not triton:
            monkeypatch.setattr(CROSS_ENTROPY, "refuses", lambda call: "this is a test")

    @pytest.mark.parametrize("size", [13, 2048, 8000])
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_it_is_what_the_textbooks_formula_gives(self, size, dtype):
        scores, words = scores_of(dtype, size=size).cuda(), WORDS.cuda()
        check(ours(0.1, words=words), scores, words, 0.1, 3.0)

    def test_it_can_be_captured(self):
        scores, words = scores_of().cuda().requires_grad_(), WORDS.cuda()
        function = ours(0.1, words=words)
        expected = gradient_of(function, scores, factor=1.0)
        scores.grad = torch.zeros_like(scores)

        def step():
            loss = function(scores)
            loss.backward()
            return loss

        graph, loss = captured(step)
        scores.grad.zero_()
        graph.replay()
        torch.testing.assert_close(loss.detach(), expected[0])
        torch.testing.assert_close(scores.grad, expected[1])
