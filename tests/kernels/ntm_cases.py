"""Machines whose run as one operation must equal their run step by step."""

from copy import deepcopy

import torch
from kernels.error_rule import assert_rule
from seeds import offset_seed

from regard.data.bits import BitBatch
from regard.kernels.ntm import ntm_sequence
from regard.models.ntm import NTM, NTMConfig

SMALL = {"inputs": 3, "outputs": 2, "hidden": 10, "rows": 16, "width": 5}
CASES = {
    "feed-forward": {"controller": "feedforward"},
    "lstm": {"controller": "lstm"},
    "many heads": {"controller": "feedforward", "read_heads": 2, "write_heads": 3},
    "far and learnt": {
        "controller": "lstm",
        "reach": 3,
        "learnt": ("memory", "reads", "weights"),
        "width": 20,
    },
    "still": {"controller": "feedforward", "reach": 0, "rows": 32},
}
ODD = {  # sizes that only the loops of a CPU take
    "few rows": {"rows": 2, "reach": 3},
    "one row of one cell": {"rows": 1, "width": 1},
    "rows that fill no vector": {"rows": 37, "width": 3, "read_heads": 2},
    "wide": {"rows": 5, "width": 70, "hidden": 33},
    "many heads": {"read_heads": 9, "write_heads": 9},
}


def run(model, inputs):
    """The logits of the run as one operation."""
    return model._answer(*model._split(ntm_sequence.machine(*model._operands(inputs))))


def build(case, device="cpu", **settings):
    torch.manual_seed(offset_seed(3))
    model = NTM(NTMConfig(**{**SMALL, **CASES[case], **settings})).to(device)
    with torch.no_grad():
        for parameter in model.parameters():
            # far from uniform weightings, and not so far that rounding errors grow from step to step
            parameter += torch.randn_like(parameter) / model.config.hidden**0.5
    return model


def outcome(model, logits, inputs):
    """The logits and every gradient."""
    found = logits(inputs)
    outer = torch.linspace(-1, 1, found.numel(), device=found.device).reshape(found.shape).cos()
    return [found.detach(), *torch.autograd.grad((found * outer).sum(), [inputs, *model.parameters()])]


def check(case, *, B=2, T=5, device="cpu", **settings):
    """Logits and the gradients of inputs and all parameters, by the error rule beside the steps."""
    model = build(case, device, **settings)
    inputs = torch.randn(B, T, SMALL["inputs"], device=device, requires_grad=True)

    def stepwise(model, x):
        nothing = torch.zeros(B, T, SMALL["outputs"], device=device, dtype=x.dtype)
        found = outcome(model, lambda x: model(BitBatch(x, nothing, nothing[..., 0].bool())), x)
        names = ["logits", "inputs", *(name for name, _ in model.named_parameters())]
        return dict(zip(names, found, strict=True))

    def fused():
        found = outcome(model, lambda x: run(model, x), inputs)
        return dict(zip(stepwise(model, inputs), found, strict=True))

    exact, wide = deepcopy(model).double(), inputs.detach().double().requires_grad_()
    assert_rule((fused, lambda: stepwise(model, inputs), lambda: stepwise(exact, wide)), label=case, draws=4)
