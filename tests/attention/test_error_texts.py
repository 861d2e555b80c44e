"""Every sentence that a wrong call of the core is answered with."""

import re

import pytest
import torch

from regard import (
    AdditiveScore,
    Attention,
    ConfigError,
    CosineScore,
    CoverageScore,
    DataError,
    DotScore,
    FeedForwardScore,
    GeneralScore,
    GumbelSoftmax,
    History,
    KernelRefused,
    LocationAwareScore,
    LocationScore,
    MaskError,
    MultiHead,
    RegardError,
    ShapeError,
    Softmax,
    attend,
)
from regard.attention.config import build_part
from regard.attention.memory.addressing import content_weights, shift
from regard.attention.memory.cells import read, write
from regard.attention.normalizers.base import Normalizer, StochasticNormalizer
from regard.attention.parts import Sizes
from regard.attention.scores.base import HistoryScore, Score
from regard.attention.windows.base import Window
from regard.errors import check_shapes

Q, K = torch.ones(2, 3, 5), torch.ones(2, 7, 5)  # B T Dq, B S Dk
WIDE = torch.ones(2, 7, 6)
HISTORY = History(torch.zeros(2, 1, 7), torch.zeros(2, 1, 7))
SIZES = Sizes(query=5, keys=6, hidden=3)


def additive():
    return AdditiveScore(query=5, keys=5, hidden=3)


def location_aware():
    return LocationAwareScore(query=5, keys=5, hidden=3, filters=2, width=3)


def coverage():
    return CoverageScore(query=5, keys=5, hidden=3)


SHAPES = {
    "Attention: `keys` has shape (5,); expected (..., S, Dk).": lambda: Attention(DotScore()).prepare(
        K[0, 0]
    ),
    "Attention: `values` has shape (2, 4, 8); expected (..., S=7, Dv).": lambda: Attention(
        DotScore()
    ).prepare(K, torch.randn(2, 4, 8)),
    "Attention: `query` has shape (5,); expected (..., T, Dq).": lambda: attend(Q[0, 0], K, score=DotScore()),
    "MultiHead: `keys` has shape (4,); expected (..., S, Dk=4).": lambda: MultiHead(4, 2).prepare(
        torch.randn(4)
    ),
    "MultiHead: `values` has shape (2, 3, 4); expected (..., S=7, Dv=5).": lambda: MultiHead(5, 1).prepare(
        K, torch.randn(2, 3, 4)
    ),
    "MultiHead: `query` has shape (2, 7, 6); expected (..., T=7, D=5).": lambda: MultiHead(5, 1)(
        WIDE, MultiHead(5, 1).prepare(K)
    ),
    "DotScore: `keys` has shape (2, 7, 6); expected (..., S=7, D=5).": lambda: DotScore()(Q, WIDE),
    "CosineScore: `keys` has shape (2, 7, 6); expected (..., S=7, D=5).": lambda: CosineScore()(Q, WIDE),
    "GeneralScore: `keys` has shape (2, 7, 6); expected (..., S=7, Dk=5).": lambda: GeneralScore(
        query=5, keys=5
    ).prepare(WIDE),
    "GeneralScore: `query` has shape (2, 7, 6); expected (..., T=7, Dq=5).": lambda: GeneralScore(
        query=5, keys=5
    )(WIDE, K),
    "AdditiveScore: `keys` has shape (2, 7, 6); expected (..., S=7, Dk=5).": lambda: additive().prepare(WIDE),
    "AdditiveScore: `query` has shape (2, 7, 6); expected (..., T=7, Dq=5).": lambda: additive()(WIDE, K),
    "AdditiveScore.concat: `v` has shape (4,); expected (D=3).": lambda: AdditiveScore.concat(
        torch.randn(3, 7), torch.randn(4), query=5
    ),
    "LocationScore: `query` has shape (2, 7, 6); expected (..., T=7, Dq=5).": lambda: LocationScore(
        query=5, positions=9
    )(WIDE, K),
    "FeedForwardScore: `keys` has shape (2, 7, 6); expected (..., S=7, D=5).": lambda: FeedForwardScore(
        dim=5, hidden=3
    ).prepare(WIDE),
    "FeedForwardScore: `query` has shape (2, 7, 6); expected (..., T=7, D=5).": lambda: FeedForwardScore(
        dim=5, hidden=3
    )(WIDE, K),
    "LocationAwareScore: `keys` has shape (2, 7, 6); expected (..., S=7, Dk=5).": lambda: (
        location_aware().prepare(WIDE)
    ),
    "LocationAwareScore: `query` has shape (2, 7, 6); expected (..., T=7, Dq=5).": lambda: location_aware()(
        WIDE, K, HISTORY
    ),
    "LocationAwareScore needs `history`; start with History.start(source).": lambda: attend(
        Q, K, score=location_aware()
    ),
    "CoverageScore: `keys` has shape (2, 7, 6); expected (..., S=7, Dk=5).": lambda: coverage().prepare(WIDE),
    "CoverageScore: `query` has shape (2, 7, 6); expected (..., T=7, Dq=5).": lambda: coverage()(
        WIDE, K, HISTORY
    ),
    "CoverageScore needs `history`; start with History.start(source).": lambda: attend(
        Q, K, score=coverage()
    ),
    "content_weights: `key` has shape (2, 6); expected (..., M=5).": lambda: content_weights(
        K, torch.randn(2, 6), torch.ones(2, 1)
    ),
    "shift: `shifts` has shape (2, 4); expected (..., 2r + 1).": lambda: shift(
        torch.ones(2, 7), torch.ones(2, 4)
    ),
    "read: `weights` has shape (2, 6); expected (..., N=7).": lambda: read(K, torch.ones(2, 6)),
    "read: `cells` has shape (7, 5); expected (B, N, M).": lambda: read(K[0], torch.ones(2, 7)),
    "write: `weights` has shape (2, 6); expected (..., N=7).": lambda: write(
        K, torch.ones(2, 6), torch.ones(2, 5), torch.ones(2, 5)
    ),
    "write: `erase` has shape (2, 4); expected (..., M=5).": lambda: write(
        K, torch.ones(2, 7), torch.ones(2, 4), torch.ones(2, 5)
    ),
    "write: `add` has shape (2, 4); expected (..., M=5).": lambda: write(
        K, torch.ones(2, 7), torch.ones(2, 5), torch.ones(2, 4)
    ),
}

CONFIGS = {
    "MultiHead: `heads` has 4; expected a divisor of dim=6.": lambda: MultiHead(6, 4),
    "Softmax: `temperature` has 0; expected a finite number above 0.": lambda: Softmax(temperature=0),
    "GumbelSoftmax: `temperature` has -1; expected a finite number above 0.": lambda: GumbelSoftmax(
        temperature=-1
    ),
    "LocationAwareScore: `width` has 4; expected an odd number.": lambda: LocationAwareScore(
        query=5, keys=5, hidden=3, filters=2, width=4
    ),
    "dot: `query` has size 5 and `keys` 6; expected equal sizes. "
    "The general score compares vectors of different sizes.": lambda: build_part("score", "dot", SIZES),
    "attention: unknown score 'addditive'; did you mean 'additive'?": lambda: build_part(
        "score", "addditive", SIZES
    ),
    "attention: unknown normalizer 'zzz'; known: softmax, sparsemax, hard, straight-through, gumbel-softmax, "
    "mean, divide-by-length.": lambda: build_part("normalizer", "zzz", SIZES),
    "attention: unknown window 'local'; did you mean": lambda: build_part("window", "local", SIZES),
}

MISSING = {
    "Mine defines no forward(query, keys).": lambda: type("Mine", (Score,), {})()(Q, K),
    "Mine defines no forward(query, keys, history).": lambda: type("Mine", (HistoryScore,), {})()(
        Q, K, HISTORY
    ),
    "Mine defines no normalize(scores).": lambda: type("Mine", (Normalizer,), {})()(Q),
    "Mine defines no normalize(scores, generator).": lambda: type("Mine", (StochasticNormalizer,), {})()(Q),
    "Mine defines no forward(query, mask, positions).": lambda: type("Mine", (Window,), {})()(Q, K, K),
}


@pytest.mark.parametrize("text", SHAPES)
def test_wrong_shapes(text):
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        SHAPES[text]()


@pytest.mark.parametrize("text", CONFIGS)
def test_wrong_settings(text):
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        CONFIGS[text]()


@pytest.mark.parametrize("text", MISSING)
def test_a_part_without_its_equation(text):
    with pytest.raises(NotImplementedError, match=f"^{re.escape(text)}$"):
        MISSING[text]()


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ShapeError, ValueError),
        (MaskError, ValueError),
        (ConfigError, ValueError),
        (DataError, ValueError),
        (KernelRefused, RuntimeError),
    ],
)
def test_errors_are_of_the_package_and_of_the_language(error, builtin):
    assert issubclass(error, RegardError)
    assert issubclass(error, builtin)


def test_checked_shapes_bind_their_letters():
    assert check_shapes("f", ("a", Q, "... T D"), ("b", K, "... S D")) == {"T": 3, "D": 5, "S": 7}
    assert check_shapes("f", ("a", Q, "B T D"), D=5) == {"B": 2, "T": 3, "D": 5}
    text = "f: `b` has shape (2, 7, 5); expected (..., S=3, D=5)."
    with pytest.raises(ShapeError, match=f"^{re.escape(text)}$"):
        check_shapes("f", ("a", Q, "... S D"), ("b", K, "... S D"))
    with pytest.raises(ShapeError, match=re.escape("f: `a` has shape (2, 3, 5); expected (T, D).")):
        check_shapes("f", ("a", Q, "T D"))
