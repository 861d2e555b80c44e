"""Query, keys, values and weights of different dtypes: right on every path, whatever a loop can read."""

from copy import deepcopy
from itertools import product

import pytest
import torch
from built import built

from regard.attention.compose import Attention
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.parts import Sizes
from regard.attention.scores.cosine import CosineScore
from regard.attention.source import Source
from regard.bench.rule import WORST, units_of
from regard.errors import KernelRefused
from regard.kernels.sparsemax import sparsemax_attention

SIZES = Sizes(query=8, keys=8, hidden=8, positions=64, half_width=3)
SCORES = ("dot", "scaled-dot", "general", "cosine", "additive", "location", "location-aware", "feedforward")
DTYPES = (torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("window", ["global", "local-monotonic"])
@pytest.mark.parametrize("normalizer", ["softmax", "sparsemax"])
@pytest.mark.parametrize("score", SCORES)
def test_any_dtypes_give_what_the_widest_gives(score, normalizer, window):
    attention = built(score, SIZES, normalizer=normalizer, window=window).eval()
    exact = deepcopy(attention).double()
    exact.kernel = "reference"
    query, keys, values = torch.randn(2, 6, 8), torch.randn(2, 40, 8), torch.randn(2, 40, 8)

    def answer(part, *tensors):
        source = Source(tensors[1], tensors[2], Mask())
        return part(tensors[0], source, history=History.start(source)).context

    for dtypes in product(DTYPES, repeat=3):
        rounded = [x.to(dtype) for x, dtype in zip((query, keys, values), dtypes, strict=True)]
        expected = answer(exact, *(x.double() for x in rounded))
        # the query's projection is rounded to its precision, the context to that of the values
        coarsest = max(dtypes[0], dtypes[2], torch.float32, key=lambda dtype: torch.finfo(dtype).eps)
        tolerance = WORST * units_of(coarsest) * torch.finfo(coarsest).eps
        for weights in (torch.float32, torch.float64):
            found = answer(attention.to(weights), *rounded)
            assert found.dtype is dtypes[2]
            assert (found.double() - expected).norm() <= tolerance * expected.norm(), (dtypes, weights)


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
    attention = built(score, SIZES).double().eval()
    query, source = torch.randn(2, 6, 8), Source(torch.randn(2, 40, 8), torch.randn(2, 40, 8), Mask())
    explanation = attention.explain(query, source)
    assert explanation.kernel == "reference"
    assert "dtype" in str(explanation)
