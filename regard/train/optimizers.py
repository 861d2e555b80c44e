"""The optimizers by name, each with the settings of the config that it has a use for."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from regard.train.config import TrainConfig


def build_optimizer(
    parameters: Iterable[nn.Parameter], train: TrainConfig, device: torch.device | None = None
) -> torch.optim.Optimizer:
    """The optimizer that `train.optimizer` names, over the parameters that learn.

    They will lie on `device` when it steps. On an NVIDIA GPU, Adam reads and writes its numbers once, in one
    kernel for all parameters; not under the loss scale of "fp16", where that kernel would undo the scale once
    more. What it remembers is the same, so a checkpoint goes on with or without it.
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
