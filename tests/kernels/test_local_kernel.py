"""Attention inside a band equals the reference: every window, mask, score and gradient; it costs T · D."""

from dataclasses import replace

import pytest
import torch
from kernels.error_rule import assert_rule
from kernels.interpreting import check_in_interpreter
from seeds import offset_seed
from torch import Tensor
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from regard import (
    AdditiveScore,
    Attention,
    CosineScore,
    DotScore,
    FeedForwardScore,
    GeneralScore,
    LocalMonotonic,
    LocalPredictive,
    Mask,
    MultiHead,
    Softmax,
)
from regard.kernels.local import local_attention, local_cpu

D, DV = 5, 3
SCORES = {
    "dot": lambda: DotScore(1.0),
    "scaled-dot": DotScore,
    "general": lambda: GeneralScore(query=D, keys=D),
    "cosine": lambda: CosineScore(query=D),
    "feedforward": lambda: FeedForwardScore(dim=D, hidden=7),
    "additive": lambda: AdditiveScore(query=D, keys=D, hidden=6),
}
WINDOWS = {
    "local-m": lambda: LocalMonotonic(half_width=2),
    "local-p": lambda: LocalPredictive(query=D, hidden=4, half_width=2),
    "the mask's": lambda: None,
}
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@pytest.fixture(params=["compiled", "gathered"])
def engine(request, monkeypatch):
    if request.param == "gathered":
        monkeypatch.setattr(local_cpu, "compiled", lambda: None)
    return request.param


@pytest.fixture(autouse=True)
def poisoned(monkeypatch):
    monkeypatch.setattr(local_attention, "LEAST", 0)
    monkeypatch.setattr(local_attention, "LAUNCHES", 0)
    torch.use_deterministic_algorithms(True)  # memory that nothing wrote is NaN
    yield
    torch.use_deterministic_algorithms(False)


def masks(B, S, window):
    first = {"nothing more": Mask(window=(2, 1)), "narrow": Mask(window=(0, 0))} if window is None else {}
    more = {
        "nothing more": Mask(),
        "lengths": Mask(lengths=torch.tensor([S, max(1, S // 2)][:B])),
        "a row of nothing": Mask(lengths=torch.tensor([S, 0][:B])),
        "causal": Mask(causal=True),
        "later": Mask(offset=3),
        "far later": Mask(offset=2 * S),
        "all": Mask(causal=True, lengths=torch.tensor([S, max(1, S - 2)][:B]), offset=2),
    }
    both = {f"{name} and a window": replace(mask, window=(3, 2)) for name, mask in more.items()}
    return first | both if window is None else more | both


def outcomes(build, kernel, dtype, inputs, mask, direction):
    """Context and every gradient."""
    torch.manual_seed(offset_seed(1))
    score, window = build()
    attention = Attention(score, normalizer=Softmax(temperature=0.7), window=window, kernel=kernel)
    attention.to(direction.dtype).to(dtype)  # the same rounded numbers in each precision
    leaves = [x.detach().to(dtype).requires_grad_() for x in inputs]
    result = attention(leaves[0], attention.prepare(leaves[1], leaves[2], mask))
    assert result.kernel == kernel
    wanted = [*leaves, *attention.parameters()]
    grads = torch.autograd.grad(result.context, wanted, direction.to(dtype), allow_unused=True)
    grads = [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, grads, strict=True)]
    return [x.detach() for x in (result.context, *grads)]


def check(build, problems, direction):
    """By the error rule, over all problems."""

    def outcome(kernel, dtype, inputs, mask):
        return lambda: outcomes(build, kernel, dtype, inputs, mask, direction)

    assert_rule(
        *(
            (
                outcome("local", direction.dtype, *given),
                outcome("reference", direction.dtype, *given),
                outcome("reference", torch.float64, *given),
            )
            for given in problems
        )
    )


@pytest.mark.parametrize("score", ["dot", "additive"])
def test_values_of_no_features_are_left_to_the_reference(score, engine):
    attention = Attention(SCORES[score](), window=LocalMonotonic(half_width=2))
    source = attention.prepare(torch.randn(2, 40, D), torch.randn(2, 40, 0))
    result = attention(torch.randn(2, 5, D), source)
    assert (result.kernel, tuple(result.context.shape)) == ("reference", (2, 5, 0))


def test_a_query_that_is_not_a_number_has_no_context(engine):
    attention = Attention(DotScore(), window=WINDOWS["local-p"]())
    query, source = torch.randn(1, 5, D), attention.prepare(torch.randn(1, 40, D))
    query[:, 2] = torch.nan
    result = attention(query.requires_grad_(), source)
    assert result.kernel == "local"
    lost = torch.tensor([False, False, True, False, False])
    assert torch.equal(result.context.isnan().all(-1)[0], lost)
    (grad,) = torch.autograd.grad(result.context.nan_to_num().sum(), query)
    assert torch.equal(grad.isnan().any(-1)[0], lost)


def test_the_triton_kernels_of_single_rows_in_the_interpreter():
    check_in_interpreter("local_rows_interpreted.py")


def test_the_triton_kernels_in_the_interpreter():
    check_in_interpreter("local_interpreted.py")


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    ("score", "T", "S"),
    [*((score, 40, 19) for score in SCORES), ("dot", 1, 9), ("additive", 5, 33), ("dot", 7, 7)],
)
def test_it_keeps_the_error_rule(score, window, T, S, engine):
    if score == "additive" and engine == "compiled":
        return  # the loops are for products: the same again

    def build():
        return SCORES[score](), WINDOWS[window]()

    problems = [
        ([torch.randn(2, n, d) for n, d in ((T, D), (S, D), (S, DV))], mask)
        for mask in masks(2, S, build()[1]).values()
    ]
    check(build, problems, torch.randn(2, T, DV))


@pytest.mark.parametrize("window", ["local-m", "the mask's"])  # a rounded centre moves the edge of its window
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=DTYPES)
def test_half_precision(window, dtype, engine):
    def build():
        return DotScore(), WINDOWS[window]()

    inputs = [torch.randn(2, n, d).to(dtype) for n, d in ((50, D), (60, D), (60, DV))]
    problems = [(inputs, mask) for mask in masks(2, 60, build()[1]).values()]
    check(build, problems, torch.randn(2, 50, DV).to(dtype))


@pytest.mark.parametrize("score", ["scaled-dot", "additive"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("cells", [1, 200])
def test_blocks_of_any_size_keep_the_error_rule(score, window, cells, monkeypatch):
    def build():
        return SCORES[score](), WINDOWS[window]()

    inputs = [torch.randn(2, n, d) for n, d in ((40, D), (37, D), (37, DV))]
    direction, mask = torch.randn(2, 40, DV), Mask(window=(3, 2), lengths=torch.tensor([37, 11]))
    monkeypatch.setattr(local_attention, "CELLS", cells)
    monkeypatch.setattr(local_cpu, "compiled", lambda: None)
    check(build, [(inputs, mask)], direction)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("lead", [(), (2, 3), (1,)], ids=str)
def test_any_number_of_leading_axes_and_any_layout(window, lead, engine):
    def build():
        return DotScore(), WINDOWS[window]()

    query, keys = torch.randn(*lead, D, 20).mT, torch.randn(*lead, 46, D)[..., ::2, :]
    values = torch.randn(*lead, 23, 2 * DV)[..., ::2]
    lengths = torch.tensor([23, 9][: lead[0]] if lead else [9])
    mask = Mask(window=(3, 2), lengths=lengths)
    check(build, [([query, keys, values], mask)], torch.randn(*lead, 20, DV))


def test_all_threads_give_what_one_gives(monkeypatch):
    def build():
        return DotScore(), LocalPredictive(query=D, hidden=4, half_width=2)

    inputs, direction = [torch.randn(5, 30, d) for d in (D, D, DV)], torch.randn(5, 30, DV)
    alone = outcomes(build, "local", torch.float32, inputs, Mask(), direction)
    monkeypatch.setattr(local_cpu, "SHARED", 0)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    together = outcomes(build, "local", torch.float32, inputs, Mask(), direction)
    assert all(torch.equal(x, y) for x, y in zip(alone, together, strict=True))


@pytest.mark.parametrize("window", WINDOWS)
def test_heads(window):
    sizes = {"query": 5, "hidden": 4, "half_width": 2}
    made = {"local-m": LocalMonotonic(half_width=2), "local-p": LocalPredictive(**sizes), "the mask's": None}
    heads = [
        MultiHead(10, 2, attention=Attention(DotScore(), window=made[window], kernel=kernel))
        for kernel in ("local", "reference")
    ]
    heads[1].load_state_dict(heads[0].state_dict())
    x = torch.randn(2, 31, 10)
    mask = Mask(window=(3, 2), lengths=torch.tensor([31, 12]))
    fused, plain = (module(x, module.prepare(x, None, mask)) for module in heads)
    assert_close(fused.context, plain.context)
    assert_close(fused.weights, plain.weights)
    assert_close(fused.rows(torch.tensor([3, -1])), plain.weights[..., [3, -1], :])


class Largest(TorchDispatchMode):
    """The most numbers that any tensor had."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        for x in out if isinstance(out, tuple | list) else (out,):
            if isinstance(x, Tensor):
                self.numel = max(self.numel, x.numel())
        return out


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", ["scaled-dot", "additive"])
def test_nothing_of_the_size_of_all_pairs_is_made(window, score, monkeypatch):
    monkeypatch.setattr(local_attention, "CELLS", 2**14)
    monkeypatch.setattr(local_cpu, "compiled", lambda: None)  # the loops make no tensors at all
    attention = Attention(SCORES[score](), window=WINDOWS[window](), kernel="local")
    x = torch.randn(1, 2000, D)
    with torch.no_grad():
        operands = []
        monkeypatch.setattr(local_attention, "local_operator", lambda *a: operands.append(a) or a[2])
        attention(x, attention.prepare(x, None, Mask(window=(3, 2))))
        with Largest() as seen:
            context = local_attention.forward(local_attention.Band(*operands[0]))
            local_attention.backward(torch.ones_like(context), local_attention.Band(*operands[0]))
    assert seen.numel <= 2**16  # 2000 × 2000 pairs are 61 times as many


@pytest.mark.parametrize("window", [(1500, 0), (4000, 4000)], ids=str)
def test_a_wide_window_of_the_mask_is_no_mask_for_all_pairs(window, engine, monkeypatch):
    monkeypatch.setattr(local_attention, "LEAST", 4)  # as it is
    attention, T = Attention(DotScore()), 4096
    x = torch.randn(1, T, D)
    source = attention.prepare(x, None, Mask(window=window))
    assert attention.explain(x, source).kernel == "local"
    assert attention.explain(x[:, :100], source).kernel == "sdpa"  # a small mask is cheaper
    assert local_attention._block(8001, T, additive=False) * 8001 <= local_attention.CELLS < T * T
    some = torch.arange(0, T, 61)
    shown = Mask(window=window).to_dense(T, T, ndim=2, device=x.device)[some]

    def formula(x):
        return [(x[:, some] @ x.mT * D**-0.5).masked_fill(~shown, -torch.inf).softmax(-1) @ x]

    with torch.no_grad():
        context = attention(x, source).context[:, some]
        assert_rule((lambda: [context], lambda: formula(x), lambda: formula(x.double())), draws=1)


def test_the_gradient_reaches_the_predicted_centre():
    attention = Attention(DotScore(), window=LocalPredictive(query=D, hidden=4, half_width=3), kernel="local")
    query, keys = torch.randn(2, 6, D), torch.randn(2, 40, D)
    attention(query, attention.prepare(keys, keys)).context.square().sum().backward()
    assert (attention.window.W.weight.grad != 0).any()
    assert (attention.window.v.weight.grad != 0).any()


@pytest.mark.parametrize("window", WINDOWS)
def test_it_compiles_as_one_graph_and_may_be_checkpointed(window):
    torch.use_deterministic_algorithms(False)
    attention = Attention(DotScore(), window=WINDOWS[window](), kernel="local")
    query, keys = torch.randn(2, 6, D, requires_grad=True), torch.randn(2, 40, D)

    def run(query):
        return attention(query, attention.prepare(keys, None, Mask(window=(4, 4)))).context

    expected = run(query)
    (grad,) = torch.autograd.grad(expected.square().sum(), query)
    for other in (
        torch.compile(run, fullgraph=True, backend="aot_eager"),
        lambda x: torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False),
    ):
        context = other(query)
        assert_close(context, expected)
        assert_close(torch.autograd.grad(context.square().sum(), query)[0], grad)


def test_the_operator_is_registered_as_torch_expects():
    torch.use_deterministic_algorithms(False)
    q, k, values = (torch.randn(2, n, d, requires_grad=True) for n, d in ((5, 4), (9, 4), (9, 3)))
    low = torch.arange(5)[None]
    v, p = torch.randn(4, requires_grad=True), (torch.rand(2, 5) * 9).requires_grad_()
    for arguments in ((None, low, low + 2, None, 0, 2, 4, 1.0), (v, low * 0, low * 0 + 8, p, 2, 1, 6, 0.5)):
        torch.library.opcheck(torch.ops.regard.local, (q, k, values, *arguments))


REFUSALS = {
    "there is no window": (DotScore(), None, Mask(), torch.float32),
    "the mask has a dense part": (
        DotScore(),
        None,
        Mask(window=(1, 1), dense=torch.ones(9).bool()),
        torch.float32,
    ),
    "dtype is torch.float64, which goes to the reference": (
        DotScore(),
        LocalMonotonic(half_width=2),
        Mask(),
        torch.float64,
    ),
    "the source has 9 positions, this kernel gains from 10 on": (
        DotScore(),
        LocalMonotonic(half_width=2),
        Mask(),
        torch.float32,
    ),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_it_refuses_with_its_reason(reason, monkeypatch):
    monkeypatch.setattr(local_attention, "LEAST", 2)
    score, window, mask, dtype = REFUSALS[reason]
    attention = Attention(score, window=window)
    x = torch.randn(2, 9, D, dtype=dtype)
    explanation = attention.explain(x, attention.prepare(x, None, mask))
    assert dict(explanation.reasons)["local"] == reason
