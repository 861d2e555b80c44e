"""Which implementation runs: the first that does not refuse, the one asked for, or an error that says why."""

import re

import pytest
import torch
from laws.cases import EVERY, KERNELS, Case, build, call, inputs

from regard import (
    AdditiveScore,
    Attention,
    DotScore,
    Everywhere,
    FeedForwardScore,
    KernelRefused,
    LocalMonotonic,
    Sparsemax,
    catalog,
)
from regard.kernels import dispatch
from regard.kernels.dispatch import Call, choose_kernel, kernels, named_kernels

Q, K = torch.randn(2, 3, 5), torch.randn(2, 7, 5)


def ask(attention, query=Q, keys=K, values=None):
    return attention(query, attention.prepare(keys, values))


def test_auto_takes_the_fused_kernel_where_it_can_and_the_reference_elsewhere():
    for case in EVERY:
        assert call(build(case), inputs(case)).kernel == case.runs_on, case


def test_auto_falls_to_the_reference_for_what_no_kernel_computes():
    assert ask(Attention(FeedForwardScore(dim=5, hidden=3))).kernel == "reference"
    assert (
        ask(Attention(AdditiveScore(query=5, keys=5, hidden=3), normalizer=Sparsemax())).kernel == "reference"
    )


def test_the_reference_is_there_when_asked_for():
    assert ask(Attention(DotScore(), kernel="reference")).kernel == "reference"


def test_global_attention_as_a_window_may_be_fused():
    assert ask(Attention(DotScore(), window=Everywhere())).kernel == "sdpa"


REFUSALS = {
    "score is AdditiveScore, this kernel computes dot, general and cosine scores": lambda: ask(
        Attention(AdditiveScore(query=5, keys=5, hidden=3), kernel="sdpa")
    ),
    "normalizer is Sparsemax, this kernel computes Softmax": lambda: ask(
        Attention(DotScore(), normalizer=Sparsemax(), kernel="sdpa")
    ),
    "window is LocalMonotonic, this kernel has none": lambda: ask(
        Attention(DotScore(), window=LocalMonotonic(half_width=2), kernel="sdpa")
    ),
    "query, keys and values differ in dtype (torch.bfloat16, torch.float32)": lambda: ask(
        Attention(DotScore(), kernel="sdpa"), values=K.bfloat16()
    ),
}


@pytest.mark.parametrize("reason", REFUSALS)
def test_a_named_kernel_refuses_with_its_reason(reason):
    with pytest.raises(KernelRefused, match=f"^kernel 'sdpa' cannot run this call: {re.escape(reason)}\\.$"):
        REFUSALS[reason]()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_named_kernel_never_falls_back(kernel):
    refused = [case for case in EVERY if case.runs_on != kernel]
    assert len(refused) == len(EVERY) - len(KERNELS[kernel])
    for case in refused:
        attention = build(case)
        attention.kernel = kernel
        with pytest.raises(KernelRefused, match=rf"^kernel '{kernel}' cannot run this call: .+[^.]\.$"):
            call(attention, inputs(case))


def test_an_unknown_kernel_is_answered_with_the_known_ones():
    names = ", ".join(kernel.name for kernel in (*kernels(), *named_kernels()))
    with pytest.raises(KernelRefused, match=rf"^unknown kernel 'flash'; known: auto, reference, {names}\.$"):
        ask(Attention(DotScore(), kernel="flash"))


def test_every_kernel_has_a_row_in_the_catalogue():
    chosen = tuple(kernel.name for kernel in (*kernels(), *named_kernels()))
    whole = (
        "tapes",
    )  # runs a recurrence with its attention inside, so a layer asks for it and not `Attention`
    assert (*chosen, *whole) == catalog.names("kernel")


def test_auto_takes_the_first_that_does_not_refuse(monkeypatch):
    class Fake:
        def __init__(self, name, reason):
            self.name, self.reason = name, reason

        def refuses(self, call):
            return self.reason

        def run(self, call):
            return call.query

    first, second, third = Fake("a", "it is Monday"), Fake("b", None), Fake("c", None)
    monkeypatch.setattr(dispatch, "kernels", lambda: (first, second, third))
    attention = Attention(DotScore())
    request = Call(Q, attention.prepare(K), attention.score, attention.normalizer, None, None, 0.0)
    assert choose_kernel(request) is second
    assert choose_kernel(request, "c") is third
    assert choose_kernel(request, "reference") is None
    with pytest.raises(KernelRefused, match=r"^kernel 'a' cannot run this call: it is Monday\.$"):
        choose_kernel(request, "a")
    assert ask(attention).kernel == "b"


def test_kernels_are_chosen_at_each_call():
    attention = build(Case("dot"))
    attention.kernel = "reference"
    assert call(attention, inputs(Case("dot"))).kernel == "reference"
    attention.kernel = "auto"
    assert call(attention, inputs(Case("dot"))).kernel == "sdpa"


def test_a_kernel_whose_device_tests_are_open_is_taken_only_by_name():
    attention = Attention(AdditiveScore(query=4, keys=4, hidden=8), kernel="additive-cuda")
    with pytest.raises(
        KernelRefused, match="kernel 'additive-cuda' cannot run this call: the tensors are on cpu"
    ):
        attention(torch.randn(1, 5, 4), attention.prepare(torch.randn(1, 6, 4)))
    assert "additive-cuda" not in {kernel.name for kernel in kernels()}


def test_many_additive_queries_on_a_cpu_take_the_fused_kernel():
    attention = Attention(AdditiveScore(query=4, keys=4, hidden=8))
    result = attention(torch.randn(1, 5, 4), attention.prepare(torch.randn(1, 6, 4)))
    assert result.kernel == "additive-cpu"
    assert not result.has_weights
