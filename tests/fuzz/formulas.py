"""The equations of the papers in NumPy: real numbers for values, complex ones for slopes.

    d/dε f(x + ε d) = Im f(x + i h d) / h,  h = 1e-30              (the complex step)

No difference is taken, so nothing cancels: slopes are exact to the last digits of float64. Whatever compares
(a maximum, a sort, a ReLU) therefore looks at real parts alone.

Beside each score stands its magnitude: the same sums over absolute values. Rounding errors are a multiple of
eps and of magnitudes, and so are the tolerances of the fuzz (`Bounds`).
"""

from dataclasses import dataclass

import numpy as np

STEP = 1e-30


@dataclass(frozen=True)
class Recipe:
    """Which equations, and the numbers in them that are no arrays."""

    score: str
    normalizer: str = "softmax"
    window: str = "global"
    scale: float = 1.0  # of the dot product
    temperature: float = 1.0
    strength: float = 1.0  # cosine without a β of the query
    fertility: float = 2.0
    half_width: int = 1
    offset: int = 0  # position of the first query


@dataclass
class Found:
    scores: np.ndarray  # (..., T, S); anything where hidden
    visible: np.ndarray  # (..., T, S)
    weights: np.ndarray
    context: np.ndarray
    soft: np.ndarray  # weights before a window's factor
    factor: np.ndarray | None
    centre: np.ndarray | None  # p of local-p
    length: np.ndarray  # (..., T, 1)


def turned(x):
    return np.swapaxes(x, -1, -2)


def relu(x):
    return np.where(x.real > 0, x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def linear(x, W, b=None):
    return x @ turned(W) + (0 if b is None else b)


def lengths(x):
    """‖x‖ without conjugation: it is to have a complex slope."""
    largest = np.abs(x).max(-1, keepdims=True, initial=0.0)
    largest = np.where(largest > 0, largest, 1.0)
    return largest * np.sqrt(((x / largest) ** 2).sum(-1, keepdims=True))


def direction(x):
    norm = lengths(x)
    return x / np.where(norm.real > 0, norm, 1.0)


# scores: e[t, s]


def pairs(hidden_q, hidden_k, v):
    """vᵀ tanh(q_t + k_s)."""
    return (np.tanh(hidden_q[..., :, None, :] + hidden_k[..., None, :, :]) * v).sum(-1)


def conv(alpha, F):
    """(..., 1, S), (filters, 1, width) -> (..., S, filters)."""
    width, S = F.shape[-1], alpha.shape[-1]
    empty = np.zeros((*alpha.shape[:-1], width // 2))
    padded = np.concatenate([empty, alpha, empty], -1)
    seen = np.stack([padded[..., 0, j : j + S] for j in range(width)], -1)  # (..., S, width)
    return seen @ F[:, 0].T


def network(x, n):
    hidden = relu(linear(x, n["F.1.weight"], n["F.1.bias"]))
    return relu(linear(hidden, n["F.4.weight"], n["F.4.bias"]))


def score(r, n, history=None):
    q, k = n["query"], n["keys"]
    if r.score in ("dot", "scaled-dot"):
        return (r.scale * q) @ turned(k)
    if r.score == "general":
        return q @ turned(linear(k, n["W.weight"]))
    if r.score == "additive":
        return pairs(linear(q, n["W.weight"]), linear(k, n["U.weight"], n["U.bias"]), n["v.weight"][0])
    if r.score == "rectified":
        return relu(linear(q, n["W.weight"]) + turned(linear(k, n["U.weight"])))
    if r.score == "cosine":
        beta = r.strength
        if "beta.weight" in n:
            x = linear(q, n["beta.weight"], n["beta.bias"])
            beta = np.where(x.real > 0, x, 0) + np.log1p(np.exp(np.where(x.real > 0, -x, x)))
        return beta * (direction(q) @ turned(direction(k)))
    if r.score == "location":
        S, P = k.shape[-2], n["W.weight"].shape[0]
        e = linear(q, n["W.weight"][:S])
        beyond = np.full((*e.shape[:-1], max(0, S - P)), -np.inf)
        return np.concatenate([e, beyond], -1)
    if r.score == "feedforward":
        return network(q, n) @ turned(network(k, n))
    if r.score == "location-aware":
        located = linear(conv(history[0], n["F.weight"]), n["U.weight"])
        keys = linear(k, n["V.weight"], n["V.bias"]) + located
        return pairs(linear(q, n["W.weight"]), keys, n["w.weight"][0])
    if r.score == "coverage":
        fertility = r.fertility * sigmoid(linear(k, n["U_f.weight"]))
        keys = linear(k, n["U.weight"], n["U.bias"]) + (turned(history[1]) / fertility) * n["V.weight"][:, 0]
        return pairs(linear(q, n["W.weight"]), keys, n["v.weight"][0])
    raise AssertionError(r.score)


def magnitude(r, n, history=None):
    """What the score would be if nothing cancelled: |q|, |k| and |parameters| in its sums, tanh(x) ≤ x."""
    n = {name: np.abs(x) for name, x in n.items()}
    q, k = n["query"], n["keys"]
    if r.score in ("dot", "scaled-dot", "general", "location", "rectified"):
        return np.abs(score(r, n))
    if r.score == "cosine":
        beta = abs(r.strength)
        if "beta.weight" in n:
            beta = 1 + linear(q, n["beta.weight"], n["beta.bias"])  # softplus(x) ≤ |x| + log 2
        return beta * np.ones((1, k.shape[-2]))
    if r.score == "feedforward":
        return score(r, n)
    keys, v = None, n["v.weight"] if "v.weight" in n else n["w.weight"]
    if r.score == "additive":
        keys = linear(k, n["U.weight"], n["U.bias"])
    elif r.score == "location-aware":
        located = linear(conv(np.abs(history[0]), n["F.weight"]), n["U.weight"])
        keys = linear(k, n["V.weight"], n["V.bias"]) + located
    else:
        # σ(-x) is the least that the fertility can be; it divides, and its own slope multiplies once more
        least = r.fertility * sigmoid(-linear(k, n["U_f.weight"]))
        covered = np.abs(turned(history[1])) / least * (1 + linear(k, n["U_f.weight"]))
        keys = linear(k, n["U.weight"], n["U.bias"]) + covered * n["V.weight"][:, 0]
    queries = linear(q, n["W.weight"])
    return linear(queries, v) + turned(linear(keys, v)) + v.sum()  # + v: tanh itself is rounded


def kinks(r, n):
    """How near a ReLU stands to its corner, against the magnitudes there; the slope jumps at 0."""
    absolute = {name: np.abs(x) for name, x in n.items()}
    if r.score == "rectified":
        sums = linear(n["query"], n["W.weight"]) + turned(linear(n["keys"], n["U.weight"]))
        return np.abs(sums / magnitude(r, n)).min(initial=1.0)
    if r.score != "feedforward":
        return 1.0
    nearest = 1.0
    for side in ("query", "keys"):
        x, size = n[side], absolute[side]
        for layer in ("F.1", "F.4"):
            x = linear(x, n[f"{layer}.weight"], n[f"{layer}.bias"])
            size = linear(size, absolute[f"{layer}.weight"], absolute[f"{layer}.bias"])
            nearest = min(nearest, np.abs(x / size).min(initial=1.0))
            x = relu(x)
    return nearest


# masks and windows


def positional(T, S, *, offset=0, causal=False, window=None):
    """(T, S): s ≤ t, and t - left ≤ s ≤ t + right."""
    t, s = np.arange(offset, offset + T)[:, None], np.arange(S)
    seen = np.ones((T, S), bool)
    if causal:
        seen &= s <= t
    if window is not None:
        seen &= (t - window[0] <= s) & (s <= t + window[1])
    return seen


def narrowed(r, n, visible):
    """What a window leaves visible; its factor, its centre, and S of the paper."""
    T, S = visible.shape[-2:]
    length = np.where(visible, np.arange(1, S + 1), 0).max(-1, keepdims=True, initial=0)  # (..., T, 1)
    if r.window == "global":
        return visible, None, None, length
    s = np.arange(S)
    if r.window == "local-monotonic":
        t = np.arange(r.offset, r.offset + T)[:, None]
        return visible & (np.abs(s - np.minimum(t, length - 1)) <= r.half_width), None, None, length
    hidden = np.tanh(linear(n["query"], n["window.W.weight"]))
    p = length * sigmoid(linear(hidden, n["window.v.weight"]))
    factor = np.exp(-((s - p) ** 2) / (2 * (r.half_width / 2) ** 2))
    return visible & (np.abs(s - p.real) <= r.half_width), factor, p, length


# normalizers


def normalize(r, e, visible):
    """(..., T, S) scores -> weights; zeros where nothing is visible."""
    some = visible.any(-1, keepdims=True)
    e = np.where(visible, e, 0)
    if r.normalizer == "mean":
        return visible / np.maximum(visible.sum(-1, keepdims=True), 1)
    if r.normalizer == "divide-by-length":
        return e / np.maximum(visible.sum(-1, keepdims=True), 1)
    most = np.where(visible, e.real, -np.inf).max(-1, keepdims=True, initial=-np.inf)
    z = np.where(visible, e - np.where(some, most, 0), 0)
    if r.normalizer == "sparsemax":
        return sparsemax(z, visible)
    powers = np.where(visible, np.exp(z / r.temperature), 0)
    soft = powers / np.where(some, powers.sum(-1, keepdims=True), 1)
    if r.normalizer in ("softmax", "gumbel-softmax"):
        return soft
    chosen = np.where(visible, e.real, -np.inf).argmax(-1)[..., None] if e.shape[-1] else 0
    one = ((np.arange(e.shape[-1]) == chosen) & some).astype(float)
    return one if r.normalizer == "hard" or not np.iscomplexobj(soft) else one + 1j * soft.imag


def sparsemax(z, visible):
    """max(z - τ, 0), τ from the largest k with 1 + k z_(k) > Σ_{j≤k} z_(j)."""
    S = z.shape[-1]
    order = np.argsort(np.where(visible, -z.real, np.inf), -1, kind="stable")
    ordered, shown = np.take_along_axis(z, order, -1), np.take_along_axis(visible, order, -1)
    sums, k = np.cumsum(np.where(shown, ordered, 0), -1), np.arange(1, S + 1)
    inside = shown & (1 + k * ordered.real > sums.real)
    support = np.maximum(inside.sum(-1, keepdims=True), 1)
    tau = (np.take_along_axis(sums, support - 1, -1) - 1) / support if S else 0
    return np.where(visible & ((z - tau).real > 0), z - tau, 0)


def attend(r, n, visible, history=None):
    """All of it: scores, weights, context."""
    e = score(r, n, history)
    T, S = n["query"].shape[-2], n["keys"].shape[-2]
    lead = np.broadcast_shapes(n["query"].shape[:-2], n["keys"].shape[:-2], e.shape[:-2], visible.shape[:-2])
    e = np.broadcast_to(e, (*lead, T, S))
    visible = np.broadcast_to(visible, (*lead, T, S))
    seen, factor, centre, length = narrowed(r, n, visible)
    seen = np.broadcast_to(seen & (e.real > -np.inf), e.shape)
    soft = normalize(r, e, seen)
    weights = soft if factor is None else soft * factor
    return Found(e, seen, weights, weights @ n["values"], soft, factor, centre, length)


# how far rounding may go


@dataclass
class Bounds:
    """What a call may differ from the formula, entry by entry; `clear` are the rows that can be compared."""

    scores: np.ndarray
    weights: np.ndarray
    context: np.ndarray
    clear: np.ndarray  # (..., T): no choice of the row hangs on a rounding error
    steep: float  # relative error of a weight that the errors of the scores make


def bounds(r, n, found, history=None, *, exact, projected, mixed, out):
    """eps of the scores, of projections, of products with the values, and of the context."""
    e, visible = found.scores.real, found.visible
    D = n["query"].shape[-1] + n["keys"].shape[-1] + sum(x.shape[-1] for x in n.values() if x.ndim == 2)
    many = 16 + D  # additions in a row, each of which may lose eps / 2
    eps = max(exact * many, 0 if r.score in ("dot", "scaled-dot", "cosine", "location") else 8 * projected)
    with np.errstate(invalid="ignore"):
        size = np.broadcast_to(magnitude(r, n, history), e.shape)
        off = eps * np.where(visible, size, 0) + np.finfo(float).tiny
    S = e.shape[-1]
    most = off.max(-1, keepdims=True, initial=0.0)  # (..., T, 1)
    clear = np.ones(e.shape[:-1], bool)
    tiny = 1e-37 if exact > 1e-10 else 1e-300  # below it numbers vanish
    sums = (S + 16) * exact
    if r.normalizer in ("softmax", "gumbel-softmax"):
        steep = np.minimum(np.expm1(np.minimum(2 * most / r.temperature + sums, 1.0)), 1.0)
        weights = found.soft.real * steep + np.where(visible, tiny, 0)
    elif r.normalizer == "sparsemax":
        steep, weights = sums, np.where(visible, 2 * most + sums, 0)
    elif r.normalizer == "divide-by-length":
        steep, N = sums, np.maximum(visible.sum(-1, keepdims=True), 1)
        weights = (off + 4 * exact * np.where(visible, np.abs(e), 0)) / N
    else:
        steep, weights = sums, found.soft.real * 4 * exact
        if r.normalizer != "mean" and S > 1:
            ordered = np.sort(np.where(visible, e, -np.inf), -1)
            with np.errstate(invalid="ignore"):
                clear &= ~(ordered[..., -1] - ordered[..., -2] <= 4 * most[..., 0])
            steep = np.minimum(np.expm1(np.minimum(2 * most / r.temperature + sums, 1.0)), 1.0)
    if found.factor is not None:
        absolute = {name: np.abs(x) for name, x in n.items()}
        v = absolute["window.v.weight"]
        inside = linear(linear(absolute["query"], absolute["window.W.weight"]), v) + v.sum()
        shift = found.length * (max(8 * projected, many * exact) * inside / 4 + 8 * exact)  # of p
        edge = np.abs(np.abs(np.arange(S) - found.centre.real) - r.half_width)
        clear &= ~(edge <= 2 * shift + 1e-9).any(-1)  # a position that a tiny shift brings in or puts out
        weights = weights * found.factor.real + np.abs(found.soft.real) * (
            4 * shift / r.half_width + 8 * exact
        )
        steep = steep + (shift.max(initial=0.0) * 8)
    v = np.abs(n["values"].real)
    context = weights @ v + ((S + 16) * exact + 4 * mixed) * (np.abs(found.weights.real) @ v)
    context = context + out * (np.abs(found.context.real) + 4 * np.finfo(float).tiny)
    return Bounds(off, weights, context, clear, float(np.max(steep, initial=0.0)))


def slope(r, n, visible, history, leaf, along, cotangent):
    """The derivative of Σ context · cotangent when `leaf` moves along a direction."""
    moved = {name: x.astype(complex) for name, x in n.items()}
    moved[leaf] = moved[leaf] + 1j * STEP * along
    return float((attend(r, moved, visible, history).context.imag * cotangent).sum() / STEP)


def steepness(r, n, found, history, leaf, along, cotangent):
    """The same sum over absolute values: what the derivative would be if nothing cancelled."""
    absolute = {name: np.abs(x) for name, x in n.items()}
    V, R = absolute["values"], np.abs(cotangent)
    w = np.abs(found.soft.real)
    if r.normalizer not in ("softmax", "gumbel-softmax", "sparsemax", "divide-by-length", "mean"):
        w = np.maximum(
            w, np.abs(normalize(Recipe("dot", temperature=r.temperature), found.scores, found.visible))
        )
    f = 1.0 if found.factor is None else found.factor.real
    if leaf == "values":
        return float(((w * f) @ np.abs(along) * R).sum())
    pull = f * (R @ turned(V))  # (..., T, S) how a weight pulls at the loss
    N = np.maximum(found.visible.sum(-1, keepdims=True), 1)
    if r.normalizer == "mean" or r.normalizer == "hard":
        of_scores = 0 * pull
    elif r.normalizer == "divide-by-length":
        of_scores = pull / N
    elif r.normalizer == "sparsemax":
        inside = (w > 0) | found.visible
        of_scores = inside * (pull + (pull * inside).sum(-1, keepdims=True) / N)
    else:
        of_scores = w * (pull + (w * pull).sum(-1, keepdims=True)) / r.temperature
    grown = dict(absolute)
    grown[leaf] = grown[leaf] + np.abs(along)
    total = 0.0
    with np.errstate(invalid="ignore"):
        if r.score == "cosine" and leaf in ("query", "keys"):
            beta = magnitude(r, n)
            norm = np.maximum(lengths(n[leaf]), 1e-300)
            turn = 2 * lengths(np.abs(along)) / norm  # of a unit vector
            change = beta * (turn if leaf == "query" else turned(turn))
            if leaf == "query":
                change = change + magnitude(r, grown) - beta
        else:
            change = magnitude(r, grown, history) - magnitude(r, absolute, history)
        change = np.where(found.visible, change, 0)
    total += float((of_scores * change).sum())
    if found.factor is not None and leaf in ("query", "window.W.weight", "window.v.weight"):
        inner = [
            linear(linear(m["query"], m["window.W.weight"]), m["window.v.weight"])
            + m["window.v.weight"].sum()
            for m in (absolute, grown)
        ]
        moved = found.length * (inner[1] - inner[0]) / 4 * (4 / r.half_width)
        total += float((w * (R @ turned(V)) * moved).sum())
    return total


def largest(x):
    return float(np.abs(x).max(initial=0.0))


def sharpness(r, n, history=None):
    """How large the sums inside a tanh are: its slope is that much less exact."""
    name = "v.weight" if "v.weight" in n else "w.weight"
    return largest(magnitude(r, n | {name: np.ones_like(n[name])}, history)) if name in n else 1.0
