"""A result that is looked at later: its weights are those of the call, whatever has happened since."""

from dataclasses import replace

import pytest
import torch
from built import built
from torch import nn
from torch.testing import assert_close

from regard import (
    AdditiveScore,
    Attention,
    CosineScore,
    DotScore,
    FeedForwardScore,
    GeneralScore,
    History,
    KernelRefused,
    LocalPredictive,
    Mask,
    Sparsemax,
    catalog,
    record,
)
from regard.attention import dispatch, reference
from regard.attention.looks import remembered
from regard.attention.parts import Sizes
from regard.attention.scores.base import Score
from regard.attention.windows.base import View, Window
from regard.kernels.additive import additive_cuda
from regard.kernels.additive.additive_operands import operands
from regard.kernels.product import blocks

LOOKS = {
    "weights": lambda result: result.weights,
    "scores": lambda result: result.scores,
    "rows": lambda result: result.rows(torch.tensor([3, 0])),
    "top": lambda result: result.top(2)[0],
    "top of blocks": lambda result: result.top(2, block=4)[0],
}


class Own(Score):
    """A score of the user's own, with a matrix."""

    def __init__(self):
        super().__init__()
        self.W = nn.Linear(5, 5)

    def forward(self, query, keys):
        return self.W(query).float() @ keys.float().mT


class Half(Window):
    """A window of the user's own, with a parameter and a buffer."""

    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(torch.tensor(0.5))
        self.register_buffer("b", torch.tensor(0.25))

    def forward(self, query, mask, positions):
        return View(
            mask, (self.a + self.b * query[..., :1].float().tanh()).expand(*query.shape[:-1], mask.shape[-1])
        )


LOCAL = {"query": 5, "hidden": 4, "half_width": 1}
ATTENTIONS = {
    "additive-cpu": lambda: Attention(AdditiveScore(query=5, keys=5, hidden=6), kernel="additive-cpu"),
    "cosine": lambda: Attention(CosineScore(query=5), kernel="sdpa"),
    "general": lambda: Attention(GeneralScore(query=5, keys=5), kernel="sdpa"),
    "feed-forward": lambda: Attention(FeedForwardScore(dim=5, hidden=4), kernel="sdpa"),
    "local-p": lambda: Attention(DotScore(), window=LocalPredictive(**LOCAL), kernel="local"),
    "local-p, additive": lambda: Attention(
        AdditiveScore(query=5, keys=5, hidden=6), window=LocalPredictive(**LOCAL), kernel="local"
    ),
    "local-p, cosine": lambda: Attention(
        CosineScore(query=5), window=LocalPredictive(**LOCAL), kernel="local"
    ),
    "sparsemax, cosine": lambda: Attention(CosineScore(query=5), normalizer=Sparsemax(), kernel="sparsemax"),
    "sparsemax, additive": lambda: Attention(
        AdditiveScore(query=5, keys=5, hidden=6), normalizer=Sparsemax(), kernel="sparsemax"
    ),
    "blocks": lambda: Attention(Own(), window=Half(), kernel="blocks"),
    "blocks, local-p": lambda: Attention(
        AdditiveScore(query=5, keys=5, hidden=6), window=LocalPredictive(**LOCAL), kernel="blocks"
    ),
}


@pytest.fixture(autouse=True)
def eager_blocks(monkeypatch):
    """Small calls go to `blocks` when they ask for it."""
    monkeypatch.setattr(blocks, "LARGE", 0)


@pytest.fixture
def tensors():
    return torch.randn(2, 9, 5), torch.randn(2, 20, 5)


def sgd(parameters):
    torch.optim.SGD(parameters, lr=1.0).step()


def adam(**options):
    return lambda parameters: torch.optim.Adam(parameters, lr=1.0, **options).step()


@torch.no_grad()
def in_place(parameters):
    for p in parameters:
        p.add_(1.0)


def by_data(parameters):
    for p in parameters:
        p.data.copy_(p.data + 1.0)


def new_data(parameters):
    for p in parameters:
        p.data = p.data + 1.0


CHANGES = {
    "sgd": sgd,
    "fused sgd": lambda parameters: torch.optim.SGD(parameters, lr=1.0, fused=True).step(),
    "adam": adam(foreach=False),
    "foreach adam": adam(foreach=True),
    "fused adam": adam(fused=True),
    "in place": in_place,
    ".data.copy_": by_data,
    ".data =": new_data,
}


def change(attention, how):
    """Every parameter of it, as `how` does."""
    before = [p.detach().clone() for p in attention.parameters()]
    for p in attention.parameters():
        p.grad = torch.ones_like(p)
    if how == "load_state_dict":
        attention.load_state_dict({name: x + 1.0 for name, x in attention.state_dict().items()})
    else:
        CHANGES[how](list(attention.parameters()))
    assert all(not torch.equal(a, b) for a, b in zip(before, attention.parameters(), strict=True))


@pytest.mark.parametrize("how", [*CHANGES, "load_state_dict"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_the_weights_are_those_of_the_call_however_the_parameters_change(name, how, tensors):
    query, keys = tensors
    attention = ATTENTIONS[name]()
    source = attention.prepare(keys)
    expected = {look: LOOKS[look](attention(query, source)).detach().clone() for look in LOOKS}
    results = {look: attention(query, source) for look in LOOKS}
    assert not results["weights"].has_weights
    change(attention, how)
    for look, result in results.items():
        assert torch.equal(LOOKS[look](result), expected[look]), look
    same = torch.equal(attention(query, source).weights, expected["weights"])
    assert same == (name == "general")  # whose matrix is in the prepared keys


def test_of_a_buffer_and_of_the_mode_too():
    attention, query, keys = ATTENTIONS["blocks"](), torch.randn(2, 9, 5), torch.randn(2, 20, 5)
    expected, result = (attention(query, attention.prepare(keys)) for _ in range(2))
    weights = expected.weights.clone()
    attention.window.b.add_(1.0)
    assert torch.equal(result.weights, weights)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_hypotheses_that_share_a_source_see_the_weights_of_the_call(name, tensors):
    attention = ATTENTIONS[name]()
    attention.kernel = "auto"
    shared = attention.prepare(tensors[1]).share(torch.tensor([0, 0, 1, 1]))
    query = torch.randn(4, 1, 5)
    expected, result = (attention(query, shared) for _ in range(2))
    weights = expected.weights.clone()
    change(attention, "fused adam")
    assert_close(result.rows(torch.tensor([0])), weights, rtol=0, atol=0)
    assert_close(result.weights, weights, rtol=0, atol=0)


def test_a_trace_outlives_a_step_of_training(tensors):
    query, keys = tensors
    model = nn.ModuleList([ATTENTIONS["additive-cpu"]()])
    expected = model[0](query, model[0].prepare(keys)).weights.detach()
    with record(model) as trace:
        model[0](query, model[0].prepare(keys)).context.square().sum().backward()
    sgd(model.parameters())
    assert torch.equal(trace["0"][0].weights, expected)


def test_weights_that_are_kept_stay_those_of_the_call(tensors):
    query, keys = tensors
    attention = Attention(AdditiveScore(query=5, keys=5, hidden=6), keep_weights=True)
    result = attention(query, attention.prepare(keys))
    before = result.weights.clone()
    with torch.no_grad():
        attention.score.v.weight.zero_()
    assert torch.equal(result.weights, before)


def test_a_score_that_has_begun_to_draw_dropout_gives_the_weights_of_before(tensors):
    query, keys = tensors
    attention = Attention(FeedForwardScore(dim=5, hidden=4, dropout=0.5)).eval()
    expected, result = (attention(query, attention.prepare(keys)) for _ in range(2))
    assert not result.has_weights
    weights = expected.weights
    attention.train()
    assert torch.equal(result.weights, weights)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_gradients_of_a_look_are_those_of_the_reference(name, tensors):
    query, keys = (x.requires_grad_() for x in tensors)
    attention = ATTENTIONS[name]()
    leaves = [query, keys, *attention.parameters()]
    loss = torch.randn(2, 9, 20)

    def gradients():
        result = attention(query, attention.prepare(keys))
        whole = (result.weights * loss).sum() + result.context.square().sum()
        return torch.autograd.grad(whole, leaves, allow_unused=True)

    found = gradients()
    attention.kernel = "reference"
    assert_close(found, gradients(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ATTENTIONS)
def test_what_was_computed_in_inference_mode_can_be_looked_at_afterwards(name, tensors):
    query, keys = tensors
    attention = ATTENTIONS[name]()
    with torch.inference_mode():
        result = attention(query.clone(), attention.prepare(keys.clone()))
    expected = attention.align(query, attention.prepare(keys)).weights.detach()
    assert_close(result.rows(torch.tensor([1])), expected[:, 1:2])
    assert_close(result.top(2)[0], expected.topk(2).values)
    assert_close(result.weights, expected)


@pytest.mark.parametrize("made", ["query and keys of autocast", "query and keys of float32"])
@pytest.mark.parametrize("name", ATTENTIONS)
def test_a_look_after_autocast_shows_what_one_inside_shows(name, made, tensors):
    query, keys = tensors
    attention = ATTENTIONS[name]()
    if "of autocast" in made:
        query, keys = query.bfloat16(), keys.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        source = attention.prepare(keys)
        source = replace(source, keys=source.keys.to(query.dtype)) if name != "sparsemax, cosine" else source
        inside = {look: LOOKS[look](attention(query, source)) for look in LOOKS}
        results = {look: attention(query, source) for look in LOOKS}
    assert not results["weights"].has_weights
    for look, result in results.items():
        assert torch.equal(LOOKS[look](result), inside[look]), look


@pytest.mark.parametrize("kernel", ["auto", "reference", *(kernel.name for kernel in dispatch.kernels())])
@pytest.mark.parametrize("window", catalog.names("window"))
@pytest.mark.parametrize("score", catalog.names("score"))
def test_every_part_of_the_catalogue_is_looked_at_as_it_ran(score, window, kernel, tensors):
    """Called in autocast or outside, looked at inside of another autocast or outside: the same weights."""
    query, keys = tensors
    sizes = Sizes(query=5, keys=5, hidden=4, positions=20, half_width=1)
    ran = 0
    for normalizer in catalog.names("normalizer"):
        attention = built(score, sizes, normalizer=normalizer, window=window, kernel=kernel).eval()
        for lowered in (True, False):
            with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
                source = attention.prepare(keys, None, Mask(lengths=torch.tensor([20, 15])))
                history = History.start(source)
                try:
                    first, *others = (attention(query, source, history=history) for _ in range(3))
                except KernelRefused:
                    continue
                expected = first.weights
            ran += 1
            for other, now in zip(others, (True, False), strict=True):
                with torch.autocast("cpu", torch.bfloat16, enabled=now):
                    assert_close(other.weights, expected, rtol=0, atol=0)
            mixed = expected.double() @ source.values.double()
            assert_close(first.context.double(), mixed, rtol=0.02, atol=0.02)
    assert ran or kernel not in ("auto", "reference")


@pytest.mark.parametrize("lowered", [False, True])
@pytest.mark.parametrize("ask", ["arguments", "operands"])
def test_what_the_additive_kernels_of_a_gpu_say_they_saw_is_kept_by_value(ask, lowered, tensors):
    """Where they project the query themselves, W is kept beside v; nothing is launched here."""
    query, keys = tensors
    attention = Attention(AdditiveScore(query=5, keys=5, hidden=6))
    with torch.autocast("cpu", torch.bfloat16, enabled=lowered):
        call = attention._call(query, attention.prepare(keys), None, 0.0)
        expected = attention.align(query, call.source)
        additive_cuda.arguments(call) if ask == "arguments" else operands(call)
        seen = remembered(call)
    change(attention, ".data.copy_")
    attention.zero_grad()
    found = reference.align(seen, torch.tensor([3, 0]))
    assert_close(found.weights, expected.weights[:, [3, 0]])
    found.scores[..., 0].sum().backward()
    assert attention.score.W.weight.grad.any()


def test_a_result_of_a_compiled_graph_shows_the_weights_of_its_call(tensors):
    query, keys = tensors
    attention = Attention(CosineScore(query=5))
    source = attention.prepare(keys)
    run = torch.compile(lambda query: attention(query, source), backend="eager", fullgraph=True)
    expected, result = attention(query, source).weights.detach(), run(query)
    change(attention, ".data.copy_")
    assert_close(result.weights, expected)
