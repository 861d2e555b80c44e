"""Laws of precision: half, autocast, extreme scores."""

from copy import deepcopy

import pytest
import torch
from built import built
from kernels.error_rule import assert_rule
from laws.cases import EACH, PRODUCT, SCORES, B, Case, build, call, inputs, parametrize
from oracles.mean import mean
from oracles.softmax import softmax
from oracles.sparsemax import sparsemax
from torch.testing import assert_close

from regard import Attention, DotScore, History, Mask, MultiHead, Softmax, Sparsemax
from regard.attention.normalizers.mean import Mean
from regard.attention.parts import Sizes
from regard.bench.rule import UNITS

MASK = Mask(lengths=torch.tensor([7, 4]))
ROUNDINGS = dict.fromkeys(("atol", "rtol"), UNITS * torch.finfo(torch.float32).eps)  # of numbers up to 1
HALVES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@parametrize(EACH)
@pytest.mark.parametrize("dtype", HALVES.values(), ids=HALVES)
def test_half_precision_keeps_its_dtype_and_scores_in_float32(case, dtype):
    attention, x = build(case, dtype), inputs(case, dtype=dtype)
    result = call(attention, x, MASK)
    assert result.context.dtype == dtype
    assert result.weights.dtype == torch.float32
    assert result.scores.dtype == torch.float32


@parametrize([case for case in EACH if case.soft])  # a choice between near equals may fall the other way
@pytest.mark.parametrize("dtype", HALVES.values(), ids=HALVES)
def test_half_precision_is_close_to_float64(case, dtype):
    attention, x = build(case, dtype), inputs(case, dtype=dtype)
    result = call(attention, x, MASK)
    exact = build(case)
    exact.load_state_dict(attention.state_dict())  # the same rounded numbers
    expected = call(exact, x.map(lambda a: a.double()), MASK)
    # projections round to the eight (eleven) bits of the dtype; nothing after them may lose more
    tolerance = 8 * torch.finfo(dtype).eps
    if case.window == "local-predictive":  # the edge of the window may fall on either side of a position
        inside = (result.weights > 0) == (expected.weights > 0)
        assert inside.double().mean() > 0.95
        return
    assert_close(result.weights.double(), expected.weights, atol=tolerance, rtol=tolerance)
    assert_close(result.context.double(), expected.context, atol=3 * tolerance, rtol=tolerance)


@parametrize(EACH)
def test_values_alone_decide_the_dtype_of_the_context(case):
    attention, x = build(case, torch.float32), inputs(case, dtype=torch.float32)
    source = attention.prepare(x.keys, x.values.bfloat16(), MASK)
    result = attention(x.query, source, history=x.history)
    assert result.context.dtype == torch.bfloat16
    exact = attention(
        x.query, attention.prepare(x.keys, x.values.bfloat16().float(), MASK), history=x.history
    )
    # another kernel may run: its float32 result may fall on the other side of a tie, a whole unit away, and
    # where the sum over values cancels it is off by roundings of its terms
    magnitude = (exact.weights.abs() @ x.values.abs()).max().item()
    atol = UNITS * torch.finfo(torch.float32).eps * magnitude
    assert_close(result.context, exact.context.bfloat16(), atol=atol, rtol=torch.finfo(torch.bfloat16).eps)


def with_exact_projections(score: str):
    """A score whose projections are short binary fractions: rounding them to bfloat16 changes nothing.

    What is left to differ under autocast is what comes after the projections, and that must be float32.
    """
    module = built(score, Sizes(query=5, keys=5, hidden=13, positions=7, filters=3, width=3)).score.float()
    for name, parameter in module.named_parameters():
        if (
            name not in ("v.weight", "w.weight", "beta.weight", "beta.bias", "U_f.weight")
            and score != "location"
        ):
            parameter.data = torch.randint_like(parameter, -1, 2) / 2
    return module


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_under_autocast_scores_keep_float32_accuracy(score, kernel):
    attention = Attention(with_exact_projections(score), kernel=kernel)
    x = inputs(Case(score), dtype=torch.float32)
    query, keys = torch.randint(-2, 3, (B, 3, 5)).float(), torch.randint(-2, 3, (B, 7, 5)).float()
    history = (
        None if x.history is None else x.history._replace(previous=torch.eye(7)[None, :1].expand(B, 1, 7))
    )
    if score == "coverage":  # a cumulative of zero: the fertility is a rounded projection
        history = history._replace(cumulative=torch.zeros(B, 1, 7))
    if score in ("dot", "scaled-dot", "cosine", "location"):  # nothing is projected: any number will do
        query, keys = torch.randn_like(query), torch.randn_like(keys)

    def found(attention, dtype):
        past = None if history is None else History(*(part.to(dtype) for part in history))
        source = attention.prepare(keys.to(dtype), x.values.to(dtype), MASK)
        result = attention(query.to(dtype), source, history=past)
        assert result.scores.dtype == result.context.dtype == dtype
        outcome = {"scores": result.scores.masked_fill(result.scores == -torch.inf, 0.0)}
        outcome["weights"] = result.weights
        return outcome if past is not None or score == "general" else outcome | {"context": result.context}

    plain, exact = deepcopy(attention), deepcopy(attention).double()
    plain.kernel = exact.kernel = "reference"
    with torch.autocast("cpu", torch.bfloat16):
        ours = found(attention, torch.float32)
    assert_rule((lambda: ours, lambda: found(plain, torch.float32), lambda: found(exact, torch.float64)))


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_heads_work_under_autocast_and_their_weights_may_be_read_later(score, kernel):
    sizes = Sizes(query=5, keys=5, hidden=13, positions=7, filters=3, width=3)
    heads = MultiHead(10, 2, attention=Attention(built(score, sizes).score, kernel=kernel))
    x = torch.randn(B, 7, 10)
    case = Case(score)
    history = inputs(case, lead=(B, 2), dtype=torch.float32).history
    exact = heads(x, heads.prepare(x, None, MASK), history=history)
    with torch.autocast("cpu", torch.bfloat16):
        result = heads(x, heads.prepare(x, None, MASK), history=history)
    assert result.weights.dtype == torch.float32  # read outside of autocast
    # of numbers up to 1, made from projections that are rounded to eight bits
    assert_close(result.weights, exact.weights, atol=4 * torch.finfo(torch.bfloat16).eps, rtol=0)
    result.context.float().sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in heads.parameters() if p.grad is not None)


@parametrize([case for case in PRODUCT if case.kernel == "reference" or not case.fused])
def test_extreme_scores_are_finite_and_have_finite_gradients(case):
    attention = build(case, torch.float32).train()
    x = inputs(case, dtype=torch.float32).map(lambda a: a * 100).requires_grad()
    result = call(attention, x, MASK)
    assert torch.isfinite(result.context).all()
    assert torch.isfinite(result.weights).all()
    result.context.sum().backward()
    grads = [t.grad for t in (*x.leaves(), *attention.parameters()) if t.grad is not None]
    assert all(torch.isfinite(grad).all() for grad in grads)


@pytest.mark.parametrize(
    ("normalizer", "oracle"),
    [(Softmax(), softmax), (Sparsemax(), sparsemax), (Mean(), mean)],
    ids=["softmax", "sparsemax", "mean"],
)
def test_extreme_scores_are_normalized_rightly_in_float32(normalizer, oracle):
    rows = [
        [1e4, -1e4, 0.0],
        [-1e4, -1e4, -1e4],
        [1e4, 1e4 - 0.5, -1e4],  # 1e4 - 0.5 is exact in float32
        [-1e4, -1e4 + 0.25, -1e4 - 0.25],
        [1e4, 1e4, -torch.inf],
    ]
    result = normalizer(torch.tensor(rows))
    assert_close(result, torch.tensor([oracle(row) for row in rows]), **ROUNDINGS)


@pytest.mark.parametrize("kernel", ["auto", "reference"])
def test_extreme_dot_products_are_right_in_float32(kernel):
    """q · k = ±1e4 by construction: one feature of 100 each, a second one that decides between equals."""
    query = torch.tensor([[100.0, 1.0]])
    keys = torch.tensor([[100.0, 0.0], [100.0, 1.0], [-100.0, 0.0]])
    attention = Attention(DotScore(1.0), kernel=kernel)
    result = attention(query, attention.prepare(keys, torch.eye(3)))
    expected = torch.tensor([softmax([0.0, 1.0, -20000.0])])
    assert_close(result.context, expected, **ROUNDINGS)
    assert_close(result.weights, expected, **ROUNDINGS)


def test_context_sums_half_precision_values_in_float32():
    """257 values of 1 and one of 1/257 weight each: a bfloat16 sum stops counting at 256."""
    attention = Attention(DotScore(1.0), kernel="reference")
    values = torch.ones(1, 257, 1, dtype=torch.bfloat16)
    keys = torch.zeros(1, 257, 2, dtype=torch.bfloat16)
    result = attention(keys[:, :1], attention.prepare(keys, values))
    assert result.context.item() == 1.0
    assert result.context.shape == (1, 1, 1)
