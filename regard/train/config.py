"""The configuration of a run: model, task, training and decoding. Read strictly from TOML.

    [model]                     name, and the fields of the model's Config
    name = "rnnsearch"
    hidden = 128
    [model.attention]           the fields of AttentionConfig, where the model has one
    score = "general"
    [task]                      name, and the fields of the task's Settings
    name = "grammar"
    [train]                     the fields of TrainConfig
    steps = 1500
    [decode]                    the fields of Decoding
    beam = 5

An unknown table, key or type is an error that names the nearest right one. No file includes another.
"""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from regard import catalog
from regard.decode.base import Decoding
from regard.errors import ConfigError, check_setting
from regard.renamed import new_entry, new_key
from regard.train import fields, toml
from regard.train.schedule import ScheduleName

OptimizerName = Literal["adam", "adamw", "sgd", "adadelta", "rmsprop"]
Precision = Literal["no", "bf16", "fp16"]
TABLES = ("model", "task", "train", "decode")
NAMES = (("model", "name"), ("task", "name"))  # keys that choose the class of their table
OVERRIDES = "--set"  # names an override in error messages: the option that the user typed


@dataclass(frozen=True)
class TrainConfig:
    """How to train. Defaults suit the small recipes."""

    steps: int = 1000  # optimizer updates
    batch: int = 2048  # units per process and micro-batch, as the task counts them (tokens for text)
    accumulate: int = 1  # micro-batches per update
    optimizer: OptimizerName = "adam"
    lr: float = 1e-3  # the peak; the schedule multiplies it
    betas: tuple[float, float] = (0.9, 0.999)  # adam, adamw
    momentum: float = 0.0  # sgd, rmsprop
    rho: float = 0.95  # adadelta
    epsilon: float = 0.0  # 0 = the optimizer's usual value
    weight_decay: float = 0.0
    clip: float = 1.0  # largest gradient norm; 0 = off
    schedule: ScheduleName = "constant"
    warmup: int = 0  # steps of linear warm-up, under every schedule
    halve_after: int = 0  # schedule "halve": steps before the first halving
    halve_every: int = 1000  # schedule "halve": steps from one halving to the next
    seed: int = 1
    precision: Precision = "no"  # autocast to bf16, or fp16 with loss scaling (GPU only)
    evaluate_every: int = 200  # steps; the last step is always evaluated, 0 = only that one
    checkpoint_every: int = 200  # steps; the last step and every improvement are always kept, 0 = only those
    patience: int = 0  # evaluations without improvement before stopping early; 0 = never
    log_every: int = 20  # steps per line of metrics
    average: int = 0  # average the weights of this many last evaluations at the end; 0 = none
    threads: int = 0  # CPU threads; 0 = torch's choice
    capture: bool = False  # on one NVIDIA GPU, record a step for each batch shape and replay it
    compile: bool = False  # let torch.compile fuse a recurrent step or a layer; takes a minute at the start
    on_nonfinite: Literal["skip", "stop"] = "skip"  # what to do with an update that is not finite

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "accumulate", "log_every", "halve_every"):
            check_setting(f"train.{name}", getattr(self, name), least=1)
        for name in ("warmup", "halve_after", "evaluate_every", "checkpoint_every", "patience", "average"):
            check_setting(f"train.{name}", getattr(self, name))
        check_setting("train.seed", self.seed, most=2**32 - 1)
        check_setting("train.threads", self.threads, most=1024)
        for name in ("lr", "clip", "weight_decay", "epsilon", "momentum"):
            check_setting(f"train.{name}", getattr(self, name))
        for name, shares in (("betas", self.betas), ("momentum", (self.momentum,)), ("rho", (self.rho,))):
            if not all(0 <= share < 1 for share in shares):
                shown = list(shares) if len(shares) > 1 else shares[0]
                raise ConfigError(f"'train.{name}' is {shown}; expected 0 or more, and less than 1.")


@dataclass(frozen=True)
class RunConfig:
    """Everything that determines a run."""

    model: str
    model_settings: Mapping[str, Any]
    task: str
    task_settings: Mapping[str, Any]
    train: TrainConfig = field(default_factory=TrainConfig)
    decode: Decoding = field(default_factory=Decoding)

    def tables(self) -> dict[str, dict[str, Any]]:
        """The four tables of the file; keys of inner tables are dotted."""
        return {
            "model": {"name": self.model, **fields.flatten(self.model_settings)},
            "task": {"name": self.task, **self.task_settings},
            "train": asdict(self.train),
            "decode": {name: getattr(self.decode, name) for name in fields.keys(Decoding)},
        }

    def write(self, path: Path) -> None:
        """Write a TOML file that `load_recipe` reads back as this config."""
        path.write_text(toml.dumps(self.tables()), encoding="utf-8")


def load_recipe(
    name: str | Path, overrides: Sequence[str] = (), *, tables: Mapping[str, Mapping[str, Any]] | None = None
) -> RunConfig:
    """Load a recipe by name, or from a .toml file, and apply the overrides, each `table.key=value`.

    `tables` replace those of the recipe.
    """
    owner, text = read_recipe(name)
    return _resolve(owner, {**parse(owner, text), **(tables or {})}, overrides)


def load_run(path: Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Load the config.toml of a run folder and apply the overrides; keys of earlier versions are renamed."""
    owner, text = read_recipe(path)
    return _resolve(owner, translate(parse(owner, text)), overrides)


def override(config: RunConfig, overrides: Sequence[str]) -> RunConfig:
    """The config with some settings changed, each `table.key=value`."""
    return _resolve("config", config.tables(), overrides)


def read_recipe(name: str | Path) -> tuple[str, str]:
    """The recipe's file name, as errors show it, and its text."""
    if str(name).endswith(".toml"):
        path = Path(name)
        try:
            return path.name, path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise ConfigError(f"{name}: cannot be read: {reason}.") from error
    if str(name) not in recipe_names():
        near = catalog.nearest(str(name), recipe_names())
        hint = f"did you mean {near!r}?" if near else "expected one of `regard list recipe`, or a .toml file."
        raise ConfigError(f"recipes: unknown recipe {str(name)!r}; {hint}")
    file = resources.files("regard.recipes") / f"{name}.toml"
    return f"{name}.toml", file.read_text(encoding="utf-8")


def recipe_names() -> tuple[str, ...]:
    """The recipes that come with the package."""
    files = resources.files("regard.recipes").iterdir()
    return tuple(sorted(file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")))


def recipe_sentence(name: str) -> str:
    """The first line of a packaged recipe, which describes it."""
    return read_recipe(name)[1].partition("\n")[0].removeprefix("#").strip()


def parse(owner: str, text: str) -> dict[str, dict[str, Any]]:
    """The tables of a TOML text, with dotted keys for inner tables; tables are checked, keys are not."""
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # bad syntax, or endless digits or nesting
        raise ConfigError(f"{owner}: not valid TOML: {error}.") from error
    for name, table in document.items():
        if name not in TABLES:
            raise ConfigError(f"{owner}: unknown table {name!r}; {catalog.suggest(name, TABLES)}")
        if not isinstance(table, dict):
            raise ConfigError(f"{owner}: '{name}' is {table!r}; expected a table, [{name}].")
    return {name: fields.flatten(table) for name, table in document.items()}


def fill_defaults(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tables with every default written out, so that a later change of defaults does not affect the run.

    A model or task that is not in the catalogue keeps its settings unchanged.
    """
    kinds = {"train": TrainConfig, "decode": Decoding} | _known_kinds(tables)
    filled = {table: dict(tables.get(table, {})) for table in TABLES}
    return {
        table: own | fields.flatten(fields.with_defaults(kinds[table], own)) if table in kinds else own
        for table, own in filled.items()
    }


def translate(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The tables of a run of an earlier version, with renamed keys replaced."""
    translated = {table: dict(values) for table, values in tables.items()}
    for table, kind in _known_kinds(tables).items():
        known = {f"{table}.{name}" for name in fields.keys(kind)}
        translated[table] = {}
        for name, value in tables[table].items():
            key = new_key(f"{table}.{name}", known) or f"{table}.{name}"
            translated[table][key.removeprefix(f"{table}.")] = (
                new_entry(key.rpartition(".")[2], value) or value
            )
    return translated


def _known_kinds(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, type[Any]]:
    """The settings classes of the model and the task, if they are in the catalogue."""
    kinds: dict[str, type[Any]] = {}
    model, task = (tables.get(kind, {}).get("name") for kind in ("model", "task"))
    if model in catalog.names("model"):
        kinds["model"] = catalog.find(str(model), "model").load().Config
    if task in catalog.names("task"):
        kinds["task"] = catalog.find(str(task), "task").load().Settings
    return kinds


def _parse_override(override: str) -> tuple[str, str, Any]:
    key, equals, text = override.partition("=")
    table, dot, name = key.strip().partition(".")
    if not (equals and dot and table and name):
        raise ConfigError(
            f"{OVERRIDES}: {override!r} is not table.key=value; expected e.g. train.steps=2000."
        )
    if table not in TABLES:
        raise ConfigError(f"{OVERRIDES}: unknown table {table!r}; {catalog.suggest(table, TABLES)}")
    if (table, name) == ("train", "device"):
        raise ConfigError(
            f"{OVERRIDES}: unknown key 'train.device'; expected the option `--device {text.strip()}`."
        )
    return table, name, _parse_value(text.strip())


def _parse_value(text: str) -> Any:
    """Parse a TOML value; other text is a plain string, so that words need no quotes on the command line."""
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return document["value"] if len(document) == 1 else text


def _resolve(owner: str, tables: Mapping[str, Mapping[str, Any]], overrides: Sequence[str]) -> RunConfig:
    """Check the file and the overrides separately, so that an error names the right one."""
    changed: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
    for table, name, value in map(_parse_override, overrides):
        changed[table] |= fields.flatten({name: value})
    model, model_class = _choose(owner, "model", tables.get("model", {}), changed["model"])
    task, task_class = _choose(owner, "task", tables.get("task", {}), changed["task"])
    _check_fit(owner, model, task)
    classes = (model_class.Config, task_class.Settings, TrainConfig, Decoding)
    joined: dict[str, dict[str, Any]] = {}
    for table, kind in zip(TABLES, classes, strict=True):
        given: dict[str, Any] = {}
        for source, values in ((owner, tables.get(table, {})), (OVERRIDES, changed[table])):
            settings = {key: value for key, value in values.items() if (table, key) not in NAMES}
            given |= fields.check(source, table, kind, settings)
            joined[table] = _filled(source, kind, given)
    train, decode = TrainConfig(**joined["train"]), Decoding(**joined["decode"])
    return RunConfig(model, joined["model"], task, joined["task"], train, decode)


def _filled(owner: str, kind: type[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given values and all defaults. Sizes that depend on the data are checked when a model is built."""
    try:
        full = fields.with_defaults(kind, given)
        if kind in (TrainConfig, Decoding):
            kind(**full)
    except ConfigError as error:
        raise ConfigError(f"{owner}: {error}") from error
    return full


def _choose(
    owner: str, kind: Literal["model", "task"], own: Mapping[str, Any], new: Mapping[str, Any]
) -> tuple[str, Any]:
    """The key and the class chosen by `[model] name = …` or `[task] name = …`."""
    owner = OVERRIDES if "name" in new else owner
    known = catalog.names(kind)
    name = new.get("name", own.get("name"))
    if name is None:
        raise ConfigError(f"{owner}: '{kind}.name' is missing; expected one of {', '.join(known)}.")
    if name not in known:
        raise ConfigError(f"{owner}: unknown {kind} {name!r}; {catalog.suggest(str(name), known)}")
    return name, catalog.find(name, kind).load()


def _check_fit(owner: str, model: str, task: str) -> None:
    """Raise ConfigError if the model cannot learn from the task's examples."""
    given: str = getattr(catalog.find(task, "task").load(), "gives", "")
    kinds = catalog.find(model, "model").load().reads
    if given and kinds and given not in kinds:
        fitting = ", ".join(row.key for row in catalog.rows("model") if given in row.load().reads)
        raise ConfigError(
            f"{owner}: the model is {model!r}, which learns from {' or '.join(kinds)}, and the task "
            f"is {task!r}, which gives {given}; expected one of the models {fitting}."
        )
