"""A comparison: variants of a recipe, each trained with every seed on one budget and measured alike.

    comparison = plan("rnnsearch-reverse", scores=("dot", "general"), seeds=(1, 2, 3))
    outcomes = run(comparison, Path("comparisons/scores"), workers=2, console=Console())

A plan is a value and costs nothing; running it fills a folder, and resumes in a partly filled one:

    configs/NAME.toml           the resolved config of each training
    runs/NAME-seed1/            its run folder, with what was measured (see trial.py)
    runs/NAME-seed1.log         the output of its process

A variant that cannot be built, fails or is unfinished is an outcome too, with its reason; the others go on.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any, Literal

from rich.console import Console

from regard import catalog
from regard.compare.jobs import PATIENCE, Job, run_jobs, standing
from regard.compare.launched import run_launched
from regard.compare.trial import (
    IMPOSSIBLE,
    TEST,
    Asked,
    Measured,
    MeasuredJob,
    Training,
    read_measured,
    read_training,
    trained_by,
)
from regard.errors import ConfigError, DataError
from regard.renamed import new_key
from regard.train import fields
from regard.train.config import RunConfig, load_recipe, override, parse, read_recipe, recipe_names
from regard.train.launcher import count_launched, is_main_process
from regard.train.run_folder import UNLEARNT, RunFolder

Ended = Literal["finished", "impossible", "failed", "unfinished"]
RESERVE = 20.0  # seconds before a deadline at which trainings must save; the report needs some too


@dataclass(frozen=True)
class Variant:
    """One thing to compare, named by its changes: a config, or the reason why it cannot be built."""

    name: str  # "dot, local-predictive"
    changes: tuple[tuple[str, str], ...]  # from the base: ("score", "dot"), ("window", "global")
    config: RunConfig | None
    reason: str = ""
    recipe: str = ""  # the recipe that the config is based on

    @property
    def slug(self) -> str:
        """The name as a file name."""
        return re.sub(r"[^\w.=+-]+", "-", self.name).strip("-")


@dataclass(frozen=True)
class Comparison:
    """Variants and seeds to compare, and what to measure."""

    name: str
    variants: tuple[Variant, ...]
    seeds: tuple[int, ...]
    asked: Asked = TEST

    def __post_init__(self) -> None:
        named = {"variant": [variant.slug for variant in self.variants], "seed": list(map(str, self.seeds))}
        for what, given in named.items():
            twice = sorted({one for one in given if given.count(one) > 1})
            if not given or twice:
                found = f"{twice[0]!r} twice" if twice else "none"
                raise ConfigError(f"compare: `{what}s` has {found}; expected each {what} once, at least one.")


@dataclass(frozen=True)
class Outcome:
    """How one training of one variant ended."""

    variant: str
    seed: int
    state: Ended
    reason: str = ""
    training: Training | None = None
    measured: Measured | None = None


# Planning -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Axis:
    """One setting and the values it takes."""

    label: str
    key: str  # table.key; "recipe" and "model" choose the config to start from
    values: tuple[str, ...]
    named: bool = False  # whether variant names show the label too: "heads 4", but "dot"


def plan(
    base: str | None = None,
    *,
    recipes: Sequence[str] = (),
    models: Sequence[str] = (),
    scores: Sequence[str] = (),
    windows: Sequence[str] = (),
    normalizers: Sequence[str] = (),
    vary: Sequence[str] = (),
    each: bool = False,
    overrides: Sequence[str] = (),
    seeds: Sequence[int] = (),
    asked: Asked = TEST,
    name: str | None = None,
    tables: Callable[[str], Mapping[str, Mapping[str, Any]]] | None = None,
) -> Comparison:
    """Every combination of the given choices, or with `each` the base and one change at a time.

    `base` is a recipe, a .toml file or the key of a task; `recipes` compares whole recipes instead. `vary`
    takes `table.key=value,value,…`. All variants share the budget of the base, unless `overrides` set it.
    `tables(recipe)` replaces tables of the recipe.
    """
    if (base is None) == (not recipes):
        given = "both" if recipes else "neither"
        raise ConfigError(f"compare: TASK and --recipes have {given}; expected one of the two.")
    if models and recipes:
        raise ConfigError("compare: --models and --recipes are both given; a recipe has its model already.")
    alike = [name for name, count in Counter(Path(recipe).stem for recipe in recipes).items() if count > 1]
    if alike:
        raise ConfigError(f"compare: several --recipes are named {alike[0]!r}; expected names that differ.")
    begins = [_recipe_of(base, models)] if base is not None else list(recipes)
    configs = {
        recipe: load_recipe(recipe, overrides, tables=tables(recipe) if tables else None) for recipe in begins
    }
    axes = [
        _Axis("recipe", "recipe", tuple(recipes)),
        _Axis("model", "model", tuple(models)),
        _Axis("score", "model.attention.score", tuple(scores)),
        _Axis("window", "model.attention.window", tuple(windows)),
        _Axis("normalizer", "model.attention.normalizer", tuple(normalizers)),
        *map(_axis, vary),
    ]
    axes = [axis for axis in axes if axis.values]
    _check_keys(axes)
    labels = Counter(axis.label for axis in axes)
    axes = [axis if labels[axis.label] == 1 else replace(axis, label=axis.key) for axis in axes]
    chosen = list(_one_at_a_time(axes) if each else _combinations(axes))
    variants = tuple(_variant(choice, begins[0], configs, overrides) for choice in chosen)
    reasons = [variant.reason for variant in variants if variant.config is None]
    if len(reasons) == len(variants):
        raise ConfigError(f"compare: nothing can be compared: {reasons[0]}")
    return Comparison(
        name=name or Path(begins[0]).stem + ("-and-others" if len(begins) > 1 else ""),
        variants=variants,
        seeds=tuple(seeds) or (configs[begins[0]].train.seed,),
        asked=asked,
    )


_Choice = tuple[tuple[_Axis, str], ...]


def _combinations(axes: Sequence[_Axis]) -> Iterator[_Choice]:
    for values in product(*(axis.values for axis in axes)):
        yield tuple(zip(axes, values, strict=True))


def _one_at_a_time(axes: Sequence[_Axis]) -> Iterator[_Choice]:
    recipes, rest = [a for a in axes if a.key == "recipe"], [a for a in axes if a.key != "recipe"]
    for start in _combinations(recipes):
        yield start
        for axis in rest:
            yield from ((*start, (axis, value)) for value in axis.values)


def _variant(choice: _Choice, base: str, configs: dict[str, RunConfig], overrides: Sequence[str]) -> Variant:
    # show a recipe file by its stem
    shown = [(axis, Path(value).stem if axis.key == "recipe" else value) for axis, value in choice]
    texts = [f"{axis.label} {value}" if axis.named else value for axis, value in shown]
    name = ", ".join(texts) or Path(base).stem
    changes = tuple((axis.label, value) for axis, value in choice)
    picked = {axis.key: value for axis, value in choice}
    recipe = picked.pop("recipe", base)
    config = configs[recipe]
    try:
        model = picked.pop("model", config.model)
        if model != config.model:
            config = _with_model(config, model, recipe, overrides)
        for key in picked:
            _require_setting(config, key)
        config = override(config, [f"{key}={value}" for key, value in picked.items()])
    except ConfigError as error:
        return Variant(name, changes, None, str(error).removeprefix("--set: "), recipe)
    return Variant(name, changes, config, recipe=recipe)


def _require_setting(config: RunConfig, key: str) -> None:
    """Name the model in the error; `override` would suggest the nearest key."""
    known = {f"model.{name}" for name in fields.keys(_config_class(config.model))}
    if key.startswith("model.") and key not in known and not new_key(key, known):
        raise ConfigError(f"the model {config.model} has no setting {key}.")


def _config_class(model: str) -> type:
    kind: type = catalog.find(model, "model").load().Config
    return kind


def _with_model(config: RunConfig, model: str, recipe: str, overrides: Sequence[str]) -> RunConfig:
    """Switch to another model with the same task and budget.

    Its settings come from its own recipe for this task; if there is none, it keeps the settings that both
    models have.
    """
    own = _recipes_of(config.task, model)
    twin = Path(recipe).stem.replace(config.model, model)
    own = [twin] if twin in own else own
    if len(own) > 1:
        several = ", ".join(own)
        raise ConfigError(
            f"several recipes train {model} on this task ({several}); name them with --recipes."
        )
    keys = fields.keys(_config_class(model))
    if own:
        settings = load_recipe(own[0]).model_settings
    else:
        before = fields.flatten(config.model_settings)
        shared = {name: value for name, value in before.items() if name in keys}
        settings = fields.with_defaults(_config_class(model), shared)
    known = {f"model.{name}" for name in keys}
    mine = [text for text in overrides if text.partition("=")[0].strip() in known]
    return override(replace(config, model=model, model_settings=settings), mine)


def _recipe_of(base: str, models: Sequence[str]) -> str:
    """The recipe for a TASK argument: a recipe itself, or the only recipe of the task with that key."""
    if base.endswith(".toml") or base in recipe_names() or base not in catalog.names("task"):
        return base  # load_recipe reports unknown names
    known = _recipes_of(base, models[0] if models else None)
    if len(known) == 1:
        return known[0]
    found = f"has several recipes: {', '.join(known)}" if known else "has no recipe"
    of = f" for the model {models[0]!r}" if models else ""
    raise ConfigError(f"compare: the task {base!r} {found}{of}; name a recipe, or a file ending in .toml.")


def _recipes_of(task: str, model: str | None) -> list[str]:
    """The packaged recipes for a task, and for a model if given."""
    return [
        name
        for name in recipe_names()
        for tables in [parse(*read_recipe(name))]
        if tables["task"]["name"] == task and model in (None, tables["model"]["name"])
    ]


def _axis(text: str) -> _Axis:
    key, equals, values = text.partition("=")
    table, dot, name = key.strip().partition(".")
    if not (equals and dot and table and name and values.strip()):
        raise ConfigError(
            f"compare: --vary has {text!r}; expected table.key=value,value, e.g. model.dropout=0.0,0.1."
        )
    return _Axis(name.rpartition(".")[2], f"{table}.{name}", split_values(values), True)


def split_values(text: str) -> tuple[str, ...]:
    """Split at commas, except inside brackets or quotes."""
    values = re.findall(r'(?:\[[^\]]*\]|"[^"]*"|[^,\[\]"])+', text)
    return tuple(stripped for value in values if (stripped := value.strip()))


def _check_keys(axes: Sequence[_Axis]) -> None:
    """Raise ConfigError for unknown catalogue keys: they are typos, not impossible combinations."""
    kinds: dict[str, catalog.Kind] = {
        "model": "model",
        "model.attention.score": "score",
        "model.attention.window": "window",
        "model.attention.normalizer": "normalizer",
    }
    for axis in axes:
        if kind := kinds.get(axis.key):
            for value in axis.values:
                catalog.find(value, kind)
    keys = [axis.key for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"compare: {key} is varied twice; expected each setting once.")
        if key == "train.seed":
            raise ConfigError("compare: --vary has 'train.seed'; seeds are given with --seeds.")


# Running ------------------------------------------------------------------------------------------------


def run(
    comparison: Comparison,
    folder: Path,
    *,
    console: Console,
    workers: int = 1,
    threads: int = 1,
    deadline: float | None = None,
) -> list[Outcome]:
    """Train and measure what is not measured yet, `workers` at a time with `threads` each.

    `deadline` is in seconds from now: shortly before it, running trainings save and stop. Ctrl-C does the
    same. Under a launcher all processes call this and train the variants together, one after another.
    Outcomes are ordered by variant, then by seed.
    """
    _require_one_at_a_time(workers, deadline)
    started = time.monotonic()
    until = None if deadline is None else started + max(deadline - RESERVE, deadline / 2)
    jobs = _jobs(comparison, folder, workers)
    waiting: dict[MeasuredJob, RunConfig] = {}
    configs = {variant.name: variant.config for variant in comparison.variants if variant.config is not None}
    for (name, seed), job in jobs.items():
        config = replace(configs[name], train=replace(configs[name].train, seed=seed))
        if (job.run / "config.toml").exists():  # it must resume with its original settings, budget included
            RunFolder(job.run).require_same(config, may_change=UNLEARNT)
        if read_measured(job.run, job.asked) is None:
            waiting[job] = config
    _require_processes(jobs.values(), count_launched())
    if is_main_process():
        for job, config in waiting.items():
            (job.run / IMPOSSIBLE).unlink(missing_ok=True)  # newer code may be able to build it
            Path(job.recipe).parent.mkdir(parents=True, exist_ok=True)
            config.write(Path(job.recipe))
    failures: dict[Job, str] = {}
    if waiting and count_launched() > 1:
        run_launched(waiting, threads=threads, failed=failures.__setitem__)
    elif waiting:
        run_jobs(
            list(waiting),
            workers=workers,
            threads=threads,
            console=console,
            until=until,
            patience=PATIENCE if until is None else RESERVE / 2,
            failed=failures.__setitem__,
        )
    return list(_outcomes(comparison, jobs, failures))


def read(comparison: Comparison, folder: Path) -> list[Outcome]:
    """The outcomes that a folder holds, without training anything."""
    if not (folder / "runs").is_dir():
        raise DataError(f"{folder}: not a comparison: the folder runs is missing.")
    return list(_outcomes(comparison, _jobs(comparison, folder, 1), {}))


_Jobs = dict[tuple[str, int], MeasuredJob]  # by variant name and seed


def _jobs(comparison: Comparison, folder: Path, workers: int) -> _Jobs:
    """A job for each seed and each variant with a config, seed by seed, so that a table fills evenly."""
    return {
        (variant.name, seed): MeasuredJob(
            name=f"{variant.name}, seed {seed}",
            recipe=str(folder / "configs" / f"{variant.slug}-seed{seed}.toml"),
            run=folder / "runs" / f"{variant.slug}-seed{seed}",
            steps=variant.config.train.steps,
            asked=comparison.asked,
            side_by_side=workers,
            twins=tuple(folder / "runs" / f"{variant.slug}-seed{other}" for other in comparison.seeds),
        )
        for seed in comparison.seeds
        for variant in comparison.variants
        if variant.config is not None
    }


def _require_one_at_a_time(workers: int, deadline: float | None) -> None:
    """Refuse options that need one process per training when a launcher started this process."""
    if count_launched() == 1:
        return
    if workers > 1:
        raise ConfigError(
            f"compare: --jobs has {workers} in {count_launched()} processes of a launcher, which train one "
            "variant after the other, together; expected 1. Without a launcher, --jobs trains side by side."
        )
    if deadline is not None:
        raise ConfigError(
            f"compare: --deadline has {deadline:g} in {count_launched()} processes of a launcher; expected "
            "none. Stop the launcher, for instance with `timeout --signal=TERM`: what is trained is kept."
        )


def _require_processes(jobs: Collection[MeasuredJob], processes: int) -> None:
    """Refuse to continue with another number of processes: it would change the batch size."""
    if all(read_training(job.run) or job.impossible() for job in jobs):
        return
    for job in jobs:
        were = trained_by(job.run)
        if were not in (None, processes):
            raise ConfigError(
                f"{job.run}: the training has `processes` {were}; expected {processes}, as this comparison "
                "is launched: processes add up to one batch. Launch as before, or use another folder."
            )


def _outcomes(comparison: Comparison, jobs: _Jobs, failures: dict[Job, str]) -> Iterator[Outcome]:
    for variant in comparison.variants:
        for seed in comparison.seeds:
            job = jobs.get((variant.name, seed))
            if job is None:
                yield Outcome(variant.name, seed, "impossible", variant.reason)
            else:
                yield _outcome(variant.name, seed, job, failures)


def _outcome(variant: str, seed: int, job: MeasuredJob, failures: dict[Job, str]) -> Outcome:
    training, measured = read_training(job.run), read_measured(job.run, job.asked)
    reason = job.impossible()
    if measured is not None:
        return Outcome(variant, seed, "finished", "", training, measured)
    if job in failures:
        return Outcome(variant, seed, "failed", failures[job], training)
    if reason is not None:
        return Outcome(variant, seed, "impossible", reason)
    now = standing(job)
    step = RunFolder(job.run).last_step() or (now.step if now else 0)
    if training is not None:
        reason = "trained, not evaluated"
    else:
        reason = f"stopped at step {step} of {job.steps}" if step else "not begun"
    return Outcome(variant, seed, "unfinished", reason, training)
