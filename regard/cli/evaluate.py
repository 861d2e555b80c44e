"""regard evaluate: measures a run with the metrics of its task."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import open_run, output, say, table, waiting
from regard.cli.options import BeamOption, DeviceOption, JsonOption, RunArgument, SplitOption, UnknownOption
from regard.errors import DataError
from regard.train.launcher import is_main_process


def command(
    run: RunArgument,
    split: SplitOption = "test",
    beam: BeamOption = None,
    device: DeviceOption = None,
    as_json: JsonOption = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the outputs to a file, one a line.")
    ] = None,
    on: Annotated[
        str | None, typer.Option(metavar="CORPUS", help="Measure on another corpus, such as hansards.")
    ] = None,
    data: Annotated[
        str, typer.Option(metavar="DIR", help="Folder with that corpus; default: REGARD_DATA.")
    ] = "",
    unknown: UnknownOption = "copy",
) -> None:
    """Measure a run by the metrics of its task, such as BLEU.

    regard evaluate runs/rnnsearch-en-fr --beam 5
    regard evaluate runs/rnnsearch-en-fr --split valid --json
    regard evaluate runs/tatoeba-en-fr --on hansards
    regard evaluate demo-rnnsearch
    """
    from regard.decode.unknown import choose_dictionary
    from regard.evaluate.base import evaluate
    from regard.evaluate.divided import processes_together
    from regard.train.run import other_corpus

    with processes_together():
        opened = open_run(run, device=device)
        dictionary = choose_dictionary(opened.folder, unknown)
        how = replace(opened.config.decode.with_beam(beam), dictionary=dictionary)
        task = opened.task if on is None else other_corpus(opened, on, data, owner="evaluate")
        with waiting("evaluating") as progress:
            found = evaluate(opened.model, task, split, decoding=how, progress=progress)
    if not is_main_process():
        return
    if out is not None:
        lines = found.lines()
        if lines is None:
            raise DataError(
                f"evaluate: `--out` has {out}; the task {opened.config.task!r} has no lines to write."
            )
        out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        say(f"written: {out}")
    if as_json:
        typer.echo(json.dumps({"run": str(run), "step": opened.step, **found.summary()}, ensure_ascii=False))
        return
    output.print(f"{run}, step {opened.step}, {split if on is None else f'{on}, {split}'}", soft_wrap=True)
    for columns, rows in [(("measure", "value"), found.measures()), *found.tables()]:
        output.print(table(*columns, rows=rows, numeric=columns[1:]), "")
    if note := found.note():
        output.print(note, style="dim")
