"""regard compare: trains variants under one budget and compares the results in one table."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common import messages, numbers, print_rows, say, train_on, words
from regard.cli.options import BeamOption, DeviceOption, SplitOption
from regard.cli.text import RECURRENT, Text, chosen_steps, text_settings
from regard.data.folders import VARIABLE
from regard.errors import ConfigError, DataError
from regard.train.launcher import count_launched, is_main_process

if TYPE_CHECKING:
    from regard.compare.comparison import Comparison

Listed = str | None


def _list_of(name: str, what: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(name, metavar="A,B,…", help=what)
    return option


def command(
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="[TASK]", help="The base: a recipe, a .toml file, or a task that has one recipe."
        ),
    ] = None,
    scores: Annotated[Listed, _list_of("--scores", "Scores to compare; see `regard list score`.")] = None,
    windows: Annotated[Listed, _list_of("--windows", "Windows to compare.")] = None,
    normalizers: Annotated[Listed, _list_of("--normalizers", "Normalizers to compare.")] = None,
    models: Annotated[Listed, _list_of("--models", "Models to compare on the task.")] = None,
    recipes: Annotated[Listed, _list_of("--recipes", "Whole recipes to compare, instead of TASK.")] = None,
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="A.B=C,D,…", help="Values to compare for a setting; may be repeated."),
    ] = None,
    each: Annotated[
        bool, typer.Option("--each", help="Change one setting at a time instead of trying every combination.")
    ] = False,
    seeds: Annotated[
        Listed, typer.Option(metavar="1,2,…", help="Train each variant with these seeds.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Updates for every variant.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="A.B=C", help="Override a setting of all variants; may be repeated."),
    ] = None,
    split: SplitOption = "test",
    beam: BeamOption = None,
    on: Annotated[
        str | None,
        typer.Option(metavar="CORPUS", help="Measure translators on another corpus, such as hansards."),
    ] = None,
    *,
    text: Text,
    jobs: Annotated[int, typer.Option(min=1, help="Trainings that run at the same time.")] = 1,
    device: DeviceOption = None,
    threads: Annotated[int, typer.Option(min=1, max=1024, help="CPU threads for each training.")] = 1,
    deadline: Annotated[
        float | None,
        typer.Option(
            min=1, metavar="SECONDS", help="Stop after this long with what there is; run again to continue."
        ),
    ] = None,
    only_read: Annotated[
        bool, typer.Option("--read", help="Train nothing; write tables and records from finished trainings.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for the comparison; default: comparisons/NAME.")
    ] = None,
    record: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also record the means in this folder, as JSON.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table as JSON.")] = False,
) -> None:
    """Train variants under one budget; write one table, plots and a report.

    regard compare rnnsearch-reverse --scores general,additive --windows global,local-predictive --seeds 1,2,3
    regard compare --recipes rnnsearch-en-fr,seq2seq-en-fr --jobs 2
    regard compare rnnsearch-en-fr --vary model.dropout=0.0,0.1,0.2 --steps 600
    regard compare --source train.en --target train.de --scores additive,general,coverage

    Run the same command again to continue a comparison that was stopped. A combination that cannot be built
    is in the table with the reason. Under a launcher (torchrun, accelerate) all processes train each variant
    together.
    """
    from regard.compare.comparison import plan, read, run
    from regard.compare.report import rows, write
    from regard.compare.table import read_table
    from regard.compare.table import record as write_records
    from regard.compare.trial import Asked

    text.check("compare")
    train_on(device)
    _name_folder(text.data)
    text = replace(text, data="")
    alone = text.given and not recipes and task is None  # text, but no recipe
    comparison = plan(
        RECURRENT if alone else task,
        recipes=words(recipes),
        models=words(models),
        scores=words(scores),
        windows=words(windows),
        normalizers=words(normalizers),
        vary=vary or (),
        each=each,
        overrides=[
            *(chosen_steps(text) if alone else []),
            *(settings or []),
            *([f"train.steps={steps}"] if steps else []),
        ],
        seeds=numbers("compare: --seeds", seeds, "1,2,3"),
        asked=Asked(split, beam, on),
        name=out.name if out is not None else text.name if text.given else None,
        tables=(lambda recipe: {"task": text_settings(recipe) | text.table()}) if text.given else None,
    )
    folder = out or Path("comparisons") / comparison.name
    if only_read:
        outcomes = read(comparison, folder)
    else:
        say(_announce(comparison, folder, jobs, threads))
        try:
            outcomes = run(
                comparison, folder, console=messages, workers=jobs, threads=threads, deadline=deadline
            )
        except KeyboardInterrupt as error:
            raise KeyboardInterrupt("interrupted; run the same command to continue.") from error
    if not is_main_process():
        return
    page = folder if on is None else folder / on  # runs are shared, tables are not
    if on is not None:
        comparison = replace(comparison, name=f"{comparison.name}-{on}")
    written = write(comparison, outcomes, page, runs=folder / "runs")
    found = read_table(page)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
    else:
        header, body = rows(found)
        print_rows(header, body, numeric=[n for n in header[1:] if n != "not finished"], header=True)
    if record is not None:
        written += write_records(found, record)
    say(f"written: {', '.join(str(path) for path in written)}")
    if outcomes and all(outcome.state == "failed" for outcome in outcomes):
        raise DataError(f"compare: every training failed; the first: {outcomes[0].reason}")
    missing = sum(outcome.state == "unfinished" for outcome in outcomes)
    if missing:
        say(f"{missing} of {len(outcomes)} trainings are not finished; run the same command to continue.")


def _name_folder(data: str) -> None:
    """Make all trainings of the comparison, and `--on`, look for corpora in this folder."""
    if data and not Path(data).is_dir():
        raise ConfigError(f"compare: `--data` has {data}, which is not a folder; expected one with corpora.")
    if data:
        os.environ[VARIABLE] = str(Path(data).resolve())


def _announce(comparison: "Comparison", folder: Path, jobs: int, threads: int) -> str:
    count = len(comparison.variants) * len(comparison.seeds)
    possible = [variant.config for variant in comparison.variants if variant.config is not None]
    steps = sorted({config.train.steps for config in possible})
    budget = f"{steps[0]} updates" if len(steps) == 1 else f"{steps[0]} to {steps[-1]} updates"
    cores = os.cpu_count() or 1
    crowded = f"; {jobs * threads} threads share {cores} cores" if jobs * threads > cores else ""
    how = f"{jobs} at a time{crowded}" if count_launched() == 1 else f"each in {count_launched()} processes"
    return f"comparing in {folder}: {count} trainings of {budget}, {how}"
