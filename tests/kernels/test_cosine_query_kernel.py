"""Cosine's query in one kernel beside the score's own."""

import pytest
import torch
from kernels.cosine_query_cases import check
from kernels.error_rule import assert_rule
from kernels.interpreting import check_in_interpreter

from regard import Attention, CosineScore
from regard.bench import parity
from regard.bench.rule import UNITS
from regard.kernels.product import cosine_query


def test_the_kernel_in_the_interpreter():
    check_in_interpreter("cosine_query_interpreted.py")


def test_on_a_cpu_it_does_not_run():
    query = torch.zeros(2, 3, 4, dtype=torch.bfloat16)
    assert "on cpu" in cosine_query.COSINE_QUERY.refuses((CosineScore(), query))


def cosine_attention(query, keys, values, grad, *, kernel, strength):
    attention = Attention(CosineScore(strength=strength), kernel=kernel)
    leaves = [x.detach().clone().requires_grad_() for x in (query, keys, values)]
    context = attention(leaves[0], attention.prepare(*leaves[1:])).context
    return [context.detach(), *torch.autograd.grad(context, leaves, grad)]


@pytest.mark.parametrize("strength", [1.0, 5.0, 6.0, 20.0])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_rounded_directions_keep_the_error_rule(dtype, strength):
    """The reference keeps unit keys and directions in full precision; so do strengths beyond STRONGEST."""
    inputs = [torch.randn(2, 512, 64).to(dtype) for _ in range(4)]
    wide = [x.double() for x in inputs]
    assert_rule(
        (
            lambda: cosine_attention(*inputs, kernel="sdpa", strength=strength),
            lambda: cosine_attention(*inputs, kernel="reference", strength=strength),
            lambda: cosine_attention(*wide, kernel="reference", strength=strength),
        ),
        draws=1,
    )


def test_a_source_of_cosines_keeps_its_unit_keys_exact():
    keys = torch.randn(2, 5, 8, dtype=torch.bfloat16)
    found = Attention(CosineScore()).prepare(keys).keys
    assert found.dtype == torch.float32
    exact = keys.double() / keys.double().norm(dim=-1, keepdim=True)
    torch.testing.assert_close(found.double(), exact, rtol=UNITS * torch.finfo(torch.float32).eps, atol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
class TestOnAGPU:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("shape", [(3, 5, 7), (8, 1024, 128), (2, 1, 1), (50, 1000)], ids=str)
    @pytest.mark.parametrize("learnt", [True, False])
    def test_it_is_the_query_that_the_score_makes(self, learnt, shape, dtype):
        check(shape, learnt=learnt, dtype=dtype, device="cuda")

    def test_attention_keeps_the_error_rule(self):
        from regard.bench import problems

        cosine = next(m for m in problems.MECHANISMS if m.name == "cosine")
        size = problems.Size(1, 512, 64)
        made = [problems.make(cosine, size, "cuda", torch.bfloat16, seed=seed) for seed in range(2)]
        assert parity.compare(made, "sdpa", training=True).broken is None
