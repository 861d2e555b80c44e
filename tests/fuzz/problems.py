"""Random problems: hypothesis draws parts, sizes, layouts and masks, and a seed for the numbers."""

import os
from dataclasses import dataclass, field, replace

import numpy as np
import torch
import torch.nn.functional as F
from fuzz import formulas
from fuzz.formulas import Recipe
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from regard import Attention, AttentionResult, History, Mask, attend
from regard.attention.cache import Cache
from regard.attention.dispatch import kernels
from regard.attention.in_order import in_order
from regard.attention.normalizers.divide_by_length import DivideByLength
from regard.attention.normalizers.gumbel import GumbelSoftmax
from regard.attention.normalizers.hard import Hard, StraightThrough
from regard.attention.normalizers.mean import Mean
from regard.attention.normalizers.softmax import Softmax
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.coverage import CoverageScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.feedforward import FeedForwardScore
from regard.attention.scores.general import GeneralScore
from regard.attention.scores.location import LocationScore
from regard.attention.scores.location_aware import LocationAwareScore
from regard.attention.scores.rectified import RectifiedScore
from regard.attention.windows.everywhere import Everywhere
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.attention.windows.local_predictive import LocalPredictive

PRODUCTS = ("dot", "scaled-dot", "general", "cosine", "feedforward")
SCORES = (*PRODUCTS, "additive", "rectified", "location", "location-aware", "coverage")
HISTORY = ("location-aware", "coverage")
SAME = ("dot", "scaled-dot", "cosine", "feedforward")
NORMALIZERS = (
    "softmax",
    "sparsemax",
    "hard",
    "straight-through",
    "gumbel-softmax",
    "gumbel-hard",
    "mean",
    "divide-by-length",
)
WINDOWS = ("global", "local-monotonic", "local-predictive")
DTYPES = {
    "float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16,
}  # fmt: skip
HALF = ("bfloat16", "float16")
LAYOUTS = ("plain", "transposed", "sliced", "inside", "expanded", "heads last")
MORE = int(os.environ.get("REGARD_FUZZ", "1"))
WAYS = ("once", "attend", "steps", "grown", "cache", "shared", "in order")


def fuzz(examples):
    """So many examples, the same in every run."""
    return settings(
        max_examples=examples * MORE,
        derandomize=True,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@dataclass(frozen=True)
class Problem:
    score: str
    normalizer: str
    window: str
    kernel: str
    dtype: str
    T: int
    S: int
    dims: tuple[int, int, int, int]  # query, keys, values, hidden
    leads: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # of query, keys, values
    causal: bool = False
    span: tuple[int, int] | None = None  # the mask's window
    lengths: tuple[int, ...] | None = None
    dense: tuple[int, ...] | None = None  # the shape of a dense mask
    offset: int = 0
    layouts: tuple[str, str, str] = ("plain",) * 3
    way: str = "once"
    copies: int = 1
    scale: float = 1.0  # of the numbers
    temperature: float = 1.0
    half_width: int = 1
    beta: bool = False  # cosine: the strength is emitted from the query
    zeros: bool = False  # a vector of zeros among queries and keys
    seed: int = 0


SMALL = st.sampled_from([1, 2, 3, 5, 7])
LONG = st.sampled_from([16, 17, 33, 64, 70, 130])


@st.composite
def problems(
    draw,
    *,
    dtypes=tuple(DTYPES),
    ways=WAYS,
    normalizers=NORMALIZERS,
    scores=SCORES,
    padded=False,
    sizes=SMALL,
):
    pick = lambda choices: draw(st.sampled_from(choices))  # noqa: E731
    chance = lambda: draw(st.booleans())  # noqa: E731
    score, normalizer, way = pick(scores), pick(normalizers), pick(ways)
    window = pick(WINDOWS) if chance() else "global"
    if score in HISTORY if way in ("attend", "cache") else way == "in order" and score not in HISTORY:
        way = "once"
    if way == "attend":
        window = "global"
    long = draw(st.integers(0, 7)) == 7 and sizes is SMALL
    T, S = (draw(LONG), draw(LONG)) if long else (draw(sizes), draw(sizes))
    Dq, Dk, Dv, hidden = (draw(st.sampled_from([1, 2, 3, 4, 5, 8, 16, 33])) for _ in range(4))
    Dk = Dq if score in SAME else Dk
    full = tuple(draw(st.lists(st.sampled_from([1, 2, 3]), max_size=1 if long else 3)))
    some = lambda: tuple(n if chance() else 1 for n in full) if draw(st.integers(0, 3)) == 3 else full  # noqa: E731
    query, keys = some(), some()
    values = (
        tuple(draw(st.sampled_from([a, b])) for a, b in zip(keys, full, strict=True)) if chance() else keys
    )
    causal, span, lengths, dense, offset, copies = False, None, None, None, 0, 1
    if way == "cache":
        T, causal = S, True
        span = (draw(st.integers(0, 4)), draw(st.integers(0, 4))) if chance() else None
    else:
        causal = chance() and chance()
        span = (draw(st.integers(0, 4)), draw(st.integers(0, 4))) if chance() and chance() else None
        offset = draw(st.sampled_from([0, 0, 1, 3, 9])) if way != "attend" else 0
        if (padded or chance()) and way != "grown":
            rows = keys[0] if keys and chance() else 1
            rows = 1 if way == "shared" and not keys else rows
            lengths = tuple(draw(st.integers(0, S)) for _ in range(rows))
        if chance() and chance():
            shape = [1 if way == "grown" or chance() else T, S if way == "grown" or chance() else 1]
            both = np.broadcast_shapes(query, keys)
            lead = [n if chance() else 1 for n in keys]
            if way != "shared":
                lead = [n if k == 1 and chance() else m for n, m, k in zip(both, lead, keys, strict=True)]
            dense = (*lead, *shape)[draw(st.integers(0, len(keys) + (shape[0] == 1))) :]
    if way == "shared":
        copies = draw(st.integers(1, 3))
        keys = keys or (2,)
        values = keys
        query = (keys[0] * copies, *(query[1:] if len(query) == len(keys) else keys[1:]))
    elif lengths is None and chance() and chance():  # fewer axes on one side; lengths count rows of the keys
        cut = draw(st.integers(0, len(full)))
        if chance():  # the axes that a query does not have are 1 in the keys
            query = query[next((i for i, n in enumerate(keys[:cut]) if n > 1), cut) :]
        elif dense is None:
            keys, values = keys[cut:], values[cut:]
    dtype = pick(dtypes)
    kernel = pick(("auto", "reference", "by name"))
    kernel = pick([k.name for k in kernels()]) if kernel == "by name" else kernel
    return Problem(
        score=score, normalizer=normalizer, window=window, kernel=kernel, dtype=dtype, T=T, S=S,
        dims=(Dq, Dk, Dv, hidden), leads=(query, keys, values), causal=causal, span=span, lengths=lengths,
        dense=dense, offset=offset, layouts=tuple(pick(LAYOUTS) for _ in range(3)), way=way, copies=copies,
        scale=1.0 if dtype in HALF else pick((1.0, 1.0, 0.01, 4.0)),
        temperature=pick((1.0, 0.5, 3.0)), half_width=draw(st.integers(1, 4)), beta=chance(),
        zeros=draw(st.integers(0, 9)) == 9, seed=draw(st.integers(0, 2**32 - 1)),
    )  # fmt: skip


@dataclass
class Made:
    """A problem with its numbers: an attention, tensors, and the same numbers for the formulas."""

    problem: Problem
    attention: Attention
    query: torch.Tensor
    keys: torch.Tensor
    values: torch.Tensor
    mask: Mask
    history: History | None
    recipe: Recipe
    numbers: dict[str, np.ndarray]
    visible: np.ndarray
    past: tuple[np.ndarray, np.ndarray] | None
    rng: np.random.Generator
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)  # what gradients are asked of


def build_score(p: Problem, rng):
    Dq, Dk, _, hidden = p.dims
    return {
        "dot": lambda: DotScore(1.0),
        "scaled-dot": lambda: DotScore(),
        "general": lambda: GeneralScore(query=Dq, keys=Dk),
        "cosine": lambda: CosineScore(query=Dq) if p.beta else CosineScore(strength=2.5),
        "feedforward": lambda: FeedForwardScore(dim=Dq, hidden=hidden),
        "additive": lambda: AdditiveScore(query=Dq, keys=Dk, hidden=hidden),
        "rectified": lambda: RectifiedScore(query=Dq, keys=Dk),
        "location": lambda: LocationScore(query=Dq, positions=int(rng.integers(1, p.S + 3))),
        "location-aware": lambda: LocationAwareScore(query=Dq, keys=Dk, hidden=hidden, filters=2, width=3),
        "coverage": lambda: CoverageScore(query=Dq, keys=Dk, hidden=hidden),
    }[p.score]()


def build_normalizer(p: Problem):
    return {
        "softmax": lambda: Softmax(temperature=p.temperature),
        "sparsemax": Sparsemax,
        "hard": Hard,
        "straight-through": StraightThrough,
        "gumbel-softmax": lambda: GumbelSoftmax(temperature=p.temperature),
        "gumbel-hard": lambda: GumbelSoftmax(temperature=p.temperature, hard=True),
        "mean": Mean,
        "divide-by-length": DivideByLength,
    }[p.normalizer]()


def build_window(p: Problem):
    if p.window == "global":
        return Everywhere() if p.seed % 2 and p.way != "attend" else None
    if p.window == "local-monotonic":
        return LocalMonotonic(half_width=p.half_width)
    return LocalPredictive(query=p.dims[0], hidden=p.dims[3], half_width=p.half_width)


def rounded(x: np.ndarray, dtype: str) -> np.ndarray:
    return torch.from_numpy(np.ascontiguousarray(x)).to(DTYPES[dtype]).double().numpy()


def laid_out(x: np.ndarray, layout: str, dtype: str) -> torch.Tensor:
    """A tensor of these numbers with other strides; where its memory has gaps, they are filled with NaN."""

    def tensor(y):
        return torch.from_numpy(np.ascontiguousarray(y)).to(DTYPES[dtype])

    if layout == "transposed":
        return tensor(np.swapaxes(x, -1, -2)).mT
    if layout == "sliced":
        wide = np.full((*x.shape[:-1], 2 * x.shape[-1] + 1), np.nan)
        wide[..., 1::2] = x
        return tensor(wide)[..., 1::2]
    if layout == "inside":
        tall = np.full((*x.shape[:-2], x.shape[-2] + 3, x.shape[-1]), np.nan)
        tall[..., 2:-1, :] = x
        return tensor(tall)[..., 2:-1, :]
    if layout == "expanded":
        axis = 0 if x.ndim > 2 else -2
        return tensor(x.take([0], axis)).expand(x.shape) if x.shape[axis] else tensor(x)
    if layout == "heads last" and x.ndim > 2:
        return tensor(np.moveaxis(x, -3, -2)).transpose(-3, -2)
    return tensor(x)


def made(p: Problem) -> Made:
    rng = np.random.default_rng(p.seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(p.seed)
        attention = Attention(
            build_score(p, rng), normalizer=build_normalizer(p), window=build_window(p), kernel=p.kernel
        )
    attention = attention.to(DTYPES[p.dtype]).eval()
    numbers = {}
    for name, parameter in attention.named_parameters():
        fan = parameter.shape[-1] if parameter.ndim > 1 else 4
        x = rounded(rng.standard_normal(parameter.shape) / np.sqrt(fan), p.dtype)
        with torch.no_grad():
            parameter.copy_(torch.from_numpy(x))
        numbers[name.removeprefix("score.")] = x
    tensors = {}
    sizes = ((p.T, p.dims[0]), (p.S, p.dims[1]), (p.S, p.dims[2]))
    for name, lead, size, layout in zip(("query", "keys", "values"), p.leads, sizes, p.layouts, strict=True):
        x = rounded(p.scale * rng.standard_normal((*lead, *size)), p.dtype)
        if layout == "expanded":
            axis = 0 if x.ndim > 2 else -2
            x = np.broadcast_to(x.take([0], axis), x.shape).copy() if x.shape[axis] else x
        elif p.zeros and name != "values" and size[0]:
            x[..., rng.integers(size[0]), :] = 0
        numbers[name] = x
        tensors[name] = laid_out(x, layout, p.dtype)
    mask, visible = masks(p, rng)
    history, past = histories(p, rng)
    D = p.dims[0]
    scale = 1 / np.sqrt(D) if p.score == "scaled-dot" else 1.0
    normalizer = "straight-through" if p.normalizer == "gumbel-hard" else p.normalizer
    tempered = p.normalizer in ("softmax", "gumbel-softmax", "gumbel-hard")
    recipe = Recipe(
        p.score,
        normalizer,
        p.window,
        scale,
        p.temperature if tempered else 1.0,
        2.5,
        2.0,
        p.half_width,
        p.offset,
    )
    every = dict(attention.named_parameters())
    leaves = tensors | {name.removeprefix("score."): x for name, x in every.items()}
    if p.copies > 1 or p.way == "shared":
        for name in ("keys", "values"):
            numbers[name] = np.repeat(numbers[name], p.copies, 0)
        past = None if past is None else tuple(np.repeat(x, p.copies, 0) for x in past)
    return Made(p, attention, *tensors.values(), mask, history, recipe, numbers, visible, past, rng, leaves)


def masks(p: Problem, rng) -> tuple[Mask, np.ndarray]:
    """The mask, and what it leaves visible as an array that broadcasts to (..., T, S)."""
    visible = formulas.positional(p.T, p.S, offset=p.offset, causal=p.causal, window=p.span)
    lengths = dense = None
    ndim = max(len(p.leads[0]), len(p.leads[1])) + 2
    if p.lengths is not None:
        lengths = torch.tensor(p.lengths)
        rows = np.repeat(p.lengths, p.copies) if len(p.lengths) > 1 else np.array(p.lengths)
        visible = visible & (np.arange(p.S) < rows.reshape(-1, *[1] * (ndim - 1)))
    if p.dense is not None:
        shown = rng.random(p.dense) < 0.7
        dense = torch.from_numpy(shown)
        if p.way == "shared" and shown.ndim == len(p.leads[1]) + 2 and shown.shape[0] > 1:
            shown = np.repeat(shown, p.copies, 0)
        visible = visible & shown
    # a mask that is not told an offset has 0, and `at` tells it later
    offset = p.offset if p.seed % 2 else 0
    return Mask(causal=p.causal, lengths=lengths, window=p.span, dense=dense, offset=offset), visible


def histories(p: Problem, rng):
    if p.score not in HISTORY:
        return None, None
    full = "float64" if p.dtype == "float64" else "float32"
    lead = p.leads[1]
    previous = rng.random((*lead, 1, p.S)) + 0.1
    previous = rounded(previous / previous.sum(-1, keepdims=True), full)
    cumulative = rounded(previous + rng.random((*lead, 1, p.S)), full)
    made = [torch.from_numpy(x).to(DTYPES[full]) for x in (previous, cumulative)]
    return History(*made), (previous, cumulative)


@dataclass
class Looked:
    """What a call gave: the context, and the results of its parts along the axis of the queries."""

    context: torch.Tensor
    results: list[AttentionResult]

    def whole(self, look, S: int, hidden: float) -> torch.Tensor:
        """All rows; a source that grew was shorter before."""
        rows = [look(result) for result in self.results]
        return torch.cat([F.pad(row, (0, S - row.shape[-1]), value=hidden) for row in rows], -2)


def called(m: Made) -> Looked:
    """The problem's call, in its way."""
    p, a = m.problem, m.attention
    one = {
        "once": _once, "attend": _attend, "steps": _steps, "grown": _grown,
        "cache": _cache, "shared": _shared, "in order": _in_order,
    }[p.way](m)  # fmt: skip
    results = one if isinstance(one, list) else [one]
    assert not a.training
    return Looked(torch.cat([result.context for result in results], -2), results)


def _source(m: Made, mask: Mask | None = None):
    p = m.problem
    return m.attention.prepare(m.keys, m.values, m.mask if mask is None else mask).at(p.offset)


def _once(m: Made) -> AttentionResult:
    return m.attention(m.query, _source(m), history=m.history)


def _attend(m: Made) -> AttentionResult:
    a = m.attention
    return attend(
        m.query, m.keys, m.values, score=a.score, normalizer=a.normalizer, mask=m.mask, kernel=a.kernel
    )


def _steps(m: Made) -> list[AttentionResult]:
    p, dense, results = m.problem, m.mask.dense, []
    by_query = dense is not None and dense.ndim > 1 and dense.shape[-2] > 1
    source = None if by_query else _source(m)
    for t in range(p.T):
        seen = source
        if by_query:
            seen = _source(m, replace(m.mask, dense=dense[..., t : t + 1, :]))
        results.append(m.attention(m.query[..., t : t + 1, :], seen.at(p.offset + t), history=m.history))
    return results


def _grown(m: Made) -> AttentionResult:
    p, a = m.problem, m.attention
    cut = p.seed % (p.S + 1)
    first, second = (replace(m.mask, dense=None if m.mask.dense is None else x) for x in _cut_dense(m, cut))
    source = a.prepare(m.keys[..., :cut, :], m.values[..., :cut, :], first)
    source = source.append(a.prepare(m.keys[..., cut:, :], m.values[..., cut:, :], second))
    return a(m.query, source.at(p.offset), history=m.history)


def _cut_dense(m: Made, cut: int):
    dense = m.mask.dense
    return (None, None) if dense is None else (dense[..., :cut], dense[..., cut:])


def _cache(m: Made) -> list[AttentionResult]:
    p, a, results = m.problem, m.attention, []
    cache = Cache.of(a.prepare(m.keys[..., :0, :], m.values[..., :0, :]), Mask(causal=True, window=p.span))
    for t in range(p.T):
        here = slice(t, t + 1)
        cache = cache.append(a.prepare(m.keys[..., here, :], m.values[..., here, :]))
        results.append(a(m.query[..., here, :], cache.source))
    return results


def _shared(m: Made) -> AttentionResult:
    p = m.problem
    rows = torch.arange(p.leads[1][0]).repeat_interleave(p.copies)
    history = None if m.history is None else m.history.select(rows)
    return m.attention(m.query, _source(m).share(rows), history=history)


def _in_order(m: Made) -> AttentionResult:
    return in_order(m.attention)(m.query, _source(m), history=m.history)


def expected(m: Made, numbers=None) -> formulas.Found:
    """What the formulas say."""
    p, n = m.problem, m.numbers if numbers is None else numbers
    if p.way != "in order":
        return formulas.attend(m.recipe, n, m.visible, m.past)
    past, rows = m.past, []
    if p.T == 0:
        return formulas.attend(m.recipe, n, m.visible, m.past)
    for t in range(p.T):
        here = {**n, "query": n["query"][..., t : t + 1, :]}
        visible = np.broadcast_to(m.visible, (*m.visible.shape[:-2], p.T, p.S))[..., t : t + 1, :]
        found = formulas.attend(replace(m.recipe, offset=p.offset + t), here, visible, past)
        past = (found.weights, past[1] + found.weights)
        rows.append(found)
    joined = {
        name: None if getattr(rows[0], name) is None else np.concatenate([getattr(x, name) for x in rows], -2)
        for name in vars(rows[0])
    }
    return formulas.Found(**joined)
