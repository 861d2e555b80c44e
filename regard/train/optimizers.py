"""Builds optimizers by name, each with the settings it uses."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from regard.train.config import TrainConfig


def build_optimizer(
    parameters: Iterable[nn.Parameter], train: TrainConfig, device: torch.device | None = None
) -> torch.optim.Optimizer:
    """Build the optimizer named by `train.optimizer`, over the trainable parameters.

    `device` is where they are when it steps. On an NVIDIA GPU Adam is fused: one kernel for all parameters.
    Not with "fp16", where the fused kernel would unscale the gradients a second time. The optimizer state is
    the same, so a checkpoint resumes with or without it.
    """
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    common: dict[str, Any] = {"lr": train.lr, "weight_decay": train.weight_decay}
    if train.epsilon and train.optimizer != "sgd":
        common["eps"] = train.epsilon
    fused = (device is not None and device.type == "cuda" and train.precision != "fp16") or None
    match train.optimizer:
        case "adam":
            return torch.optim.Adam(learning, betas=train.betas, fused=fused, **common)
        case "adamw":
            return torch.optim.AdamW(learning, betas=train.betas, fused=fused, **common)
        case "sgd":
            return torch.optim.SGD(learning, momentum=train.momentum, **common)
        case "adadelta":
            return torch.optim.Adadelta(learning, rho=train.rho, **common)
        case "rmsprop":
            return torch.optim.RMSprop(learning, momentum=train.momentum, **common)
