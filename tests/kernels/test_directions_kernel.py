"""Cosine's query in one kernel beside the score's own."""

import pytest
import torch
from kernels.directions_cases import check
from kernels.interpreting import check_in_interpreter

from regard import Attention, CosineScore
from regard.kernels import directions


def test_the_kernel_in_the_interpreter():
    check_in_interpreter("directions_interpreted.py")


def test_on_a_cpu_it_does_not_run():
    assert not directions.runs_fused(torch.zeros(2, 3, 4, dtype=torch.bfloat16))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_source_of_cosines_has_the_precision_of_its_keys(dtype):
    keys = torch.randn(2, 5, 8).to(dtype)
    source = Attention(CosineScore()).prepare(keys)
    assert source.keys.dtype == dtype
    exact = keys.double() / keys.double().norm(dim=-1, keepdim=True)
    torch.testing.assert_close(source.keys.double(), exact, rtol=torch.finfo(dtype).eps / 2 + 2e-7, atol=0)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
class TestOnAGPU:
    @pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
    @pytest.mark.parametrize("shape", [(3, 5, 7), (8, 1024, 128), (2, 1, 1), (50, 1000)], ids=str)
    @pytest.mark.parametrize("learnt", [True, False])
    def test_it_is_the_query_that_the_score_makes(self, learnt, shape, dtype):
        check(shape, learnt=learnt, dtype=dtype, tolerance=torch.finfo(dtype).eps, device="cuda")

    def test_attention_is_within_twice_the_error_of_the_reference(self):
        from regard.bench import parity, problems

        cosine = next(m for m in problems.MECHANISMS if m.name == "cosine")
        size = problems.Size(1, 512, 64)
        made = [problems.make(cosine, size, "cuda", torch.bfloat16, seed=seed) for seed in range(2)]
        assert parity.compare(made, "sdpa", training=True).broken is None
