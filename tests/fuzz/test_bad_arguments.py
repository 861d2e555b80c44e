"""Wrong arguments, drawn at random: a call works, or an error of regard says what is wrong.

REGARD_FUZZ=20 makes twenty times as many calls; see `test_api_against_formulas.py`.
"""

import re

import numpy as np
import torch
from fuzz.problems import SCORES, WINDOWS, Problem, build_normalizer, build_score, build_window, fuzz
from hypothesis import given
from hypothesis import strategies as st

from regard import Attention, DotScore, History, Mask, MultiHead, Softmax, Sparsemax, attend
from regard.attention.cache import Cache
from regard.attention.normalizers.gumbel import GumbelSoftmax
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.coverage import CoverageScore
from regard.attention.scores.feedforward import FeedForwardScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.location_aware import LocationAwareScore
from regard.attention.scores.rectified import RectifiedScore
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.attention.windows.local_predictive import LocalPredictive
from regard.errors import RegardError

NAMED = re.compile(r"`[\w.]+`|[Kk]ernel|history")
NUMBERS = {"-1": -1, "0": 0, "2": 2, "1.5": 1.5, "nan": float("nan"), "inf": float("inf"), "true": True}
THINGS = {
    "None": lambda: None,
    "text": lambda: "additive",
    "empty text": lambda: "",
    "list": lambda: [1, 2],
    "empty tuple": tuple,
    "three": lambda: (1, 2, 3),
    "object": object,
    "class": lambda: Softmax,
    "module": lambda: torch.nn.Linear(2, 2),
    "number in a tensor": lambda: torch.tensor(1),
    "tensor": lambda: torch.zeros(2, 3, 4),
    "array": lambda: np.zeros((2, 3, 4)),
}
JUNK = st.sampled_from([*NUMBERS, *THINGS])
# what is made, and the arguments of which one is spoiled
MAKERS = {
    "Attention": (
        Attention,
        {"score": DotScore, "normalizer": Softmax, "dropout": float, "kernel": lambda: "auto"},
    ),
    "window of Attention": (lambda window: Attention(DotScore(), window=window), {"window": lambda: None}),
    "Softmax": (Softmax, {"temperature": lambda: 1.0}),
    "GumbelSoftmax": (GumbelSoftmax, {"temperature": lambda: 1.0}),
    "DotScore": (DotScore, {"scale": lambda: 1.0}),
    "CosineScore": (CosineScore, {"strength": lambda: 1.0, "query": lambda: 3}),
    "AdditiveScore": (AdditiveScore, {"query": lambda: 3, "keys": lambda: 3, "hidden": lambda: 3}),
    "CoverageScore": (CoverageScore, {"query": lambda: 3, "keys": lambda: 3, "hidden": lambda: 3}),
    "GeneralScore": (GeneralScore, {"query": lambda: 3, "keys": lambda: 3}),
    "RectifiedScore": (RectifiedScore, {"query": lambda: 3, "keys": lambda: 3}),
    "LocationScore": (LocationScore, {"query": lambda: 3, "positions": lambda: 3}),
    "FeedForwardScore": (FeedForwardScore, {"dim": lambda: 3, "hidden": lambda: 3, "dropout": lambda: 0.1}),
    "LocationAwareScore": (
        LocationAwareScore,
        {
            "query": lambda: 3,
            "keys": lambda: 3,
            "hidden": lambda: 3,
            "filters": lambda: 2,
            "width": lambda: 3,
        },
    ),
    "LocalMonotonic": (LocalMonotonic, {"half_width": lambda: 1}),
    "LocalPredictive": (LocalPredictive, {"query": lambda: 3, "hidden": lambda: 3, "half_width": lambda: 1}),
    "MultiHead": (
        lambda dim, heads, **others: MultiHead(dim, heads, **others),
        {
            "dim": lambda: 6,
            "heads": lambda: 2,
            "dim_head": lambda: 3,
            "dim_keys": lambda: 3,
            "attention": lambda: None,
        },
    ),
    "Mask": (
        Mask,
        {
            "causal": bool,
            "lengths": lambda: None,
            "window": lambda: None,
            "dense": lambda: None,
            "offset": int,
        },
    ),
}


def junk(name):
    return NUMBERS[name] if name in NUMBERS else THINGS[name]()


def only_ours(call):
    """What the call gives; None where it is refused in the one form."""
    try:
        return call()
    except RegardError as error:
        text = str(error)
        assert NAMED.search(text), f"the error names no argument: {text}"
        assert len(text) < 600, f"the error is too long: {text}"
        return None


@fuzz(300)
@given(st.sampled_from([(maker, name) for maker in MAKERS for name in MAKERS[maker][1]]), JUNK)
def test_a_part_made_with_a_wrong_argument_is_refused_in_words(place, bad):
    maker, spoiled = place
    make, arguments = MAKERS[maker]
    given_ = {name: value() for name, value in arguments.items()} | {spoiled: junk(bad)}
    only_ours(lambda: make(**given_))


SHAPES = st.lists(st.sampled_from([0, 1, 2, 3, 4]), max_size=4).map(tuple)
KINDS = (
    torch.float32,
    torch.float32,
    torch.float64,
    torch.bfloat16,
    torch.int64,
    torch.bool,
    torch.complex64,
)


@st.composite
def tensors(draw, like):
    """Something for a tensor of this shape: it itself, another shape or dtype, or no tensor at all."""
    kind = draw(st.sampled_from(["right", "right", "shape", "axis", "dtype", "junk"]))
    if kind == "junk":
        return junk(draw(JUNK))
    shape = like
    if kind == "shape":
        shape = draw(SHAPES)
    elif kind == "axis":
        axis = draw(st.integers(0, len(like) - 1))
        shape = (*like[:axis], draw(st.integers(0, 5)), *like[axis + 1 :])
    dtype = draw(st.sampled_from(KINDS)) if kind == "dtype" else torch.float32
    numbers = torch.arange(int(np.prod(shape)), dtype=torch.float64).reshape(shape) % 7 - 3
    return numbers.to(dtype)


@st.composite
def some_masks(draw):
    kind = draw(st.sampled_from(["none", "none", "lengths", "dense", "bare", "junk"]))
    if kind == "none":
        return lambda: None
    if kind == "junk":
        bad = draw(JUNK)
        return lambda: junk(bad)
    if kind == "lengths":
        lengths = draw(st.lists(st.integers(-1, 6), max_size=3))
        dtype = draw(st.sampled_from([torch.int64, torch.uint8, torch.int32, torch.float32, torch.bool]))
        return lambda: Mask(lengths=torch.tensor(lengths).to(dtype))
    dense = torch.ones(draw(SHAPES), dtype=draw(st.sampled_from([torch.bool, torch.float32])))
    return lambda: Mask(dense=dense) if kind == "dense" else dense


@st.composite
def parts(draw):
    score = draw(st.sampled_from(SCORES))
    normalizer = draw(st.sampled_from(["softmax", "sparsemax", "hard", "divide-by-length"]))
    return Problem(
        score, normalizer, draw(st.sampled_from(WINDOWS)), "auto", "float32", 3, 4, (5, 5, 2, 3), ((2,),) * 3
    )


def built(p):
    rng = np.random.default_rng(0)
    return Attention(build_score(p, rng), normalizer=build_normalizer(p), window=build_window(p)).eval()


@fuzz(400)
@given(
    parts(),
    tensors((2, 3, 5)),
    tensors((2, 4, 5)),
    tensors((2, 4, 2)),
    some_masks(),
    st.sampled_from(["call", "call", "attend", "explain", "history", "look", "heads", "grow"]),
    JUNK,
)
def test_a_call_with_wrong_arguments_works_or_is_refused_in_words(p, query, keys, values, mask, what, bad):
    attention = built(p)

    def run():
        if what == "attend":
            return attend(query, keys, values, score=attention.score, mask=mask())
        if what == "heads":
            heads = MultiHead(5, 1, attention=attention, dim_values=2)
            return heads(
                query, heads.prepare(keys, values, mask=mask()), history=past(heads.prepare(keys, values))
            )
        source = attention.prepare(keys, values, mask())
        if what == "grow":
            return grow(attention, source, query, junk(bad))
        history = junk(bad) if what == "history" else past(source)
        if what == "explain":
            return attention.explain(query, source, history=history)
        result = attention(query, source, history=history)
        if what == "look":
            look(result, junk(bad))
        return result.weights.sum() + result.context.sum()

    def past(source):
        return History.start(source) if p.score in ("coverage", "location-aware") else None

    only_ours(run)


def look(result, bad):
    only_ours(lambda: result.top(bad))
    only_ours(lambda: result.rows(bad))
    only_ours(lambda: result.top(1, block=bad))
    only_ours(lambda: result.log_probability)


def grow(attention, source, query, bad):
    only_ours(lambda: source.at(bad))
    only_ours(lambda: source.append(bad))
    only_ours(lambda: source.select(bad))
    only_ours(lambda: Cache.of(source, bad))
    only_ours(lambda: attention(query, bad))
    only_ours(lambda: attention(bad, source))


def test_the_commonest_slips_are_refused():
    """What must not pass, whatever else does."""
    source = Attention(DotScore()).prepare(torch.zeros(3, 4, 5))
    attention = Attention(DotScore())
    slips = {
        "a state without its time axis": lambda: attention(torch.zeros(3, 5), source),
        "another batch": lambda: attention(torch.zeros(2, 1, 5), source),
        "whole numbers": lambda: attention(torch.zeros(3, 1, 5, dtype=torch.int64), source),
        "a tensor for a source": lambda: attention(torch.zeros(3, 1, 5), torch.zeros(3, 4, 5)),
        "more than there are": lambda: attention(torch.zeros(3, 1, 5), source).top(100),
        "a name for a score": lambda: Attention("additive"),
        "a class for a normalizer": lambda: Attention(DotScore(), normalizer=Sparsemax),
        "a kernel that there is not": lambda: Attention(DotScore(), kernel="foo"),
        "a probability of 2": lambda: Attention(DotScore(), dropout=2),
        "no heads": lambda: MultiHead(8, 0),
        "less than none": lambda: MultiHead(8, -1),
        "no number for a temperature": lambda: Softmax(temperature=float("nan")),
    }
    passed = [slip for slip, call in slips.items() if only_ours(call) is not None]
    assert passed == []
