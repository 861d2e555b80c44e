"""The optimizers by name, each with the settings of the config that it has a use for."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from regard.train.config import TrainConfig


def build_optimizer(parameters: Iterable[nn.Parameter], train: TrainConfig) -> torch.optim.Optimizer:
    """The optimizer that `train.optimizer` names, over the parameters that learn."""
    learning = [parameter for parameter in parameters if parameter.requires_grad]
    common: dict[str, Any] = {"lr": train.lr, "weight_decay": train.weight_decay}
    if train.epsilon and train.optimizer != "sgd":
        common["eps"] = train.epsilon
    match train.optimizer:
        case "adam":
            return torch.optim.Adam(learning, betas=train.betas, **common)
        case "adamw":
            return torch.optim.AdamW(learning, betas=train.betas, **common)
        case "sgd":
            return torch.optim.SGD(learning, momentum=train.momentum, **common)
        case "adadelta":
            return torch.optim.Adadelta(learning, rho=train.rho, **common)
        case "rmsprop":
            return torch.optim.RMSprop(learning, momentum=train.momentum, **common)
