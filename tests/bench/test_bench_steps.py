"""Training steps before and after: the same loss and gradients, or no time."""

from dataclasses import replace

import pytest
import torch
from only_kernels import only

from regard.attention import dispatch
from regard.attention.compose import Attention
from regard.bench import steps
from regard.bench.steps import SUBJECTS, by_reference, compare, longest, outcomes, parity, records, rows
from regard.tasks.base import Loss

TRANSFORMER = next(subject for subject in SUBJECTS if subject.name.startswith("Transformer"))
POINTER = next(subject for subject in SUBJECTS if subject.name == "Pointer network")


def test_a_transformer_with_additive_heads_has_the_same_gradients_with_kernels():
    [step] = compare(TRANSFORMER, "cpu", quick=True)
    assert step.broken == ""
    assert step.kernels != ("reference",)
    assert step.error < 4
    assert step.ratio > 0
    assert step.bytes["fused"] < step.bytes["reference"]
    [record] = records([step], "cpu")
    assert record.recipe == "training-steps-cpu"
    assert record.value == pytest.approx(step.ratio, abs=0.01)
    assert rows([step])[0][:3] == ("Transformer, additive heads", "transformer-en-fr", "plain")


def test_a_pointer_network_reads_scores_and_gets_them_from_a_kernel_that_has_them():
    [step] = compare(replace(POINTER, small=("model.hidden=32", "train.batch=32")), "cpu", quick=True)
    assert step.broken == ""
    assert step.kernels == ("additive-scores",)
    assert step.bytes["fused"] < step.bytes["reference"]


def test_what_has_no_kernel_is_measured_by_the_reference_alone():
    [step] = compare(replace(POINTER, small=("model.hidden=8", "train.batch=2")), "cpu", quick=True)
    assert step.kernels == ("reference",)
    assert step.ratio is None
    assert set(step.ms) == {"reference"}


def test_a_kernel_that_errs_breaks_the_parity_of_a_step(monkeypatch):
    class Careless(dispatch.Kernel):
        name = "careless"

        def refuses(self, call):
            return None

        def run(self, call):
            T, S, ndim = call.query.shape[-2], call.source.S, call.query.ndim
            mask = call.source.mask.to_dense(T, S, ndim=ndim, device=call.query.device)
            scores = call.score(call.query, call.source.keys)
            scores = scores if mask is None else scores.masked_fill(~mask, -torch.inf)
            return 0.99 * (scores.softmax(-1) @ call.source.values)

    model, task, batch = TRANSFORMER.model("cpu", quick=True)
    plain = by_reference(model)
    assert {m.kernel for m in plain.modules() if isinstance(m, Attention)} == {"reference"}
    assert {m.kernel for m in model.modules() if isinstance(m, Attention)} == {"auto"}
    only(monkeypatch, Careless())
    found = parity(model, plain, task, batch)
    assert found.largest > 10
    assert "of its size, the reference by" in found.broken


def test_a_model_that_fails_is_named_and_the_others_are_measured(monkeypatch):
    monkeypatch.setattr(steps, "SUBJECTS", (POINTER,))

    def fails(subject, device, *, quick):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(steps, "compare", fails)
    said = []
    [step] = steps.measure("cpu", quick=True, say=said.append)
    assert said == ["Pointer network, plain step: failed: out of memory"]
    assert records([step], "cpu") == []


def test_no_model_is_begun_after_the_deadline():
    said = []
    assert steps.measure("cpu", quick=True, deadline=-1.0, say=said.append) == []
    assert said == [f"{subject.name}: the deadline has passed" for subject in SUBJECTS]


def test_gradients_are_compared_without_cudnn_whose_recurrent_layers_have_none_in_eval_mode():
    class Watched:
        def loss(self, model, batch):
            assert not model.training
            seen.append(torch.backends.cudnn.enabled)
            return Loss(model.weight.sum(), torch.tensor(1))

    seen, before = [], torch.backends.cudnn.enabled
    found = outcomes(torch.nn.Linear(2, 1, bias=False), Watched(), None)
    assert seen == [False]
    assert torch.backends.cudnn.enabled == before
    assert found["gradient of weight"].tolist() == [[1.0, 1.0]]


def test_the_longest_batch_is_no_remainder():
    class Batch:
        def __init__(self, rows, length):
            self.source = torch.zeros(rows, length)

    full, short, rest = Batch(20, 50), Batch(60, 18), Batch(3, 60)
    assert longest([short, full, rest]) is full
