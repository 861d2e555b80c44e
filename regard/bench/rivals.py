"""Other implementations of a mechanism, and SDPA as the yardstick.

    by-hand    PyTorch's fused dot product on a transformed query: what one would write by hand, knowing that
               the score is a product
    sorted     sparsemax as in its paper: sort, cumulative sums, support, threshold; gradient in closed form
    entmax     the same by the package of this name, if installed
    flex       FlexAttention, compiled
    compile    torch.compile of the reference

FlexAttention modifies each score of a dot product before the softmax. Additive attention is unrolled by hand:
the dot product is discarded and Σ_d v_d tanh(a_d + b_d) written out feature by feature. A local window is a
mask. Factors on the weights after the softmax, and other normalizers, cannot be expressed.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.attention.normalizers.softmax import Softmax
from regard.attention.normalizers.sparsemax import Sparsemax
from regard.attention.reference import weighted_sum
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.base import Score
from regard.attention.scores.cosine import CosineScore
from regard.attention.scores.dot import DotScore
from regard.attention.scores.feedforward import FeedForwardScore
from regard.attention.scores.general import GeneralScore
from regard.attention.windows.everywhere import Everywhere
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.bench.problems import Problem

PRODUCTS = (DotScore, GeneralScore, CosineScore, FeedForwardScore)
UNROLLED = 64  # most features to unroll: more take minutes to compile

Run = Callable[[], Tensor]


@dataclass(frozen=True)
class Rival:
    """Another implementation of the same numbers."""

    name: str
    applies: Callable[[Problem], bool]  # whether it can compute this mechanism at all
    build: Callable[[Problem], Run]
    # (problem, training) -> None, or why not, as a clause
    refuses: Callable[[Problem, bool], str | None] = lambda problem, training: None
    compiles: bool = False  # for each size, which takes seconds


def compiled(problem: Problem) -> Run:
    """torch.compile of the reference, at this size."""
    attention = problem.attention("reference")

    def attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        source = replace(problem.source, keys=keys, values=values)
        return attention(query, source, history=problem.history).context

    fast = torch.compile(attend, dynamic=False)
    return lambda: fast(problem.query, problem.source.keys, problem.source.values)


# FlexAttention ----------------------------------------------------------------------------------------------


def flex_applies(problem: Problem) -> bool:
    """Whether it is a softmax over scores of one query and one key, with nothing after it."""
    return is_softmax(problem, (AdditiveScore, *PRODUCTS), (Everywhere, LocalMonotonic))


def flex_refuses(problem: Problem, training: bool) -> str | None:
    """Why FlexAttention, which could express the mechanism, cannot run it here."""
    if isinstance(problem.parts.score, AdditiveScore) and problem.features > UNROLLED:
        return f"{problem.features} features written out one by one take minutes to compile"
    if problem.query.device.type == "cpu" and training:
        return "it has no gradient on a CPU"
    return None


def flex(problem: Problem) -> Run:
    """flex_attention under torch.compile, without which it is not a fused kernel."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    score, window, query = problem.parts.score, problem.parts.window, problem.query
    T, S, device = query.shape[-2], problem.source.S, query.device.type
    options: dict[str, Any] = {"scale": 1.0}
    if isinstance(window, LocalMonotonic):
        reach = window.half_width

        def near(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            return (q - k).abs() <= reach

        options["block_mask"] = create_block_mask(near, None, None, T, S, device=device)

    def attend(query: Tensor, keys: Tensor, values: Tensor) -> Any:
        query, keys, values = four(query), four(keys), four(values)
        if isinstance(score, AdditiveScore):
            a, v = score.W(query), score.v.weight[0]
            return flex_attention(a, keys, values, score_mod=unrolled(a, keys, v), **options)
        return flex_attention(product_query(score, query), keys, values, **options)

    fast = torch.compile(attend, dynamic=False)

    def run() -> Tensor:
        inputs = [query, problem.source.keys, problem.source.values]
        if not torch.is_grad_enabled():  # on a CPU it rejects inputs that require a gradient
            inputs = [x.detach() for x in inputs]
        return like(query, fast(*inputs))

    return run


def unrolled(a: Tensor, b: Tensor, v: Tensor) -> Callable[..., Tensor]:
    """Σ_d v_d tanh(a_d + b_d) as a score_mod, unrolled over the features."""
    a, b, v = a.float(), b.float(), v.float()
    D = v.shape[0]

    def score_mod(score: Tensor, batch: Tensor, head: Tensor, q: Tensor, k: Tensor) -> Tensor:
        total = score * 0.0
        for d in range(D):
            total = total + v[d] * torch.tanh(a[batch, head, q, d] + b[batch, head, k, d])
        return total

    return score_mod


def product_query(score: Any, query: Tensor) -> Tensor:
    """The query whose plain product with the prepared keys is the score."""
    if isinstance(score, DotScore):
        return query * score.factor(query.shape[-1])
    if isinstance(score, CosineScore):
        strength = score.strength if score.beta is None else F.softplus(score.beta(query))
        return F.normalize(query, dim=-1) * strength
    if isinstance(score, FeedForwardScore):
        return score.F(query)
    return query


def four(x: Tensor) -> Tensor:
    """(B, T, D) or (B, H, T, D) -> (B, H, T, D)."""
    return x if x.ndim == 4 else x[:, None]


def like(query: Tensor, found: Tensor) -> Tensor:
    """(B, H, T, D) -> the leading axes of the query."""
    return found.reshape(*query.shape[:-1], found.shape[-1])


# sparsemax --------------------------------------------------------------------------------------------------


def is_sparsemax(problem: Problem) -> bool:
    """Whether it is sparsemax of a score without history."""
    return isinstance(problem.parts.normalizer, Sparsemax) and isinstance(problem.parts.score, Score)


def over_scores(problem: Problem, sparsemax: Callable[[Tensor], Tensor]) -> Run:
    """The reference's scores and mixing with this sparsemax over the last axis."""
    score = problem.parts.score
    assert isinstance(score, Score)
    return lambda: weighted_sum(sparsemax(score(problem.query, problem.source.keys)), problem.source.values)


def entmax_refuses(problem: Problem, training: bool) -> str | None:
    """Refuses if the package is not installed."""
    return "the package is not installed" if importlib.util.find_spec("entmax") is None else None


def entmax(problem: Problem) -> Run:
    """The package's sparsemax."""
    from entmax import sparsemax

    return over_scores(problem, sparsemax)


class Sorted(torch.autograd.Function):
    """Algorithm 1 of the sparsemax paper over the last axis, and its equation for the Jacobian."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        z = scores - scores.amax(-1, keepdim=True)
        ordered = z.sort(-1, descending=True).values
        sums = ordered.cumsum(-1)
        k = torch.arange(1, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        support = (1 + k * ordered > sums).sum(-1, keepdim=True)
        threshold = (sums.gather(-1, support - 1) - 1) / support
        weights = (z - threshold).clamp_min(0)
        ctx.save_for_backward(weights, support)
        return weights

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        weights, support = ctx.saved_tensors
        inside = weights > 0
        mean = (grad * inside).sum(-1, keepdim=True) / support
        return (grad - mean) * inside


# by hand ----------------------------------------------------------------------------------------------------


def is_softmax(problem: Problem, scores: tuple[type, ...], windows: tuple[type, ...]) -> bool:
    """Whether it is softmax over one of these scores, in one of these windows or in none."""
    score, window, normalizer = problem.parts.score, problem.parts.window, problem.parts.normalizer
    within = window is None or isinstance(window, windows)
    return isinstance(score, scores) and within and isinstance(normalizer, Softmax)


def by_hand(problem: Problem) -> Run:
    """PyTorch's scaled dot product attention on prepared keys."""
    score, query, source = problem.parts.score, problem.query, problem.source

    def run() -> Tensor:
        q = four(product_query(score, query))
        k, v = four(source.keys).to(q.dtype), four(source.values).to(q.dtype)
        return like(query, F.scaled_dot_product_attention(q, k, v, scale=1.0))

    return run


RIVALS = (
    Rival("by-hand", lambda problem: is_softmax(problem, PRODUCTS, (Everywhere,)), by_hand),
    Rival("sorted", is_sparsemax, lambda problem: over_scores(problem, Sorted.apply)),
    Rival("entmax", is_sparsemax, entmax, entmax_refuses),
    Rival("flex", flex_applies, flex, flex_refuses, compiles=True),
    Rival("compile", lambda problem: True, compiled, compiles=True),
)


def yardstick(problem: Problem) -> Callable[[bool], Any]:
    """PyTorch's fused dot product with equally many queries, keys and features, on inputs of its own."""
    lead = problem.query.shape[:-2] if problem.query.ndim == 4 else (problem.query.shape[0], 1)
    like = problem.query.detach()
    q, k, v = (
        torch.randn(*lead, n, problem.size.D, dtype=like.dtype, device=like.device, requires_grad=True)
        for n in (like.shape[-2], problem.source.S, problem.source.S)
    )
    grad = torch.randn_like(q)

    def run(training: bool) -> Any:
        context = F.scaled_dot_product_attention(q, k, v)
        return torch.autograd.grad(context, (q, k, v), grad) if training else context

    return run
