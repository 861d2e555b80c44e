"""Machines whose run as one operation must equal their run step by step."""

import torch
from torch.testing import assert_close

from regard.data.bits import BitBatch
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


def build(case, device="cpu", **settings):
    torch.manual_seed(3)
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


def check(case, *, B=2, T=5, device="cpu", atol=2e-5, rtol=2e-4, **settings):
    """Logits, and the gradients of inputs and all parameters, of one operation and of the steps."""
    model = build(case, device, **settings)
    inputs = torch.randn(B, T, SMALL["inputs"], device=device, requires_grad=True)

    def stepwise(x):
        nothing = torch.zeros(B, T, SMALL["outputs"], device=device)
        return model(BitBatch(x, nothing, nothing[..., 0].bool()))

    right = outcome(model, stepwise, inputs)
    found = outcome(model, lambda x: model._answer(*model._run(x)), inputs)
    names = ["logits", "inputs", *(name for name, _ in model.named_parameters())]
    for name, a, b in zip(names, found, right, strict=True):
        scale = max(1e-3, float(b.abs().max()))
        assert_close(
            a / scale, b / scale, atol=atol, rtol=rtol, msg=lambda m, name=name: f"{case}, {name}: {m}"
        )
