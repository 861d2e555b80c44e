"""Which implementation runs: the first that does not refuse, the one asked for, or an error that says why."""

import re

import pytest
import torch
from built import built
from laws.cases import EVERY, FUSED, Case, build, call, inputs
from only_kernels import only
from torch._subclasses.fake_tensor import FakeTensorMode

from regard import (
    AdditiveScore,
    Attention,
    DotScore,
    Everywhere,
    GumbelSoftmax,
    History,
    KernelRefused,
    LocalMonotonic,
    LocalPredictive,
    LocationScore,
    Mask,
    Mean,
    Softmax,
    Source,
    Sparsemax,
    catalog,
)
from regard.attention import dispatch, paths
from regard.attention.dispatch import Call, Kernel, choose_kernel, kernels
from regard.attention.parts import Sizes
from regard.bench.choices import places, table
from regard.kernels.additive import additive_cuda
from regard.kernels.decoder import decoder_cpu
from regard.kernels.local import local_attention, local_cuda
from regard.kernels.ntm import ntm_cpu

Q, K = torch.ones(2, 3, 5), torch.ones(2, 7, 5)  # only their shapes and dtypes matter


def ask(attention, query=Q, keys=K, values=None):
    return attention(query, attention.prepare(keys, values))


def test_auto_takes_the_fused_kernel_where_it_can_and_the_reference_elsewhere():
    for case in EVERY:
        assert call(build(case), inputs(case)).kernel == case.runs_on, case


def test_auto_falls_to_the_reference_for_what_no_kernel_computes():
    assert ask(Attention(LocationScore(query=5, positions=7))).kernel == "reference"
    location = LocationScore(query=5, positions=7)
    assert ask(Attention(location, normalizer=Mean())).kernel == "reference"
    # three queries share too little, and the tensor is small
    assert ask(Attention(AdditiveScore(query=5, keys=5, hidden=3))).kernel == "reference"


def test_what_explain_says_is_what_happens():
    for case in EVERY:
        for dtype in (torch.float64, torch.float32):
            attention, x = build(case, dtype), inputs(case, dtype=dtype)
            source = attention.prepare(x.keys, x.values)
            explanation = attention.explain(x.query, source, history=x.history)
            result = attention(x.query, source, history=x.history, generator=torch.Generator())
            assert explanation.kernel == result.kernel, case
            assert (explanation.why == "") == (result.kernel != "reference"), case
            refusing = [name for name, _ in explanation.reasons]
            assert explanation.kernel not in refusing, case
            if result.kernel == "reference":
                assert refusing == [kernel.name for kernel in kernels()], case


def test_an_explanation_can_be_read():
    attention = Attention(DotScore(), kernel="reference")
    assert attention.explain(Q, attention.prepare(K)).why == "it was requested"
    attention = Attention(LocationScore(query=5, positions=7))
    explanation = attention.explain(Q, attention.prepare(K))
    first, *others = str(explanation).split("\n")
    assert first == (
        "reference: the scores are one product of the query with a matrix, there is nothing to fuse"
    )
    assert "  not sparsemax: normalizer is Softmax, this kernel computes Sparsemax" in others
    assert len(others) == len(explanation.reasons) == len(kernels())


def test_a_named_kernel_that_refuses_is_explained_by_its_error():
    attention = Attention(DotScore(), kernel="sparsemax")
    with pytest.raises(
        KernelRefused, match=r"^kernel 'sparsemax' cannot run this call: normalizer is Softmax"
    ):
        attention.explain(Q, attention.prepare(K))


def test_queries_that_share_a_source_are_explained_as_they_are_asked():
    attention = Attention(DotScore())
    source = attention.prepare(K).share(torch.tensor([0, 0, 1, 1]))
    query = torch.randn(4, 1, 5)
    assert attention.explain(query, source).kernel == attention(query, source).kernel == "sdpa"
    assert attention.explain(torch.randn(4, 2, 5), source).kernel == "sdpa"


def test_predicted_bands_need_a_large_call_on_a_gpu_without_triton(monkeypatch):
    wanted = ("general", "softmax", "local-predictive", "cuda")

    def chosen(T):
        return {choice[:4]: choice for choice in table(T=T, S=T)}[wanted]

    assert chosen(64).kernel == "local"
    monkeypatch.setattr(local_attention, "triton_missing", lambda: "Triton is not installed")
    few, many = chosen(1024), chosen(8192)
    assert many.kernel == "local"
    assert few.kernel == "reference"
    assert "on a GPU this gains from 33554432" in few.reason


def test_the_table_is_what_the_kernels_say():
    choices = {choice[:4]: choice for choice in table()}
    assert len(choices) == 2 * len(EVERY)
    for case in EVERY:
        name = (case.score, case.normalizer, case.window)
        attention = built(
            case.score,
            Sizes(query=32, keys=32, hidden=32, positions=64, half_width=4),
            normalizer=case.normalizer,
            window=case.window,
        ).eval()
        source = attention.prepare(torch.randn(2, 64, 32))
        query, history = torch.randn(2, 64, 32), History.start(source)
        assert choices[(*name, "cpu")].kernel == attention(query, source, history=history).kernel, case
        for device in ("cpu", "cuda"):
            choice = choices[(*name, device)]
            assert (choice.kernel == "reference") == (choice.reason != ""), case
    assert choices["scaled-dot", "softmax", "global", "cuda"].kernel == "sdpa"
    assert choices["additive", "softmax", "global", "cuda"].kernel == "additive-cuda"
    assert choices["additive", "softmax", "global", "cpu"].kernel == "additive-cpu"
    assert choices["coverage", "softmax", "global", "cpu"].reason == (
        "each step reads the alignment of the step before, so the weights are built anyway"
    )


def test_the_reference_is_there_when_asked_for():
    assert ask(Attention(DotScore(), kernel="reference")).kernel == "reference"


def test_global_attention_as_a_window_may_be_fused():
    assert ask(Attention(DotScore(), window=Everywhere())).kernel == "sdpa"


REFUSALS = {
    "score is AdditiveScore, this kernel computes product scores": lambda: ask(
        Attention(AdditiveScore(query=5, keys=5, hidden=3), kernel="sdpa")
    ),
    "normalizer is Sparsemax, this kernel computes Softmax": lambda: ask(
        Attention(DotScore(), normalizer=Sparsemax(), kernel="sdpa")
    ),
    "window is LocalMonotonic, this kernel has none": lambda: ask(
        Attention(DotScore(), window=LocalMonotonic(half_width=2), kernel="sdpa")
    ),
    "query, keys and values differ in dtype (torch.float32, torch.float64)": lambda: ask(
        Attention(DotScore(), kernel="sdpa"), values=K.double()
    ),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_named_kernel_refuses_with_its_reason(reason):
    with pytest.raises(KernelRefused, match=f"^kernel 'sdpa' cannot run this call: {re.escape(reason)}\\.$"):
        REFUSALS[reason]()


@pytest.mark.parametrize("kernel", sorted(set(FUSED.values())))
def test_a_named_kernel_never_falls_back(kernel):
    refused = [case for case in EVERY if case.runs_on != kernel]
    # under a softmax, and under a Gumbel-softmax at evaluation
    assert len(refused) == len(EVERY) - 2 * len([each for each in FUSED.values() if each == kernel])
    for case in refused:
        attention = build(case)
        attention.kernel = kernel
        with pytest.raises(KernelRefused, match=rf"^kernel '{kernel}' cannot run this call: .+[^.]\.$"):
            call(attention, inputs(case))


def test_an_unknown_kernel_is_answered_with_the_known_ones():
    names = ", ".join(kernel.name for kernel in kernels())
    with pytest.raises(KernelRefused, match=rf"^unknown kernel 'flash'; known: auto, reference, {names}\.$"):
        ask(Attention(DotScore(), kernel="flash"))


def test_auto_asks_those_that_compute_such_parts_and_no_others():
    for case in EVERY:
        attention, x = build(case), inputs(case)
        source = attention.prepare(x.keys, x.values)
        request = Call(
            x.query, source, attention.score, attention.normalizer, attention.window, x.history, 0.0
        )
        fitting = [kernel for kernel in kernels() if kernel.declared_refusal(request) is None]
        for _ in range(2):  # the second time from the table
            assert list(dispatch._candidates_for(request)) == fitting, case


def test_a_hook_set_after_a_call_is_not_overlooked():
    attention = Attention(DotScore())
    assert ask(attention).kernel == "sdpa"
    handle = attention.score.register_forward_hook(lambda *_: None)
    assert ask(attention).kernel == "reference"
    handle.remove()
    assert ask(attention).kernel == "sdpa"


def test_relaxed_gumbel_softmax_is_a_softmax_at_evaluation():
    class Other(GumbelSoftmax):
        """Another equation."""

        def normalize(self, scores, generator=None):
            return scores.softmax(-1) * 2

    x = torch.randn(1, 9, 5)
    soft = Attention(DotScore(), normalizer=GumbelSoftmax(temperature=0.6))
    plain = Attention(DotScore(), normalizer=GumbelSoftmax(temperature=0.6), kernel="reference").eval()
    assert ask(soft, x, x).kernel == "reference"
    found, expected = ask(soft.eval(), x, x), ask(plain, x, x)
    assert found.kernel == "sdpa"
    torch.testing.assert_close(found.context, expected.context)
    torch.testing.assert_close(found.weights, expected.weights)
    for other in (GumbelSoftmax(hard=True), Other()):
        assert ask(Attention(DotScore(), normalizer=other).eval(), x, x).kernel == "reference"


def test_every_kernel_has_a_row_in_the_catalogue():
    chosen = tuple(kernel.name for kernel in kernels())
    # run a recurrence with its attention inside, so a layer or model asks for them and not `Attention`
    whole = ("lstmn", "ntm")
    assert (*chosen, *whole) == catalog.names("kernel")


def test_auto_takes_the_first_that_does_not_refuse(monkeypatch):
    class Fake(Kernel):
        def __init__(self, name, reason):
            self.name, self.reason = name, reason

        def refuses(self, call):
            return self.reason

        def run(self, call):
            return call.query

    first, second, third = Fake("a", "it is Monday"), Fake("b", None), Fake("c", None)
    only(monkeypatch, first, second, third)
    attention = Attention(DotScore())
    request = Call(Q, attention.prepare(K), attention.score, attention.normalizer, None, None, 0.0)
    assert choose_kernel(request) is second
    assert choose_kernel(request, "c") is third
    assert choose_kernel(request, "reference") is None
    with pytest.raises(KernelRefused, match=r"^kernel 'a' cannot run this call: it is Monday\.$"):
        choose_kernel(request, "a")
    assert ask(attention).kernel == "b"


TWICE = {
    "additive": lambda: Attention(AdditiveScore(query=5, keys=5, hidden=4), kernel="additive-cpu"),
    "sparsemax": lambda: Attention(DotScore(), normalizer=Sparsemax()),
    "sparsemax of rows": lambda: Attention(AdditiveScore(query=5, keys=5, hidden=4), normalizer=Sparsemax()),
    "a band": lambda: Attention(DotScore(), window=LocalMonotonic(half_width=1), kernel="local"),
}


@pytest.mark.parametrize("name", TWICE)
def test_a_gradient_of_a_gradient_is_refused_and_not_wrong(name, monkeypatch):
    monkeypatch.setattr(local_attention, "LEAST", 0)
    attention, x = TWICE[name](), torch.randn(2, 9, 5, requires_grad=True)
    [once] = torch.autograd.grad(attention(x, attention.prepare(x)).context.sin().sum(), x, create_graph=True)
    with pytest.raises(KernelRefused, match=r"^a fused kernel has no second derivative; expected one"):
        once.square().sum().backward()


def test_kernels_are_chosen_at_each_call():
    attention = build(Case("dot"))
    attention.kernel = "reference"
    assert call(attention, inputs(Case("dot"))).kernel == "reference"
    attention.kernel = "auto"
    assert call(attention, inputs(Case("dot"))).kernel == "sdpa"


@pytest.mark.parametrize(("kernel", "T"), [("additive-cuda", 5), ("additive-step-cuda", 1)])
def test_a_kernel_for_another_device_says_so(kernel, T):
    attention = Attention(AdditiveScore(query=4, keys=4, hidden=8), kernel=kernel)
    with pytest.raises(KernelRefused, match=f"kernel '{kernel}' cannot run this call: the query is on cpu"):
        attention(torch.randn(1, T, 4), attention.prepare(torch.randn(1, 6, 4)))


@pytest.mark.parametrize(
    ("kernel", "T", "reason"),
    [
        ("additive-cuda", 4, "up to 4 queries are for additive-step-cuda"),
        ("additive-step-cuda", 5, "more than 4 queries are for additive-cuda"),
    ],
)
def test_few_and_many_additive_queries_are_two_kernels(kernel, T, reason):
    with torch.device("meta"):
        attention = Attention(AdditiveScore(query=4, keys=4, hidden=8))
    with FakeTensorMode():
        keys = torch.empty(1, 6, 8, device="cuda")
        explained = attention.explain(torch.empty(1, T, 4, device="cuda"), Source(keys, keys, Mask()))
    assert (kernel, reason) in explained.reasons


@pytest.mark.parametrize(("T", "kernel"), [(1, "additive-step-cuda"), (5, "additive-cuda")])
def test_auto_takes_the_additive_kernel_for_so_many_queries(T, kernel, monkeypatch):
    monkeypatch.setattr(additive_cuda, "triton_missing", lambda: None)
    with torch.device("meta"):
        attention = Attention(AdditiveScore(query=4, keys=4, hidden=8))
    with FakeTensorMode():
        keys = torch.empty(1, 6, 8, device="cuda")
        explained = attention.explain(torch.empty(1, T, 4, device="cuda"), Source(keys, keys, Mask()))
    assert explained.kernel == kernel


@pytest.mark.parametrize("T", [1, 5])
@pytest.mark.parametrize("heads", [1, 2])
def test_more_items_than_a_launch_can_have_run_on_the_reference(T, heads, monkeypatch):
    """CUDA launches at most 65,535 programs along the second and the third axis."""
    monkeypatch.setattr(additive_cuda, "triton_missing", lambda: None)
    with torch.device("meta"):
        attention = Attention(AdditiveScore(query=4, keys=4, hidden=8))
    with FakeTensorMode():
        keys, query = (torch.empty(2**15, heads, n, w, device="cuda") for n, w in ((6, 8), (T, 4)))
        explained = attention.explain(query, Source(keys, keys, Mask()))
    assert explained.kernel.startswith("additive") == (heads == 1)
    assert ("more than 65535 rows of sources" in explained.why) == (heads == 2)


@pytest.mark.parametrize("predictive", [False, True])
def test_more_items_than_a_launch_can_have_gather_their_bands(predictive, monkeypatch):
    monkeypatch.setattr(local_attention, "triton_missing", lambda: None)
    monkeypatch.setattr(local_cuda, "triton_missing", lambda: None)
    own = LocalPredictive(query=4, hidden=4, half_width=2) if predictive else LocalMonotonic(half_width=2)
    with FakeTensorMode():
        for rows in (2**16 - 1, 2**16):
            keys, query = (torch.empty(rows, n, 4, device="cuda") for n in (6, 5))
            call = Call(query, Source(keys, keys, Mask()), DotScore(), Softmax(), own, None, 0.0)
            assert (local_cuda.takes(call) or local_attention._by_rows(call)) == (rows < 2**16)


def test_many_additive_queries_on_a_cpu_take_the_fused_kernel():
    attention = Attention(AdditiveScore(query=4, keys=4, hidden=8))
    result = attention(torch.randn(1, 5, 4), attention.prepare(torch.randn(1, 6, 4)))
    assert result.kernel == "additive-cpu"
    assert not result.has_weights


def test_every_other_fused_path_is_explained_for_both_devices():
    found = {path: reasons for _, path, *reasons in places()}
    assert set(found) == {
        *("cosine-query-cuda", "ntm", "lstmn", "residual-norm-cuda", "cross-entropy-cuda", "fast-decoder"),
        *("self-attention-cpu", "self-attention-cuda", "product-step-cuda", "product-top-cuda"),
        *("product-weights-cuda", "additive-look", "captured"),
        *("decoder-cpu", "best-tokens-cpu", "few-rows-cpu"),
    }
    assert found["self-attention-cpu"][0] == "runs"
    assert "CPU" in found["self-attention-cpu"][1]
    assert "GPU" in found["self-attention-cuda"][0]
    assert found["self-attention-cuda"][1] == "runs"
    assert found["lstmn"] == found["additive-look"] == ["runs", "runs"]
    assert found["ntm"] == ["runs" if ntm_cpu.compiled() else decoder_cpu.NO_COMPILER, "runs"]
    assert found["fast-decoder"] == ["runs", "runs"]
    compiled = "runs" if decoder_cpu.compiled() else decoder_cpu.NO_COMPILER
    assert found["decoder-cpu"] == [compiled, "a source is not on a CPU"]
    assert found["best-tokens-cpu"][0] == found["few-rows-cpu"][0] == compiled
    assert found["captured"] == ["the batch is not on an NVIDIA GPU", "runs"]
    assert found["product-step-cuda"][0] == "the query is on cpu, this kernel is for cuda"


def test_a_path_asked_for_by_name_runs_or_says_why_not():
    class Fake:
        name = "fake"

        def refuses(self, call):
            return None if call else "it is Monday"

        def run(self, call):
            return call

    try:
        paths.register("a place", Fake())
        assert paths.choose("a place", True).run(True)
        assert paths.choose("a place", False) is None
        assert paths.choose("a place", True, "reference") is None
        assert paths.explain("a place", False).why == "it is Monday"
        with pytest.raises(KernelRefused, match=r"^kernel 'fake' cannot run this call: it is Monday\.$"):
            paths.choose("a place", False, "fake")
        with pytest.raises(KernelRefused, match=r"^unknown kernel 'real'; known: auto, reference, fake\.$"):
            paths.choose("a place", True, "real")
    finally:
        del paths._places["a place"]
