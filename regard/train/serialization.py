"""What a checkpoint holds, as named tensors and plain numbers: safetensors and JSON keep both without pickle.

weights      a model's parameters and buffers by their names; tied ones once
optimizer    "3.exp_avg": what the optimizer remembers of parameter 3; numbers apart from tensors
random       the states of torch's, Python's and NumPy's generators, one row per process
"""

import random
import struct
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from regard.train.sharded import part_of, whole

Tensors = dict[str, Tensor]


def weights(model: nn.Module) -> Tensors:
    """The state of a model on the CPU. A tensor under several names is kept under the first."""
    aliases = _aliases(model)
    return {name: _kept(whole(tensor)) for name, tensor in model.state_dict().items() if name not in aliases}


def load_weights(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Fill a model; raises ValueError where names or shapes differ."""
    aliases = _aliases(model)
    full = dict(tensors) | {alias: tensors[name] for alias, name in aliases.items() if name in tensors}
    own = model.state_dict()
    faults = (
        ("missing", [name for name in own if name not in full]),
        ("unknown", [name for name in full if name not in own]),
        ("of another shape", [n for n in own if n in full and own[n].shape != full[n].shape]),
    )
    if any(names for _, names in faults):
        raise ValueError("; ".join(f"{_some(names)} {what}" for what, names in faults if names) + ".")
    model.load_state_dict(full)


def optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[Tensors, dict[str, Any]]:
    """What the optimizer remembers, as tensors and as numbers. Its settings come from the config."""
    tensors, numbers = {}, {}
    for index, memory in optimizer.state_dict()["state"].items():
        for name, value in memory.items():
            if isinstance(value, Tensor):
                tensors[f"{index}.{name}"] = _kept(whole(value))
            else:
                numbers[f"{index}.{name}"] = value
    return tensors, numbers


def load_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]
) -> None:
    """Give the optimizer its memory back; its settings stay."""
    memory: dict[int, dict[str, Any]] = {}
    for key, value in (dict(tensors) | dict(numbers)).items():
        index, _, name = key.partition(".")
        memory.setdefault(int(index), {})[name] = value
    groups = optimizer.state_dict()["param_groups"]
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for index, values in memory.items():
        for name, value in values.items():
            if isinstance(value, Tensor):
                values[name] = _laid_out(part_of(value, parameters[index]), parameters[index])
    optimizer.load_state_dict({"state": memory, "param_groups": groups})


def random_state(device: torch.device) -> Tensors:
    """The generators of this process: torch's on the CPU and on the device, Python's, NumPy's."""
    import numpy as np  # training needs it, loading does not

    mersenne = np.random.get_state(legacy=False)
    keys, position = mersenne["state"]["key"], mersenne["state"]["pos"]
    version, numbers, next_gauss = random.getstate()
    states = {
        "torch": torch.get_rng_state(),
        "python": torch.tensor([version, *numbers, next_gauss is not None, _bits(next_gauss or 0.0)]),
        "numpy": torch.tensor([*keys.tolist(), position, mersenne["has_gauss"], _bits(mersenne["gauss"])]),
    }
    if device.type != "cpu":
        states["device"] = torch.get_device_module(device).get_rng_state().cpu()
    return states


def load_random_state(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Put the generators back to where `random_state` saw them."""
    import numpy as np

    version, *numbers, has_next, bits = states["python"].tolist()
    random.setstate((version, tuple(numbers), _float(bits) if has_next else None))
    *keys, position, has_gauss, bits = states["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(keys, dtype=np.uint32), position, has_gauss, _float(bits)))
    torch.set_rng_state(states["torch"].clone())  # torch reads a view from the start of its storage
    if device.type != "cpu" and "device" in states:
        torch.get_device_module(device).set_rng_state(states["device"].clone())


def _some(names: list[str], shown: int = 3) -> str:
    """How many tensors, and the first names: `12 tensors (a, b, c, …) are`."""
    more = ", …" if len(names) > shown else ""
    verb = "tensor" if len(names) == 1 else "tensors"
    return f"{len(names)} {verb} ({', '.join(names[:shown])}{more}) {'is' if len(names) == 1 else 'are'}"


def _aliases(model: nn.Module) -> dict[str, str]:
    """Names of tied tensors -> the name under which each is kept."""
    first: dict[int, str] = {}
    entries = model.state_dict(keep_vars=True).items()
    return {name: first[id(tensor)] for name, tensor in entries if first.setdefault(id(tensor), name) != name}


def _kept(tensor: Tensor) -> Tensor:
    """A copy of its own: safetensors refuses views that share memory."""
    return tensor.detach().to("cpu", copy=True).contiguous()


def _laid_out(value: Tensor, parameter: Tensor) -> Tensor:
    """With the parameter's strides, such as channels last: fused optimizers expect them."""
    if value.shape != parameter.shape or value.stride() == parameter.stride():
        return value
    return torch.empty_like(parameter, dtype=value.dtype, device=value.device).copy_(value)


def _bits(value: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])
