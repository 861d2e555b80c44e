"""regard dictionary: a dictionary of single words, from the attention of a trained model."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import open_run, say, waiting
from regard.cli.options import DeviceOption, RunArgument
from regard.errors import ConfigError, DataError


def command(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Default: dictionary.tsv in the run folder.")
    ] = None,
    minimum: Annotated[int, typer.Option(min=1, help="How often a translation must have been seen.")] = 2,
    device: DeviceOption = None,
) -> None:
    """Learn a dictionary from the alignments of a run, for unknown words.

    regard dictionary runs/luong-global-dot
    regard translate runs/luong-global-dot "Where is Boston?" --unknown dictionary
    """
    from regard.decode.unknown import NAME, learn_dictionary, write_dictionary
    from regard.export.base import translatable
    from regard.shipped.find import find_run, is_shipped

    run = find_run(run)
    if out is None and is_shipped(run):
        raise ConfigError(f"dictionary: {run.name} ships with the package; expected `--out FILE`.")
    opened = translatable(open_run(run, device=device))
    if opened.model.aligner is None:
        raise DataError(
            f"{run}: model is {opened.run.config.model!r}, which has no attention; "
            "expected one with attention."
        )
    with waiting("aligning", len(opened.task.lengths("train"))) as progress:
        found = learn_dictionary(
            opened.model,
            opened.task,
            minimum=minimum,
            credit=opened.run.config.decode.credit,
            progress=progress,
        )
    path = run / NAME if out is None else out
    write_dictionary(path, found)
    say(f"{len(found)} words: {path}")
