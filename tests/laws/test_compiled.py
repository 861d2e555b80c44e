"""Everything compiles as one graph, and a result that leaves the graph can still be asked for its weights."""

import pytest
import torch
from laws.cases import NORMALIZERS, SCORES, STOCHASTIC, WINDOWS, B, Case, S, build, inputs, parametrize
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

from regard import Mask, MultiHead

# each mechanism once, and no more: compiling takes time; concat is built as the additive score is
COMPILED = (
    [Case(score) for score in SCORES if score != "concat"]
    + [Case("dot", normalizer, kernel="reference") for normalizer in NORMALIZERS]
    + [Case("dot", window=window) for window in WINDOWS if window != "global"]
)


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def check(case, backend):
    attention, x = build(case, torch.float32), inputs(case, dtype=torch.float32)
    lengths = torch.tensor([7, 4])

    def run(query, keys, values, history, lengths):
        source = attention.prepare(keys, values, Mask(lengths=lengths))
        return attention(query, source, history=history)

    expected = run(x.query, x.keys, x.values, x.history, lengths)
    result = torch.compile(run, fullgraph=True, backend=backend)(
        x.query, x.keys, x.values, x.history, lengths
    )
    assert result.has_weights == (not case.fused)
    assert result.kernel == expected.kernel
    assert_close(result.context, expected.context)
    assert_close(result.weights, expected.weights)
    assert_close(result.rows(torch.tensor([1])), expected.weights[:, 1:2])


@parametrize(COMPILED)
def test_compiles_as_a_full_graph(case):
    check(case, "aot_eager")


# inductor imports a part of torch that torch itself has deprecated
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@parametrize([Case("scaled-dot"), Case("additive")])
def test_compiles_to_machine_code(case):
    from torch._inductor import config as inductor

    # scalar code will do: to see whether vectors compile, inductor builds a library for each kind of them
    with inductor.patch("cpp.vec_isa_ok", False):
        check(case, "inductor")


@pytest.mark.parametrize("normalizer", [name for name in NORMALIZERS if name in STOCHASTIC])
def test_drawing_compiles_as_a_full_graph(normalizer):
    case = Case("dot", normalizer)
    attention, x = build(case, torch.float32).train(), inputs(case, dtype=torch.float32)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def run(query, keys):
        return attention(query, attention.prepare(keys, mask=Mask(causal=True)))

    result = run(x.query, x.keys)
    assert_close(result.weights.sum(-1), torch.ones(B, 3))
    assert_close(result.context, result.weights @ x.keys)


def test_a_compiled_training_step_of_heads_has_the_same_gradients():
    heads, x = MultiHead(12, 3), torch.randn(B, S, 12)

    def loss(x):
        return heads(x, heads.prepare(x, None, Mask(causal=True))).context.square().sum()

    loss(x).backward()
    expected = [parameter.grad.clone() for parameter in heads.parameters()]
    heads.zero_grad()
    torch.compile(loss, fullgraph=True, backend="aot_eager")(x).backward()
    for parameter, grad in zip(heads.parameters(), expected, strict=True):
        assert_close(parameter.grad, grad)


@pytest.mark.parametrize("window", ["global", "local-monotonic"])
@pytest.mark.parametrize("score", ["dot", "location"])
def test_sources_of_many_lengths_need_two_graphs(score, window):
    attention, graphs = build(Case(score, window=window), torch.float32), CompileCounterWithBackend("eager")

    @torch.compile(fullgraph=True, backend=graphs)
    def run(query, keys, lengths):
        return attention(query, attention.prepare(keys, mask=Mask(lengths=lengths))).context

    for length in range(4, 16):
        x = inputs(Case(score, window=window), s=length, dtype=torch.float32)
        lengths = torch.tensor([length, length // 2])
        expected = attention(x.query, attention.prepare(x.keys, mask=Mask(lengths=lengths))).context
        assert_close(run(x.query, x.keys, lengths), expected)
    assert graphs.frame_count <= 2
