import pytest
import torch
from torch import nn

from regard.train import serialization
from regard.train.config import TrainConfig
from regard.train.optimizers import build_optimizer

CUDA = torch.device("cuda")  # named, not used: a fused Adam steps on a CPU too


def learner(optimizer="adam", device=None, *, seed=3, **settings):
    torch.manual_seed(seed)
    model = nn.Linear(5, 4)
    train = TrainConfig(optimizer=optimizer, lr=0.01, weight_decay=0.1, **settings)
    return model, build_optimizer(model.parameters(), train, device)


def walk(model, optimizer, steps, *, start=0):
    for step in range(start, start + steps):
        generator = torch.Generator().manual_seed(step)
        for parameter in model.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return [p.detach().clone() for p in model.parameters()]


@pytest.mark.parametrize("name", ["adam", "adamw"])
@pytest.mark.parametrize(
    ("device", "precision", "fused"),
    [(CUDA, "no", True), (CUDA, "bf16", True), (CUDA, "fp16", None), (torch.device("cpu"), "no", None)],
    ids=["gpu", "gpu-bf16", "gpu-fp16", "cpu"],
)
def test_adam_is_fused_on_a_gpu_unless_the_loss_is_scaled(name, device, precision, fused):
    _, optimizer = learner(name, device, precision=precision)
    assert [group["fused"] for group in optimizer.param_groups] == [fused]


@pytest.mark.parametrize("name", ["sgd", "adadelta", "rmsprop"])
def test_other_optimizers_are_those_of_every_device(name):
    found = [walk(*learner(name, device), 3) for device in (CUDA, None)]
    assert all(map(torch.equal, *found))


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_a_fused_adam_learns_what_a_plain_one_learns(name):
    torch.testing.assert_close(walk(*learner(name, CUDA), 20), walk(*learner(name), 20))


@pytest.mark.parametrize(("first", "second"), [(CUDA, None), (None, CUDA)], ids=["to-plain", "to-fused"])
def test_what_a_fused_adam_remembers_serves_a_plain_one_and_the_other_way(first, second):
    expected = walk(*learner(device=None), 9)
    model, optimizer = learner(device=first)
    walk(model, optimizer, 4)
    heir, later = learner(device=second, seed=4)
    serialization.load_weights(heir, serialization.weights(model))
    serialization.load_optimizer(later, *serialization.optimizer_state(optimizer))
    torch.testing.assert_close(walk(heir, later, 5, start=4), expected)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_a_run_of_a_cpu_goes_on_with_a_fused_adam_on_a_gpu():
    expected = walk(*learner(), 9)
    model, optimizer = learner()
    walk(model, optimizer, 4)
    heir, later = learner(device=CUDA, seed=4)
    serialization.load_weights(heir, serialization.weights(model))
    heir.to("cuda")
    serialization.load_optimizer(later, *serialization.optimizer_state(optimizer))
    for step in range(4, 9):
        generator = torch.Generator().manual_seed(step)
        for parameter in heir.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator).cuda()
        later.step()
    torch.testing.assert_close([p.detach().cpu() for p in heir.parameters()], expected)
