import random

import numpy as np
import pytest
import torch
from train_support import TinyConfig, TinyModel

from regard.train import serialization
from regard.train.config import OptimizerName, TrainConfig
from regard.train.optimizers import build_optimizer

CPU = torch.device("cpu")


def draws() -> list[float]:
    return [
        *[random.random(), random.gauss(0, 1)],
        *[float(np.random.rand()), float(np.random.standard_normal())],
        *torch.rand(3).tolist(),
    ]


@pytest.mark.parametrize("before", [0, 1])
def test_random_states_come_back_exactly(before: int) -> None:
    for _ in range(before):  # an odd number of Gaussian draws leaves half a pair waiting
        random.gauss(0, 1)
        np.random.standard_normal()
    kept = serialization.random_state(CPU)
    expected = [draws() for _ in range(3)]
    serialization.load_random_state(kept, CPU)
    assert [draws() for _ in range(3)] == expected


def test_tied_weights_are_kept_once_and_stay_tied() -> None:
    model = TinyModel(TinyConfig(vocab=5, kind="tied"))
    kept = serialization.weights(model)
    assert "output.weight" not in kept
    other = TinyModel(TinyConfig(vocab=5, kind="tied"))
    serialization.load_weights(other, kept)
    assert other.output.weight is other.embedding.weight
    assert torch.equal(other.embedding.weight, model.embedding.weight)


def test_weights_of_another_model_are_refused() -> None:
    kept = serialization.weights(TinyModel(TinyConfig(vocab=5)))
    with pytest.raises(ValueError, match=r"tensors \(embedding\.weight, .*\) are of another shape\."):
        serialization.load_weights(TinyModel(TinyConfig(vocab=6)), kept)
    del kept["output.bias"]
    with pytest.raises(ValueError, match=r"^1 tensor \(output\.bias\) is missing\.$"):
        serialization.load_weights(TinyModel(TinyConfig(vocab=5)), kept)


def advance(model: TinyModel, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.arange(5)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adadelta", "rmsprop"])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_an_optimizer_goes_on_exactly(name: OptimizerName, momentum: float) -> None:
    train = TrainConfig(optimizer=name, lr=0.01, momentum=momentum, weight_decay=0.1, epsilon=1e-7)
    model, other = TinyModel(TinyConfig(vocab=5)), TinyModel(TinyConfig(vocab=5))
    optimizer = build_optimizer(model.parameters(), train)
    advance(model, optimizer, 3)
    serialization.load_weights(other, serialization.weights(model))
    again = build_optimizer(other.parameters(), train)
    serialization.load_optimizer(again, *serialization.optimizer_state(optimizer))
    advance(model, optimizer, 3)
    advance(other, again, 3)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True))


def test_what_adam_remembers_is_laid_out_as_its_parameter() -> None:
    """Adam's kernel on a GPU refuses a convolution whose weights are channels last, and its means are not."""
    train = TrainConfig(optimizer="adam", lr=0.01)

    def opened() -> tuple[torch.nn.Conv2d, torch.optim.Optimizer]:
        model = torch.nn.Conv2d(3, 5, 2).to(memory_format=torch.channels_last)
        return model, build_optimizer(model.parameters(), train)

    def advance(model: torch.nn.Conv2d, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        model(torch.arange(48.0).view(1, 3, 4, 4)).square().sum().backward()
        optimizer.step()

    (model, optimizer), (other, again) = opened(), opened()
    advance(model, optimizer)
    serialization.load_weights(other, serialization.weights(model))
    serialization.load_optimizer(again, *serialization.optimizer_state(optimizer))
    assert not model.weight.is_contiguous()
    assert other.weight.stride() == model.weight.stride()
    for name in ("exp_avg", "exp_avg_sq"):
        assert again.state[other.weight][name].stride() == model.weight.stride()
    advance(model, optimizer)
    advance(other, again)
    assert torch.equal(model.weight, other.weight)


def test_the_optimizer_has_the_settings_of_the_config() -> None:
    parameters = [torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2), requires_grad=False)]
    adam = build_optimizer(parameters, TrainConfig(optimizer="adam", betas=(0.8, 0.9), epsilon=1e-9))
    assert len(adam.param_groups[0]["params"]) == 1
    assert (adam.defaults["betas"], adam.defaults["eps"]) == ((0.8, 0.9), 1e-9)
    adadelta = build_optimizer(parameters, TrainConfig(optimizer="adadelta"))
    assert (adadelta.defaults["rho"], adadelta.defaults["eps"]) == (0.95, 1e-6)  # Bahdanau 2014, section 4.2
