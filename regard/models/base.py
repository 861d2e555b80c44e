"""The interface of a model: a forward pass for training, and one step at a time for decoding."""

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, Self, TypeVar, get_args, get_origin, get_type_hints

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import catalog, hub
from regard.attention.compose import Attention
from regard.attention.config import AttentionConfig, check_attention
from regard.attention.history import History
from regard.attention.source import Source
from regard.data.batches import PairBatch
from regard.data.tokens import BOS
from regard.errors import ConfigError, DataError, check_shares, check_sizes

State = TypeVar("State")
Size = Annotated[int, check_sizes]  # 1 or more
Share = Annotated[float, check_shares]  # 0 to 1


class Settings:
    """Base of a model's Config, which checks its fields by their types: `hidden: Size`, `dropout: Share`.

    `key` is the model's key in the catalogue; error messages begin with it.
    """

    _key: ClassVar[str]

    def __init_subclass__(cls, *, key: str) -> None:
        cls._key = key

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self), include_extras=True)
        for name, hint in hints.items():
            for kind in (hint, *get_args(hint)):  # Size | None and tuple[Size, ...] too
                for check in getattr(kind, "__metadata__", ()):
                    check(self._key, self, name)
        if hints.get("attention") is AttentionConfig:
            check_attention(self._key, self)


@dataclass(frozen=True)
class Player:
    """One of several parts of a model that learn in turn, each by its own loss, as adversaries do."""

    name: str  # the submodule that learns in its turn; `forward` takes this name as `player`
    rate: float = 1.0  # its learning rate, as a multiple of `train.lr`
    turns: int = 1  # optimizer steps in one update, each on a new batch


class Model(hub.Hubbed, nn.Module):
    """A complete system, built from one frozen dataclass.

    `save_pretrained` and `push_to_hub` write weights and config to a folder or to the Hub; `from_pretrained`
    of the class loads them.

    `Config` is the dataclass; `aligner` is the path of the attention that aligns source and target, as
    `record(model)` names it, or None for a model without attention. `steps` are the methods that do one step
    of a recurrence on tensors only, which `train.compile` compiles unless `compilable` says otherwise. In a
    `varied` model their shapes change with every batch, so they are compiled once for all shapes.

    `uses_all_parameters` promises that every training step gives each parameter a gradient: several processes
    then skip the search for unused ones. `sharded_layers` are the classes of the layers by which a model can
    be sharded among processes (FSDP2); without any it cannot.

    `players` are the parts that learn in turn, in this order; without any, the model learns as a whole. With
    players, `forward` takes the keyword `player`, the name of the one whose loss is wanted.
    """

    Config: ClassVar[type[Any]]
    reads: ClassVar[tuple[str, ...]] = ()  # kinds of examples; a task that fits `gives` one of them
    steps: ClassVar[tuple[str, ...]] = ()
    varied: ClassVar[bool] = False
    uses_all_parameters: bool = False
    sharded_layers: ClassVar[tuple[str, ...]] = ()
    aligner: str | None = None
    players: tuple[Player, ...] = ()

    def __init__(self, config: Any = None) -> None:
        super().__init__()
        self.config = config

    def at_step(self, step: int, steps: int) -> Hashable:
        """Called before update number `step` (from 1) of `steps`, for a model that changes during training.

        The changes must depend only on these two numbers, so that a run can resume at any step. Returns the
        current phase, if there are several: a step captured in one is not replayed in another.
        """
        return None

    def compilable(self) -> Iterable[tuple[nn.Module, str]]:
        """The methods that `train.compile` compiles, as pairs of owner and name."""
        return [(self, name) for name in self.steps]

    def after_step(self, step: int) -> None:
        """Called after update number `step`, for what depends on the weights, such as their average."""

    def _write(self, folder: Path, name: str, card: Mapping[str, Any]) -> None:
        from safetensors.torch import save_model

        save_model(self, str(folder / hub.WEIGHTS))
        row = _row(type(self))
        config = ({"model": row.key} if row else {}) | asdict(self.config)
        (folder / hub.CONFIG).write_text(
            json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8"
        )
        (folder / hub.CARD).write_text(_card(self, row, name, card), encoding="utf-8")

    @classmethod
    def _read(
        cls, folder: Path, *, map_location: str | torch.device = "cpu", strict: bool = True, **options: Any
    ) -> Self:
        from safetensors import SafetensorError
        from safetensors.torch import load_model

        if options:
            raise ConfigError(
                f"from_pretrained: `{next(iter(options))}` is unknown; expected map_location or strict."
            )
        try:
            given = json.loads((folder / hub.CONFIG).read_text(encoding="utf-8"))
            known, row = given.pop("model", None), _row(cls)
        except (OSError, ValueError, AttributeError) as error:
            raise DataError(
                f"{folder}: {hub.CONFIG} cannot be read; expected a folder that save_pretrained wrote."
            ) from error
        if row is not None and known not in (None, row.key):
            raise DataError(f"{folder}: the model is {known!r}; expected {row.key!r}, for {cls.__name__}.")
        try:
            model = cls(_filled(cls.Config, given))
            load_model(model, str(folder / hub.WEIGHTS), strict=strict)
        except (OSError, TypeError, KeyError, SafetensorError) as error:
            said = str(error).partition("\n")[0].rstrip(".")
            raise DataError(f"{folder}: does not fit {cls.__name__}: {said}.") from error
        except RuntimeError as error:  # names or shapes of weights
            raise DataError(f"{folder}: {hub.WEIGHTS} does not fit {hub.CONFIG}.") from error
        return model.to(map_location).eval()


def _row(kind: type[Model]) -> catalog.Row | None:
    """The catalogue's row of a model; None for a model that is not in it."""
    path = f"{kind.__module__}:{kind.__name__}"
    return next((row for row in catalog.rows("model") if row.path == path), None)


def _filled(kind: type[Any], values: Mapping[str, Any]) -> Any:
    """A config from JSON: inner configs are dataclasses again, lists are tuples."""
    hints, given = get_type_hints(kind), dict(values)
    for field in fields(kind):
        hint, value = hints[field.name], given.get(field.name)
        if is_dataclass(hint) and isinstance(value, dict):
            given[field.name] = _filled(hint, value)  # type: ignore[arg-type]
        elif get_origin(hint) is not list and isinstance(value, list):
            given[field.name] = tuple(value)
    return kind(**given)


def _card(model: Model, row: catalog.Row | None, name: str, card: Mapping[str, Any]) -> str:
    """The Hub's model card for weights without measured results."""
    kind = type(model)
    size = sum(parameter.numel() for parameter in model.parameters())
    tags = ["attention", "model_hub_mixin", "pytorch_model_hub_mixin", *([row.key] if row else [])]
    said = f"{row.title} ({row.authors}, {row.year}). {row.sentence}" if row else f"A {kind.__name__}."
    cited = f"\n## Citation\n\n{hub.citation(row)}\n" if row else ""
    facts = "".join(f"- **{key.capitalize()}**: {text}\n" for key, text in card.items() if key != "license")
    return f"""{hub.head(card.get("license"), tags)}

# {name}

{said}

```python
from {kind.__module__} import {kind.__name__}

model = {kind.__name__}.from_pretrained("{name}")
```

- **Size**: {size:,} parameters.
{facts}{cited}"""


class Translating(Model):
    """A model that turns one sequence into another, one step at a time: a Model that is a StepDecoder.

    It is `capturable` if `start` and `step` never wait for the device, so that CUDA graphs can capture them.
    """

    capturable: ClassVar[bool] = True

    def start(self, batch: PairBatch) -> Any:
        """Encode the source; return the state before the first target token."""
        raise NotImplementedError(f"{type(self).__name__} defines no start(batch).")

    def step(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """(B,) last tokens, state -> (B, V) log-probabilities of the next token, next state."""
        raise NotImplementedError(f"{type(self).__name__} defines no step(tokens, state).")

    def select(self, state: Any, rows: Tensor) -> Any:
        """Keep (R,) rows of the state, in this order; rows may repeat."""
        raise NotImplementedError(f"{type(self).__name__} defines no select(state, rows).")

    def reorder(self, state: Any, rows: Tensor, copies: int) -> Any:
        """Like `select`, if every sentence stays: rows are in sentence order, `copies` for each.

        Per-sentence tensors can stay in place, and nothing waits for the device.
        """
        return self.select(state, rows)


def continued(attention: Attention, source: Source, history: History | None, rows: Tensor) -> Source:
    """These rows of a source; on a CPU, hypotheses that may ask together share what is their sentence's."""
    alone = history is not None or attention.window is not None or not rows.is_cpu
    return source.select(rows) if alone else source.share(rows)


class StepDecoder(Protocol[State]):
    """All that greedy, beam and sampled decoding need of a model: see `Translating`."""

    def start(self, batch: PairBatch) -> State: ...

    def step(self, tokens: Tensor, state: State) -> tuple[Tensor, State]: ...

    def select(self, state: State, rows: Tensor) -> State: ...


def teacher_inputs(batch: PairBatch) -> Tensor:
    """(B, T) the decoder's inputs in training: bos, then the target shifted by one."""
    return F.pad(batch.target[:, :-1], (1, 0), value=BOS)
