"""The public API on random calls, against its own formulas (`formulas.py`) and within what rounding explains.

    score × normalizer × window × mask × kernel × dtype × strides × leading axes × way of calling

Each test makes the same calls in every run; REGARD_SEED_OFFSET shifts them, as it shifts all tests. For more:

    REGARD_FUZZ=20 pytest tests/fuzz        twenty times as many calls, about ten minutes
"""

from dataclasses import replace

import numpy as np
import torch
from fuzz import formulas
from fuzz.problems import DTYPES, HALF, called, expected, fuzz, made, problems, rounded
from hypothesis import given
from hypothesis import strategies as st

from regard import MultiHead
from regard.errors import KernelRefused, RegardError

FULL = {"float64": 2.0**-52, "float32": 2.0**-23, "bfloat16": 2.0**-23, "float16": 2.0**-23}
EPS = FULL | {"bfloat16": 2.0**-7, "float16": 2.0**-10}


def near(what, found, wanted, allowed, clear):
    """Every entry of the rows that can be compared is as near as allowed; shapes are the same."""
    kind = torch.finfo(found.dtype)
    allowed = allowed + 4 * kind.tiny * kind.eps  # what underflows is off by the smallest numbers there are
    found = found.detach().double().numpy()
    assert found.shape == wanted.shape, f"{what} has shape {found.shape}; expected {wanted.shape}"
    clear = np.broadcast_to(clear[..., None], wanted.shape)
    with np.errstate(invalid="ignore"):
        off = np.where(found == wanted, 0, np.abs(found - wanted)) - allowed
    off = np.where(clear, np.where(np.isnan(off), np.inf, off), 0)
    if off.size and off.max() > 0:
        at = np.unravel_index(off.argmax(), off.shape)
        allowed = np.broadcast_to(allowed, wanted.shape)[at]
        raise AssertionError(f"{what}{at}: {found[at]} where {wanted[at]} ± {allowed:.3g} is expected")


def limits(m, wanted):
    """Bounds of what the reference computes, and of a context that a kernel may compute in half precision."""
    dtype = m.problem.dtype
    eps = {"projected": EPS[dtype], "mixed": FULL[dtype], "out": EPS[dtype]}
    lookback = in_order_history(m, wanted)
    plain = formulas.bounds(m.recipe, m.numbers, wanted, lookback, exact=FULL[dtype], **eps)
    if dtype not in HALF:
        return plain, plain
    eps = {"projected": EPS[dtype], "mixed": EPS[dtype], "out": EPS[dtype]}
    return plain, formulas.bounds(m.recipe, m.numbers, wanted, lookback, exact=EPS[dtype] / 4, **eps)


def in_order_history(m, wanted):
    """The most that any step of queries in order can have behind it."""
    if m.problem.way != "in order" or m.past is None:
        return m.past
    return m.past[0] + 1.0, m.past[1] + np.abs(wanted.weights).sum(-2, keepdims=True)


def attempt(m):
    """The call; if a kernel that was asked for by name refuses it, by the one that `auto` takes."""
    try:
        return called(m)
    except KernelRefused:
        assert m.problem.kernel not in ("auto", "reference")
        m.attention.kernel = "auto"
        return called(m)


def check(m, looked):
    wanted, S = expected(m), m.problem.S
    plain, context = limits(m, wanted)
    many = m.problem.T if m.problem.way == "in order" else 1  # errors of a step reach all later ones
    assert looked.context.dtype == DTYPES[m.problem.dtype]
    near(
        "context",
        looked.context,
        wanted.context,
        many * context.context,
        broadcast(context.clear, wanted.context),
    )
    near(
        "weights",
        looked.whole(lambda r: r.weights, S, 0.0),
        wanted.weights,
        many * plain.weights,
        plain.clear,
    )
    hidden = np.where(wanted.visible, wanted.scores, -np.inf)
    near("scores", looked.whole(lambda r: r.scores, S, -np.inf), hidden, many * plain.scores, plain.clear)
    if len(looked.results) == 1 and m.problem.T and S:
        check_looks(m, looked.results[0], wanted, plain, many)


def broadcast(clear, context):
    return np.broadcast_to(clear, context.shape[:-1])


def check_looks(m, result, wanted, plain, many):
    T, S = m.problem.T, m.problem.S
    targets = m.rng.integers(-T, T, m.rng.integers(1, 4))
    rows = result.rows(torch.from_numpy(targets))
    allowed = np.broadcast_to(many * plain.weights, wanted.weights.shape)
    near("rows", rows, wanted.weights[..., targets, :], allowed[..., targets, :], plain.clear[..., targets])
    k = int(m.rng.integers(1, S + 1))
    values, places = result.top(k)
    ordered = -np.sort(-wanted.weights, -1)[..., :k]
    most = allowed.max(-1, keepdims=True)
    near("top", values, ordered, most, plain.clear)
    places = places.numpy()
    assert ((places >= 0) & (places < S)).all()
    chosen = np.take_along_axis(wanted.weights, places, -1)
    near("weights at top's places", values, chosen, most, plain.clear)
    if k > 1:
        assert (np.diff(np.sort(places, -1), axis=-1) > 0).all(), "top names a place twice"


@fuzz(900)
@given(problems())
def test_a_call_gives_what_the_equations_say(problem):
    m = made(problem)
    with torch.no_grad():
        check(m, attempt(m))


SMOOTH = {"dtypes": ("float32", "float64"), "ways": ("once", "attend", "steps", "grown", "cache", "shared")}


@fuzz(400)
@given(problems(**SMOOTH))
def test_gradients_are_the_slopes_of_the_equations(problem):
    m = made(replace(problem, zeros=False))
    wanted = expected(m)
    plain, _ = limits(m, wanted)
    if not plain.clear.all() or formulas.kinks(m.recipe, m.numbers) < 1e-4 or on_the_edge(m, wanted, plain):
        return
    for tensor in m.tensors.values():
        tensor.requires_grad_()
    looked = attempt(m)
    cotangent = m.rng.standard_normal(wanted.context.shape)
    loss = (looked.context * torch.from_numpy(cotangent).to(looked.context.dtype)).sum()
    names = list(m.tensors)
    if loss.requires_grad:
        grads = torch.autograd.grad(loss, list(m.tensors.values()), allow_unused=True)
    else:
        grads = [None] * len(names)
    p = m.problem
    size = 64 + p.S + p.T + sum(p.dims) + wanted.context[..., 0].size
    sharp = 1 + formulas.sharpness(m.recipe, m.numbers, m.past)
    relative = size * sharp * FULL[p.dtype] + 4 * plain.steep
    for name, grad in zip(names, grads, strict=True):
        x = m.numbers[name]
        along = m.rng.standard_normal(m.tensors[name].shape)
        moved = np.repeat(along, p.copies, 0) if name in ("keys", "values") and p.way == "shared" else along
        slope = formulas.slope(m.recipe, m.numbers, m.visible, m.past, name, moved, cotangent)
        found = 0.0 if grad is None else float((grad.double().numpy() * along).sum())
        steepness = formulas.steepness(m.recipe, m.numbers, wanted, m.past, name, moved, cotangent)
        allowed = relative * steepness + 1e-30 + (1e-35 * x.size if p.dtype == "float32" else 0)
        assert abs(found - slope) <= allowed, f"{name}: {found} where {slope} ± {allowed:.3g} is expected"


def on_the_edge(m, wanted, plain):
    """A weight of sparsemax so small that rounding may make it zero: the slope jumps there."""
    if m.problem.normalizer != "sparsemax":
        return False
    e = np.where(wanted.visible, wanted.scores, -np.inf)
    w = wanted.soft
    inside = np.where(w > 0, w, np.inf).min(-1, initial=np.inf)
    tau = np.where(w > 0, e - w, -np.inf).max(-1, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        below = np.where((w == 0) & wanted.visible, tau[..., None] - e, np.inf).min(-1, initial=np.inf)
    most = np.broadcast_to(plain.weights, w.shape).max(-1, initial=0.0)
    return bool((np.minimum(inside, below) <= 4 * most).any())


@fuzz(150)
@given(problems(ways=("once", "attend", "grown", "shared", "in order"), sizes=st.sampled_from([0, 0, 1, 2])))
def test_no_queries_and_no_positions_give_what_the_equations_say(problem):
    m = made(problem)
    with torch.no_grad():
        check(m, attempt(m))


GARBAGE = (np.nan, np.inf, -np.inf, 1e30)


SEEN = ("once", "attend", "steps", "shared")


@fuzz(200)
@given(problems(ways=SEEN, padded=True), st.sampled_from(GARBAGE))
def test_what_stands_in_padding_does_not_matter(problem, garbage):
    """Keys and values that lengths or a dense mask hide may be anything, even no numbers."""
    check_hidden(replace(problem, causal=False, span=None), garbage)


@fuzz(100)
@given(problems(ways=SEEN, padded=True), st.sampled_from(GARBAGE))
def test_what_no_query_may_see_does_not_matter(problem, garbage):
    """The same for what lies outside of all queries' windows, or in the future of all of them."""
    check_hidden(problem, garbage)


def check_hidden(problem, garbage):
    m = made(replace(problem, layouts=("plain", "plain", "plain")))
    m = replace(m, keys=with_garbage(m, "keys", garbage), values=with_garbage(m, "values", garbage))
    smooth = problem.dtype in ("float32", "float64")
    for tensor in (m.query, m.keys, m.values):
        tensor.requires_grad_(smooth)
    looked = attempt(m)
    check(m, looked)
    if not smooth or not looked.context.requires_grad:
        return
    inputs = [m.query, m.keys, m.values, *m.attention.parameters()]
    for grad in torch.autograd.grad(looked.context.square().sum(), inputs, allow_unused=True):
        assert grad is None or grad.isfinite().all(), "a gradient is not finite"


def with_garbage(m, name, garbage):
    """Keys or values with garbage at the positions that no query sees; the formulas see zeros there."""
    p, lead = m.problem, m.problem.leads[1]
    if name == "values" and p.leads[2] != lead:  # values with rows of their own: which are hidden?
        return m.values.clone()
    rows = (lead[0] * p.copies, *lead[1:]) if p.way == "shared" else lead
    seen = np.broadcast_to(m.visible, (*m.visible.shape[:-2], p.T, p.S)).any(-2)
    seen = np.broadcast_to(seen, (*np.broadcast_shapes(seen.shape[:-1], rows), p.S))
    # a row that many read is visible where one of them sees it
    seen = seen.any(tuple(range(seen.ndim - 1 - len(rows))))
    for axis, size in enumerate(rows):
        seen = seen.any(axis, keepdims=True) if size == 1 else seen
    if p.way == "shared":
        seen = seen.reshape(lead[0], p.copies, *seen.shape[1:]).any(1)
    repeated = np.repeat(seen, p.copies, 0) if p.way == "shared" else seen
    m.numbers[name] = np.where(repeated[..., None], m.numbers[name], 0)
    filled = getattr(m, name).clone()
    filled[torch.from_numpy(~seen)] = garbage
    return filled


@fuzz(200)
@given(problems(ways=("once",), dtypes=("float32",)), st.tuples(*[st.sampled_from(tuple(DTYPES))] * 3))
def test_inputs_of_different_dtypes_give_what_the_equations_say_or_a_sentence(problem, dtypes):
    m = made(problem)
    names = ("query", "keys", "values")
    for name, dtype in zip(names, dtypes, strict=True):
        m.numbers[name] = rounded(m.numbers[name], dtype)
        setattr(m, name, getattr(m, name).to(DTYPES[dtype]))
    with torch.no_grad():
        try:
            looked = attempt(m)
        except RegardError:
            return
    assert looked.context.dtype == DTYPES[dtypes[2]]
    wanted = expected(m)
    lowest = max(EPS[dtype] for dtype in dtypes)  # what a kernel may round to
    eps = {"projected": max(lowest, EPS["float32"]), "mixed": lowest, "out": EPS[dtypes[2]]}
    found = formulas.bounds(
        m.recipe, m.numbers, wanted, m.past, exact=max(FULL["float32"], lowest / 4), **eps
    )
    near("context", looked.context, wanted.context, found.context, broadcast(found.clear, wanted.context))


@fuzz(150)
@given(problems(ways=("once",), normalizers=("hard", "straight-through", "gumbel-softmax", "gumbel-hard")))
def test_what_is_drawn_in_training_follows_the_equations_given_the_draw(problem):
    """Gumbel noise comes from the generator; the formulas get the same noise."""
    m = made(replace(problem, window="global", kernel="auto"))
    m.attention.train()
    p, wanted = m.problem, expected(m)
    source = m.attention.prepare(m.keys, m.values, m.mask).at(p.offset)
    with torch.no_grad():
        result = m.attention(m.query, source, history=m.history, generator=seeded(p.seed))
    weights, scores = result.weights, result.scores
    uniform = torch.rand(scores.shape, dtype=scores.dtype, generator=seeded(p.seed)).double().numpy()
    info = torch.finfo(scores.dtype)
    noise = -np.log(-np.log(uniform.clip(info.tiny, 1 - info.eps)))
    noisy = replace_scores(wanted, noise)
    tau = m.recipe.temperature
    eps = (
        64
        * info.eps
        * (1 + np.abs(noise).max(initial=0.0) + np.abs(wanted.scores[wanted.visible]).max(initial=0.0))
    )
    plain, _ = limits(m, wanted)
    off = plain.scores.max(initial=0.0) + eps
    if p.normalizer == "gumbel-softmax":
        soft = formulas.normalize(formulas.Recipe("dot", temperature=tau), noisy, wanted.visible)
        near(
            "weights",
            weights,
            soft,
            np.expm1(min(1.0, 2 * off / tau)) * soft + 1e-37,
            np.ones(soft.shape[:-1], bool),
        )
        return
    chosen = weights.double().numpy()
    assert set(np.unique(chosen)) <= {0.0, 1.0}
    some = wanted.visible.any(-1)
    assert (chosen.sum(-1) == some).all()
    assert (chosen[~wanted.visible] == 0).all()
    best = np.where(wanted.visible, noisy, -np.inf).max(-1, initial=-np.inf)
    own = np.where(chosen == 1, noisy, -np.inf).max(-1, initial=-np.inf)
    assert (own[some] >= best[some] - 2 * off).all(), "another position was likelier"
    if p.normalizer in ("hard", "straight-through"):
        soft = formulas.normalize(formulas.Recipe("dot"), wanted.scores, wanted.visible)
        logs = np.log(np.where(chosen == 1, soft, 1.0)).sum(-1)
        found = result.log_probability.double().numpy()
        assert (np.abs(found - logs) <= 4 * off + 1e-12).all() or np.abs(logs).max() > 80


def replace_scores(wanted, noise):
    return np.where(wanted.visible, wanted.scores + noise, 0.0)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


@fuzz(150)
@given(
    problems(ways=("once",), scores=("dot", "scaled-dot", "general", "cosine", "additive")), st.integers(1, 4)
)
def test_heads_are_the_same_call_between_projections(problem, heads):
    """MultiHead: split, attend in each head by the formula, join; kernels see strided heads."""
    lead = (1 + problem.seed % 3,)
    dim_head = problem.dims[0]
    dims = (dim_head, dim_head, dim_head, problem.dims[3])
    keys = (1,) if problem.lengths is None and problem.dense is None and problem.seed % 5 == 0 else lead
    lengths = None if problem.lengths is None else (problem.lengths * 3)[: lead[0]]
    p = replace(problem, leads=(lead, keys, keys), dims=dims, lengths=lengths, dense=None)
    inner = made(replace(p, leads=((lead[0], heads), (keys[0], heads), (keys[0], heads))))
    m = made(p)
    eps = EPS[p.dtype]
    dim = heads * dim_head
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(p.seed)
        model = (
            MultiHead(dim, heads, attention=inner.attention, bias=bool(p.seed % 2)).to(DTYPES[p.dtype]).eval()
        )
    sides = {}
    for name, rows, size in (("query", lead, p.T), ("keys", keys, p.S), ("values", keys, p.S)):
        sides[name] = rounded(m.rng.standard_normal((*rows, size, dim)), p.dtype)
    tensors = {name: torch.from_numpy(x).to(DTYPES[p.dtype]) for name, x in sides.items()}
    for name, W in (("query", model.W_Q), ("keys", model.W_K), ("values", model.W_V)):
        projected = W(tensors[name]).detach().double().numpy()  # rounded once; the formula goes on from there
        split = projected.reshape(*projected.shape[:-1], heads, dim_head)
        inner.numbers[name] = np.swapaxes(split, -2, -3)
    inner.mask = m.mask
    inner.visible = np.expand_dims(
        np.broadcast_to(m.visible, (*np.broadcast_shapes(m.visible.shape[:-2], (1,)), p.T, p.S)), 1
    )
    source = model.prepare(tensors["keys"], tensors["values"], mask=m.mask).at(p.offset)
    with torch.no_grad():
        try:
            result = model(tensors["query"], source)
        except KernelRefused:
            model.attention.kernel = "auto"
            result = model(tensors["query"], source)
    wanted = expected(inner)
    plain, context = limits(inner, wanted)
    near("weights", result.weights, wanted.weights, plain.weights, plain.clear)
    joined = np.swapaxes(wanted.context, -2, -3).reshape(lead[0], p.T, dim)
    allowed = np.swapaxes(np.broadcast_to(context.context, wanted.context.shape), -2, -3).reshape(
        joined.shape
    )
    clear = np.swapaxes(np.broadcast_to(context.clear, wanted.context.shape[:-1]), -1, -2).all(-1)
    W = model.W_O.weight.detach().double().numpy()
    bias = 0 if model.W_O.bias is None else model.W_O.bias.detach().double().numpy()
    many = (dim + 16) * (FULL[p.dtype]) + 4 * eps
    size = np.abs(joined) @ np.abs(W.T) + np.abs(bias)
    near("context", result.context, joined @ W.T + bias, allowed @ np.abs(W.T) + many * size, clear)
