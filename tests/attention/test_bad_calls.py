"""Every way to call the public API wrongly is answered with one sentence of this package, never a raw error.

A table of wrong calls: each must raise a RegardError whose text names the owner and what was expected.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard import (
    AdditiveScore,
    Attention,
    CosineScore,
    CoverageScore,
    DotScore,
    Everywhere,
    FeedForwardScore,
    GeneralScore,
    GumbelSoftmax,
    Hard,
    History,
    InOrder,
    LocalMonotonic,
    LocalPredictive,
    LocationAwareScore,
    LocationScore,
    Mask,
    MultiHead,
    RectifiedScore,
    RegardError,
    Softmax,
    Source,
    Sparsemax,
    attend,
    in_order,
    record,
)
from regard.attention.cache import Cache

B, T, S, D = 2, 3, 10, 8
NAN, INF = math.nan, math.inf


def zeros(*shape, **options):
    return torch.zeros(*shape, **options)


def ask(attention=None, query=None, keys=None, values=None, mask=None, **options):
    attention = Attention(DotScore()) if attention is None else attention
    query, keys = (zeros(B, n, D) if x is None else x for x, n in ((query, T), (keys, S)))
    return attention(query, attention.prepare(keys, values, mask), **options)


def additive(**changes):
    return AdditiveScore(**({"query": D, "keys": D, "hidden": 5} | changes))


def location_aware(**changes):
    sizes = {"query": D, "keys": D, "hidden": 5, "filters": 2, "width": 3}
    return LocationAwareScore(**(sizes | changes))


def source(attention=None):
    return (Attention(DotScore()) if attention is None else attention).prepare(zeros(B, S, D))


def history(b=B, s=S, dtype=torch.float32):
    return History(zeros(b, 1, s, dtype=dtype), zeros(b, 1, s, dtype=dtype))


def causal(n=S):
    return Source(zeros(B, n, D), zeros(B, n, D), Mask(causal=True))


def cached():
    return Cache.of(Source(zeros(B, S, D), zeros(B, S, D), Mask()), Mask(causal=True))


CONSTRUCTION = {
    # Attention
    "a name for a score": lambda: Attention("additive"),
    "a class for a score": lambda: Attention(DotScore),
    "no score": lambda: Attention(None),
    "another module for a score": lambda: Attention(torch.nn.Linear(3, 3)),
    "a normalizer for a score": lambda: Attention(Softmax()),
    "a class for a normalizer": lambda: Attention(DotScore(), normalizer=Softmax),
    "a name for a normalizer": lambda: Attention(DotScore(), normalizer="softmax"),
    "a function for a normalizer": lambda: Attention(DotScore(), normalizer=torch.softmax),
    "a torch module for a normalizer": lambda: Attention(DotScore(), normalizer=torch.nn.Softmax(-1)),
    "a number for a window": lambda: Attention(DotScore(), window=3),
    "a class for a window": lambda: Attention(DotScore(), window=Everywhere),
    "dropout above 1": lambda: Attention(DotScore(), dropout=2),
    "dropout below 0": lambda: Attention(DotScore(), dropout=-0.1),
    "dropout that is no number": lambda: Attention(DotScore(), dropout=NAN),
    "dropout as text": lambda: Attention(DotScore(), dropout="0.1"),
    "dropout as nothing": lambda: Attention(DotScore(), dropout=None),
    "an unknown kernel": lambda: Attention(DotScore(), kernel="foo"),
    "no kernel": lambda: Attention(DotScore(), kernel=None),
    "a number for a kernel": lambda: Attention(DotScore(), kernel=1),
    # MultiHead
    "no heads": lambda: MultiHead(8, 0),
    "heads below 0": lambda: MultiHead(8, -1),
    "heads that do not divide": lambda: MultiHead(8, 3),
    "half a head": lambda: MultiHead(8, 2.0),
    "heads as text": lambda: MultiHead(8, "2"),
    "no features": lambda: MultiHead(0, 1),
    "features below 0": lambda: MultiHead(-8, 2),
    "features as text": lambda: MultiHead("8", 2),
    "heads of no features": lambda: MultiHead(8, 2, dim_head=0),
    "heads of features below 0": lambda: MultiHead(8, 2, dim_head=-4),
    "keys of no features": lambda: MultiHead(8, 2, dim_keys=0),
    "values of features below 0": lambda: MultiHead(8, 2, dim_values=-1),
    "a score for an attention": lambda: MultiHead(8, 2, attention=DotScore()),
    "a class for an attention": lambda: MultiHead(8, 2, attention=Attention),
    # InOrder
    "in order by a kernel": lambda: InOrder(DotScore(), kernel="sdpa"),
    "in order of a name": lambda: InOrder("coverage"),
    "in order of a score": lambda: in_order(DotScore()),
    # normalizers
    "temperature 0": lambda: Softmax(temperature=0),
    "temperature below 0": lambda: Softmax(temperature=-1.0),
    "temperature that is no number": lambda: Softmax(temperature=NAN),
    "temperature without end": lambda: Softmax(temperature=INF),
    "temperature as text": lambda: Softmax(temperature="1"),
    "temperature as nothing": lambda: Softmax(temperature=None),
    "temperature as a tensor of several": lambda: Softmax(temperature=zeros(3)),
    "Gumbel temperature that is no number": lambda: GumbelSoftmax(temperature=NAN),
    "Gumbel temperature 0": lambda: GumbelSoftmax(temperature=0),
    "Gumbel temperature as text": lambda: GumbelSoftmax(temperature="1"),
    # scores
    "a scale that is no number": lambda: DotScore(NAN),
    "a scale as text": lambda: DotScore("auto"),
    "a scale without end": lambda: DotScore(INF),
    "strength that is no number": lambda: CosineScore(strength=NAN),
    "strength as text": lambda: CosineScore(strength="1"),
    "cosine of no features": lambda: CosineScore(query=0),
    "additive of no features": lambda: additive(query=0),
    "additive of keys below 0": lambda: additive(keys=-1),
    "additive without a hidden layer": lambda: additive(hidden=0),
    "additive of half a feature": lambda: additive(hidden=2.5),
    "additive of a name": lambda: additive(keys="8"),
    "concat of a narrow matrix": lambda: AdditiveScore.concat(zeros(5, 7), zeros(5), query=7),
    "concat of another vector": lambda: AdditiveScore.concat(zeros(5, 7), zeros(4), query=3),
    "concat of lists": lambda: AdditiveScore.concat([[1.0]], [1.0], query=1),
    "general of no features": lambda: GeneralScore(query=0, keys=3),
    "general of keys below 0": lambda: GeneralScore(query=3, keys=-3),
    "location of no positions": lambda: LocationScore(query=3, positions=0),
    "location of features below 0": lambda: LocationScore(query=-3, positions=4),
    "rectified of no features": lambda: RectifiedScore(query=0, keys=3),
    "feed-forward of no features": lambda: FeedForwardScore(dim=0, hidden=3),
    "feed-forward without a hidden layer": lambda: FeedForwardScore(dim=3, hidden=-1),
    "feed-forward with dropout above 1": lambda: FeedForwardScore(dim=3, hidden=3, dropout=1.5),
    "coverage without fertility": lambda: CoverageScore(query=3, keys=3, hidden=3, fertility=0),
    "coverage with a fertility that is no number": lambda: CoverageScore(
        query=3, keys=3, hidden=3, fertility=NAN
    ),
    "coverage of no features": lambda: CoverageScore(query=3, keys=0, hidden=3),
    "location-aware of an even width": lambda: location_aware(width=4),
    "location-aware of a width below 0": lambda: location_aware(width=-3),
    "location-aware without filters": lambda: location_aware(filters=0),
    "location-aware of no features": lambda: location_aware(query=0),
    # windows
    "a window below 0": lambda: LocalMonotonic(half_width=-1),
    "half a window": lambda: LocalMonotonic(half_width=1.5),
    "a window that is no number": lambda: LocalMonotonic(half_width=NAN),
    "a predicted window of nothing": lambda: LocalPredictive(query=3, hidden=3, half_width=0),
    "a predicted window of no features": lambda: LocalPredictive(query=0, hidden=3, half_width=2),
    "a predicted window as text": lambda: LocalPredictive(query=3, hidden=3, half_width="2"),
    # masks
    "lengths in words": lambda: Mask(lengths=["3", "2"]),
    "lengths below 0": lambda: Mask(lengths=torch.tensor([3, -2])),
    "lengths that are no whole numbers": lambda: Mask(lengths=zeros(B)),
    "lengths of two axes": lambda: Mask(lengths=zeros(B, 1, dtype=torch.long)),
    "one length as a number": lambda: Mask(lengths=3),
    "a dense mask of numbers": lambda: Mask(dense=zeros(T, S)),
    "a dense mask as a list": lambda: Mask(dense=[[True]]),
    "a dense mask of no axes": lambda: Mask(dense=torch.tensor(True)),
    "a window of one number": lambda: Mask(window=3),
    "a window to one side": lambda: Mask(window=(3,)),
    "a window backwards": lambda: Mask(window=(1, -1)),
    "an offset of a half": lambda: Mask(offset=0.5),
    "an offset as a tensor": lambda: Mask(causal=True).at(torch.tensor(3)),
    "a dense mask for causal": lambda: Mask(zeros(T, S).bool()),
    "masks that begin elsewhere": lambda: Mask(causal=True) & Mask(causal=True, offset=2),
    "a mask and a list": lambda: Mask() & [True],
    # sources
    "a source of unequal lengths": lambda: Source(zeros(B, S, D), zeros(B, S - 1, D), Mask()),
    "a source with a tensor for a mask": lambda: Source(zeros(B, S, D), zeros(B, S, D), zeros(S).bool()),
    "a source without a mask": lambda: Source(zeros(B, S, D), zeros(B, S, D), None),
    "a source of lists": lambda: Source([[1.0]], [[1.0]], Mask()),
    "a source of vectors": lambda: Source(zeros(D), zeros(D), Mask()),
    "a history over a tensor": lambda: History.start(zeros(B, S, D)),
    "a history that begins outside": lambda: History.start(causal(), at=S),
    "a history that begins at a half": lambda: History.start(causal(), at=0.5),
}

CALLS = {
    # prepare
    "keys as a list": lambda: Attention(DotScore()).prepare([[1.0]]),
    "no keys": lambda: Attention(DotScore()).prepare(None),
    "keys of one axis": lambda: Attention(DotScore()).prepare(zeros(D)),
    "keys of whole numbers": lambda: Attention(DotScore()).prepare(zeros(B, S, D, dtype=torch.long)),
    "values of whole numbers": lambda: ask(values=zeros(B, S, D, dtype=torch.long)),
    "values as a list": lambda: ask(values=[1.0]),
    "values of another length": lambda: ask(values=zeros(B, S - 1, D)),
    "values of another batch": lambda: ask(values=zeros(B + 1, S, D)),
    "values on another device": lambda: ask(values=zeros(B, S, D, device="meta")),
    "keys of another width": lambda: ask(Attention(additive()), keys=zeros(B, S, D + 1)),
    "keys of another dtype": lambda: ask(Attention(additive()), keys=zeros(B, S, D).double()),
    "keys on another device": lambda: ask(Attention(additive()), keys=zeros(B, S, D, device="meta")),
    "a mask of numbers": lambda: ask(mask=zeros(T, S)),
    "a mask as text": lambda: ask(mask="causal"),
    "a mask for other keys": lambda: ask(mask=zeros(T, S + 1).bool()),
    "a mask for another batch": lambda: ask(mask=zeros(B + 1, T, S).bool()),
    "a mask for other queries": lambda: ask(mask=zeros(T + 1, S).bool()),
    "lengths of another batch": lambda: ask(mask=Mask(lengths=torch.tensor([1, 2, 3]))),
    "a mask on another device": lambda: ask(mask=zeros(T, S, device="meta").bool()),
    # forward
    "a tensor for a source": lambda: Attention(DotScore())(zeros(B, T, D), zeros(B, S, D)),
    "keys and values for a source": lambda: Attention(DotScore())(zeros(B, T, D), (zeros(1), zeros(1))),
    "no source": lambda: Attention(DotScore())(zeros(B, T, D), None),
    "a query as a list": lambda: ask(query=[[1.0]]),
    "a source for a query": lambda: Attention(DotScore())(source(), source()),
    "a query of one axis": lambda: ask(query=zeros(D)),
    "a query without its time axis": lambda: ask(query=zeros(B, D)),
    "a query of whole numbers": lambda: ask(query=zeros(B, T, D, dtype=torch.long)),
    "a query of truth values": lambda: ask(query=zeros(B, T, D).bool()),
    "a query of another width": lambda: ask(query=zeros(B, T, D + 1)),
    "a query of another batch": lambda: ask(query=zeros(B + 1, T, D)),
    "an additive query of another batch": lambda: ask(Attention(additive()), query=zeros(B + 1, T, D)),
    "a query on another device": lambda: ask(query=zeros(B, T, D, device="meta")),
    "a source of another attention": lambda: Attention(additive())(
        zeros(B, T, D), source(Attention(additive(hidden=6)))
    ),
    "a long source of another attention": lambda: Attention(additive(), kernel="additive-cpu")(
        zeros(B, 64, D), Attention(additive(hidden=3)).prepare(zeros(B, 64, D))
    ),
    "a local source of another attention": lambda: Attention(
        additive(), window=LocalMonotonic(half_width=2), kernel="local"
    )(zeros(B, 64, D), Attention(additive(hidden=3)).prepare(zeros(B, 64, D))),
    "a source of another coverage": lambda: Attention(CoverageScore(query=D, keys=D, hidden=5))(
        zeros(B, T, D), source(), history=history()
    ),
    "a source of another location-aware score": lambda: Attention(location_aware())(
        zeros(B, T, D), source(), history=history()
    ),
    "a source of another rectified score": lambda: Attention(RectifiedScore(query=D, keys=D))(
        zeros(B, T, D), source()
    ),
    "a source of another feed-forward score": lambda: Attention(FeedForwardScore(dim=D, hidden=5))(
        zeros(B, T, D), source()
    ),
    "no history": lambda: ask(Attention(location_aware())),
    "a history over other positions": lambda: ask(Attention(location_aware()), history=history(s=S - 1)),
    "a history of another batch": lambda: ask(Attention(location_aware()), history=history(b=B + 1)),
    "a tensor for a history": lambda: ask(Attention(location_aware()), history=zeros(B, 1, S)),
    "a seed for a generator": lambda: ask(Attention(DotScore(), normalizer=Hard()), generator=3),
    "a kernel that cannot": lambda: ask(Attention(additive(), kernel="sdpa")),
    "a window made for other queries": lambda: ask(
        Attention(DotScore(), window=LocalPredictive(query=D + 1, hidden=3, half_width=2))
    ),
    "align with a tensor for a source": lambda: Attention(DotScore()).align(zeros(B, T, D), zeros(B, S, D)),
    "align with a query of another batch": lambda: Attention(DotScore()).align(zeros(B + 1, T, D), source()),
    "explain with a tensor for a source": lambda: Attention(DotScore()).explain(
        zeros(B, T, D), zeros(B, S, D)
    ),
    "a sparsemax query of another batch": lambda: ask(
        Attention(DotScore(), normalizer=Sparsemax()), query=zeros(B + 1, T, D)
    ),
    "a shared source of another batch": lambda: Attention(DotScore())(
        zeros(5, 1, D), replace(source(), copies=2)
    ),
    "attend with a name": lambda: attend(zeros(B, T, D), zeros(B, S, D), score="dot"),
    "attend with a class": lambda: attend(zeros(B, T, D), zeros(B, S, D), score=DotScore),
    "attend with lists": lambda: attend([[1.0]], [[1.0]], score=DotScore()),
    # MultiHead
    "heads: keys of another width": lambda: MultiHead(D, 2).prepare(zeros(B, S, D + 1)),
    "heads: values of another width": lambda: MultiHead(D, 2).prepare(zeros(B, S, D), zeros(B, S, D + 1)),
    "heads: values of another batch": lambda: MultiHead(D, 2).prepare(zeros(B, S, D), zeros(B + 1, S, D)),
    "heads: keys of another dtype": lambda: MultiHead(D, 2).prepare(zeros(B, S, D).double()),
    "heads: keys as a list": lambda: MultiHead(D, 2).prepare([[1.0]]),
    "heads: a query of another width": lambda: ask(MultiHead(D, 2), query=zeros(B, T, D + 1)),
    "heads: a query of another dtype": lambda: ask(MultiHead(D, 2), query=zeros(B, T, D).double()),
    "heads: a query of another batch": lambda: ask(MultiHead(D, 2), query=zeros(B + 1, T, D)),
    "heads: a query of whole numbers": lambda: ask(MultiHead(D, 2), query=zeros(B, T, D, dtype=torch.long)),
    "heads: a query without its time axis": lambda: ask(MultiHead(D, 2), query=zeros(B, D)),
    "heads: a query as a list": lambda: ask(MultiHead(D, 2), query=[1.0]),
    "heads: a tensor for a source": lambda: MultiHead(D, 2)(zeros(B, T, D), zeros(B, S, D)),
    "heads: a source without heads": lambda: MultiHead(D, 2)(zeros(B, T, D), source()),
    "heads: a source of other heads": lambda: MultiHead(D, 2)(zeros(B, T, D), source(MultiHead(D, 4))),
    "heads: a score of another width": lambda: ask(MultiHead(D, 2, attention=Attention(additive()))),
    "heads: a mask for other keys": lambda: MultiHead(D, 2).prepare(zeros(B, S, D), mask=zeros(T, 3).bool()),
    # what comes back
    "more than all of the top": lambda: ask().top(100),
    "the top of what was kept": lambda: ask(Attention(DotScore(), kernel="reference")).top(S + 1),
    "the top by blocks": lambda: ask(Attention(additive(), kernel="auto")).top(S + 1, block=2),
    "the top of long rows": lambda: ask(keys=zeros(B, 3000, D)).top(3001),
    "a top below 0": lambda: ask().top(-1),
    "half a top": lambda: ask().top(1.5),
    "a top of blocks of nothing": lambda: ask().top(2, block=0),
    "a top of blocks of no number": lambda: ask().top(1, block=()),
    "an array for a kernel": lambda: Attention(DotScore(), kernel=np.zeros((2, 3))),
    "a number for the mask of a cache": lambda: Cache.of(Source(zeros(B, S, D), zeros(B, S, D), Mask()), -1),
    "an explanation of another batch": lambda: Attention(DotScore()).explain(
        zeros(3, T, D), Attention(DotScore()).prepare(zeros(B, S, D))
    ),
    "keys that are true or false": lambda: ask(
        Attention(CosineScore()), keys=zeros(B, S, D, dtype=torch.bool)
    ),
    "a recording of a name": lambda: record("model").__enter__(),
    "rows outside": lambda: ask().rows(torch.tensor([T])),
    "rows as a list": lambda: ask().rows([0, 1]),
    "rows of halves": lambda: ask().rows(zeros(2)),
    "a log-probability of no choice": lambda: ask().log_probability,
    "a mask's offset that is true": lambda: Mask(causal=True, offset=True),
    "a mask's window of truths": lambda: Mask(window=(True, False)),
    # sources and histories
    "append a tensor": lambda: causal().append(zeros(B, 1, D)),
    "append another width": lambda: causal().append(
        Source(zeros(B, 1, D + 1), zeros(B, 1, D), Mask(causal=True))
    ),
    "append another batch": lambda: causal().append(Source(zeros(B + 1, 1, D), zeros(B + 1, 1, D), Mask())),
    "append another window": lambda: replace(causal(), mask=Mask(window=(1, 0))).append(
        replace(causal(), mask=Mask(window=(2, 0)))
    ),
    "select rows that are not there": lambda: causal().select(torch.tensor([0, B])),
    "select by halves": lambda: causal().select(zeros(2)),
    "select by a list": lambda: causal().select([0, 1]),
    "share by a list": lambda: causal().share([0, 1]),
    "select rows of a source that has none": lambda: Source(zeros(S, D), zeros(S, D), Mask()).select(
        torch.tensor([0])
    ),
    "append a tensor to a cache": lambda: cached().append(zeros(B, 1, D)),
    "append another batch to a cache": lambda: cached().append(
        Source(zeros(1, 1, D), zeros(1, 1, D), Mask())
    ),
    "append another width to a cache": lambda: cached().append(
        Source(zeros(B, 1, D), zeros(B, 1, 1), Mask())
    ),
    "a cache of a tensor": lambda: Cache.of(zeros(B, S, D), Mask()),
    "select rows of a cache by a list": lambda: cached().select([0, 1]),
    "select rows of a cache that are not there": lambda: cached().select(torch.tensor([0, B])),
    "stand at a half": lambda: causal().at(0.5),
    "advance by other weights": lambda: history().advance(zeros(B, 1, S + 1)),
    "advance by a list": lambda: history().advance([1.0]),
    "grow to a shorter source": lambda: history().grown(causal(S - 1)),
    "select a history that is not there": lambda: history().select(torch.tensor([B])),
    # parts by themselves
    "a normalizer of whole numbers": lambda: Softmax()(torch.tensor([[1, 2]])),
    "a normalizer with a mask of numbers": lambda: Sparsemax()(zeros(T, S), zeros(T, S)),
    "a normalizer of a list": lambda: Softmax()([1.0, 2.0]),
    "a normalizer with another mask": lambda: Softmax()(zeros(T, S), zeros(T, S + 1).bool()),
    "a score of other widths": lambda: DotScore()(zeros(B, T, D), zeros(B, S, D + 1)),
    "a score of a list": lambda: DotScore()([[1.0]], zeros(B, S, D)),
}

BAD = CONSTRUCTION | CALLS


@pytest.mark.parametrize("name", BAD)
def test_a_bad_call_is_answered_with_a_sentence(name):
    with pytest.raises(RegardError) as caught:
        BAD[name]()
    text = str(caught.value)
    assert text.endswith(".")
    assert len(text) < 400
    assert "\n" not in text


def test_the_table_is_long():
    assert len(BAD) > 170
