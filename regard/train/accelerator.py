"""Builds Accelerate for this process: precision, gradient exchange, sharded models (FSDP2).

The launcher decides which: `accelerate launch --use_fsdp`, or the variable ACCELERATE_USE_FSDP=true, shards
the model. Accelerate shards on GPUs only; here CPU processes can too, so that it can be tested anywhere.
"""

import os

from torch import nn

from regard.errors import ConfigError
from regard.extras import needs
from regard.models.base import Model
from regard.train.config import TrainConfig

needs("train", "accelerate")
from accelerate import (  # noqa: E402
    Accelerator,
    DistributedDataParallelKwargs,
    FullyShardedDataParallelPlugin,
)
from accelerate.state import AcceleratorState, PartialState  # noqa: E402
from accelerate.utils import DistributedType, GradScalerKwargs, parse_flag_from_env  # noqa: E402

_KNOWN = (DistributedType.NO, DistributedType.MULTI_CPU, DistributedType.MULTI_GPU, DistributedType.FSDP)
_SHARDING = "ACCELERATE_USE_FSDP"


def join_processes() -> None:
    """Connect this process to the others of its launcher, as the first training would."""
    PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU"))


def build_accelerator(train: TrainConfig, model: nn.Module, *, own_loss: bool) -> Accelerator:
    """Accelerate for this process and model, with the config's precision.

    `own_loss`: the model is trained with a user's step function, which may leave parameters unused.
    """
    AcceleratorState._reset_state()  # a process may train twice, with different precisions
    # the loss is the sum over a batch, not the mean, so the initial loss scale is divided by the batch size
    scale = 2.0 ** max(0, 16 - train.batch.bit_length())
    handlers = [
        # without this, a parameter unused in a step stops several processes at their second update
        DistributedDataParallelKwargs(find_unused_parameters=own_loss or not uses_all_parameters(model)),
        GradScalerKwargs(init_scale=scale),
    ]
    plugin = _shards(model) if os.environ.get(_SHARDING, "").lower() in ("true", "1") else None
    try:
        accelerator = Accelerator(
            mixed_precision=train.precision, kwargs_handlers=handlers, fsdp_plugin=plugin
        )
    except ValueError as error:
        raise ConfigError(f"train: 'train.precision' is {train.precision!r}; {error}") from error
    if plugin is not None and accelerator.distributed_type == DistributedType.MULTI_CPU:
        accelerator.state.distributed_type = DistributedType.FSDP
        accelerator.state.fsdp_plugin = plugin
    _check(accelerator, train)
    return accelerator


def _check(accelerator: Accelerator, train: TrainConfig) -> None:
    """Raise ConfigError for settings that cannot be combined."""
    kind = accelerator.distributed_type
    if train.precision == "fp16" and accelerator.device.type == "cpu":
        raise ConfigError("train: 'train.precision' is 'fp16'; expected 'no' or 'bf16' on a CPU.")
    if train.precision == "fp16" and train.capture:
        raise ConfigError(
            "train: 'train.capture' is on with 'train.precision' = 'fp16'; expected 'bf16' or 'no'."
        )
    if kind not in _KNOWN:
        raise ConfigError(
            f"train: launched for {kind.value}; expected whole models in every process (DDP), or FSDP."
        )
    if kind == DistributedType.FSDP and train.precision == "fp16":
        raise ConfigError("train: 'train.precision' is 'fp16' under FSDP; expected 'bf16' or 'no'.")
    if kind == DistributedType.FSDP and train.compile:
        raise ConfigError("train: 'train.compile' is on under FSDP; expected it off, or a launch for DDP.")


def uses_all_parameters(model: nn.Module) -> bool:
    """Whether the model promises every parameter a gradient in every step."""
    return isinstance(model, Model) and model.uses_all_parameters and not model.players


def _shards(model: nn.Module) -> FullyShardedDataParallelPlugin:
    """FSDP2 with one unit per layer; all other parameters form one more unit."""
    layers = model.sharded_layers if isinstance(model, Model) else ()
    if not layers:
        raise ConfigError(
            f"train: launched for FSDP, with the model {type(model).__name__}; expected the model "
            f"'transformer', or every process with the whole model: launch without FSDP ({_SHARDING})."
        )
    return FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=list(layers),
        reshard_after_forward=True,
        cpu_ram_efficient_loading=False,
        state_dict_type="FULL_STATE_DICT",
    )
