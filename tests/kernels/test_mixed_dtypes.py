"""Query, keys, values and weights of different dtypes: right on every path, whatever a loop can read."""

from itertools import product

import pytest
import torch

from regard.attention.build import Sizes, build_attention
from regard.attention.compose import Attention
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.scores.cosine import CosineScore
from regard.attention.source import Source
from regard.errors import KernelRefused
from regard.kernels.sparsemax import sparsemax_attention

SIZES = Sizes(query=8, keys=8, hidden=8, positions=64, half_width=3)
SCORES = ("dot", "scaled-dot", "general", "cosine", "additive", "location", "location-aware", "feedforward")
TOLERANCE = {torch.bfloat16: 0.1, torch.float32: 1e-4, torch.float64: 1e-4}


@pytest.mark.parametrize("window", ["global", "local-monotonic"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
@pytest.mark.parametrize("score", SCORES)
def test_any_dtypes_give_what_the_widest_gives(score, normalizer, window):
    attention = build_attention(score, SIZES, normalizer=normalizer, window=window).eval()
    exact = build_attention(score, SIZES, normalizer=normalizer, window=window).double().eval()
    exact.kernel = "reference"
    exact.load_state_dict(attention.state_dict())
    query, keys, values = torch.randn(2, 6, 8), torch.randn(2, 40, 8), torch.randn(2, 40, 8)

    def answer(part, *tensors):
        source = Source(tensors[1], tensors[2], Mask())
        return part(tensors[0], source, history=History.start(source)).context

    for dtypes in product(TOLERANCE, repeat=3):
        rounded = [x.to(dtype) for x, dtype in zip((query, keys, values), dtypes, strict=True)]
        expected = answer(exact, *(x.double() for x in rounded))
        for weights in (torch.float32, torch.float64):
            found = answer(attention.to(weights), *rounded)
            assert found.dtype is dtypes[2]
            # float64 weights may make more digits of a bfloat16 query than float32 ones do
            tolerance = max(TOLERANCE[dtypes[0]], TOLERANCE[dtypes[2]])
            torch.testing.assert_close(found.double(), expected, atol=tolerance, rtol=tolerance)


def test_the_loops_of_sparsemax_refuse_keys_that_they_cannot_read():
    attention = Attention(CosineScore(), normalizer=Sparsemax(), kernel="sparsemax")
    query, values = torch.randn(2, 6, 8), torch.randn(2, 40, 8)
    source = attention.prepare(torch.randn(2, 40, 8, dtype=torch.float64), values)
    with pytest.raises(KernelRefused, match=r"dtype is torch\.float64, which goes to the reference"):
        attention(query, source)


def test_sparsemax_of_float64_scores_reads_float64():
    scores = torch.randn(3, 50, dtype=torch.float64)
    assert torch.equal(sparsemax_attention.rows(scores), Sparsemax()(scores))


@pytest.mark.parametrize("score", ["additive", "feedforward"])
def test_a_query_that_is_not_in_the_dtype_of_the_weights_goes_to_the_reference(score):
    attention = build_attention(score, SIZES).double().eval()
    query, source = torch.randn(2, 6, 8), Source(torch.randn(2, 40, 8), torch.randn(2, 40, 8), Mask())
    explanation = attention.explain(query, source)
    assert explanation.kernel == "reference"
    assert "dtype" in str(explanation)
