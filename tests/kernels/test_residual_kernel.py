"""Dropout, sum and layer norm in one kernel beside PyTorch's own."""

import pytest
import torch
from kernels.capturing import captured
from kernels.interpreting import check_in_interpreter
from kernels.residual_cases import EPS, check, problem

from regard.errors import KernelRefused
from regard.kernels.training import residual
from regard.kernels.training.residual import normalized_sum
from regard.layers.transformer import BatchNorm, LayerNorm, PostNorm


def test_the_kernel_in_the_interpreter():
    check_in_interpreter("residual_interpreted.py")


@pytest.mark.parametrize("training", [True, False])
def test_on_a_cpu_a_sub_layer_is_closed_by_pytorch(training):
    closed = PostNorm(LayerNorm(16), 0.0).train(training)
    x = torch.randn(3, 16, dtype=torch.bfloat16)
    call = residual.Closing(x, x, closed.norm, closed.dropout, True)
    assert "on cpu" in residual.RESIDUAL_NORM.refuses(call)
    torch.testing.assert_close(closed.bfloat16()(x, torch.square), closed.norm(x + x.square()))


def as_on_a_gpu(monkeypatch):
    """Nothing but the parts themselves can be refused."""
    own = "the norm or the dropout is of another class, or has hooks"
    monkeypatch.setattr(residual.ResidualNorm, "refuses", lambda _, call: None if call.plain else own)


@pytest.mark.parametrize("path", ["norm", "dropout"])
def test_a_hook_on_a_part_is_called(path, monkeypatch):
    as_on_a_gpu(monkeypatch)
    monkeypatch.setattr(residual, "normalized_sum", lambda *_, **__: "fused")
    closed, x, seen = PostNorm(LayerNorm(16), 0.1), torch.randn(3, 16), []
    assert closed(x, torch.square) == "fused"
    closed.get_submodule(path).register_forward_hook(lambda *_: seen.append(path))
    assert closed(x, torch.square).shape == x.shape
    assert seen == [path]


def test_a_norm_of_ones_own_is_asked(monkeypatch):
    class Nothing(LayerNorm):
        def forward(self, x, valid=None):
            return torch.zeros_like(x)

    as_on_a_gpu(monkeypatch)
    assert not PostNorm(Nothing(16), 0.1)(torch.randn(3, 16), torch.square).any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
class TestOnAGPU:
    @pytest.mark.parametrize("dropout", [0.0, 0.3])
    @pytest.mark.parametrize(("rows", "width"), [(1, 24), (3000, 512), (50, 1000)])
    def test_it_is_dropout_then_sum_then_layer_norm(self, rows, width, dropout):
        given, upstream = problem(rows, width, device="cuda")
        check(given, upstream, dropout=dropout, device="cuda")

    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    def test_half_precision(self, dtype):
        given, upstream = problem(3000, 512, dtype=dtype, device="cuda")
        check(given, upstream, dropout=0.3, device="cuda", dtype=dtype)

    def test_a_captured_call_drops_something_else_each_time(self):
        given, upstream = problem(64, 512, dtype=torch.bfloat16, device="cuda")
        given = [t.requires_grad_() for t in given]

        def step():
            out = normalized_sum(*given, dropout=0.3, eps=EPS)
            out.backward(upstream)
            return out

        graph, out = captured(step)
        outs = []
        for _ in range(2):
            graph.replay()
            outs.append(out.detach().clone())
        assert (outs[0] != outs[1]).float().mean() > 0.3

    def test_a_post_norm_takes_it_in_training_under_autocast(self):
        closed = PostNorm(LayerNorm(512), 0.3).cuda()
        x = torch.randn(8, 5, 512, device="cuda")
        matrix = torch.nn.Linear(512, 512).cuda()
        with torch.autocast("cuda", torch.bfloat16):
            assert closed(x, matrix).dtype == torch.bfloat16
            assert closed.eval()(x, matrix).dtype == torch.float32
            other = PostNorm(BatchNorm(512), 0.3).cuda()
            assert other(x, matrix).dtype == torch.float32

    def test_a_gradient_of_the_gradient_is_refused(self):
        given, _ = problem(4, 16, dtype=torch.bfloat16, device="cuda")
        given[0].requires_grad_()
        out = normalized_sum(*given, dropout=0.0, eps=EPS)
        with pytest.raises(KernelRefused, match=r"no second derivative; expected one backward pass\.$"):
            torch.autograd.grad(out.sum(), given[0], create_graph=True)
