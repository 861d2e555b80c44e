"""regard pack: packs a trained run into one small folder."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import check_device, say, waiting
from regard.cli.options import DeviceOption, RunArgument


def command(
    run: RunArgument,
    out: Annotated[
        Path, typer.Argument(metavar="OUT", help="Folder to write; its name becomes the model's name.")
    ],
    data: Annotated[
        str, typer.Option(metavar="TEXT", help="What the model was trained on, for its card.")
    ] = "",
    licence: Annotated[str, typer.Option(metavar="TEXT", help="The licence of that data.")] = "",
    note: Annotated[str, typer.Option(metavar="TEXT", help="What else its card should say.")] = "",
    tolerance: Annotated[
        float | None, typer.Option(min=0.0, help="How far the validation figure may drop for a smaller file.")
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Pack a run into one small folder, with a card and its figures.

    regard pack runs/rnnsearch-en-fr my-translator --data "my own text" --licence CC0
    regard translate my-translator "She is eating a green apple."

    Weights are stored as int8 with a scale for each row, int8 or int10 with a scale for each 32 numbers,
    bfloat16 or float32: the first whose validation figure drops by no more than --tolerance (default 0.002;
    the models of `regard models` have their own). Every command reads the folder like a run folder; so does
    the Hub.
    """
    from dataclasses import replace

    from regard.errors import ConfigError
    from regard.shipped.find import RECORD, find_run
    from regard.shipped.pack import pack, row_of
    from regard.shipped.table import row

    check_device(device)
    if out.exists() and not (out / RECORD).is_file():
        raise ConfigError(
            f"pack: `OUT` has {out}, which exists and is not a packed run; expected a new name."
        )
    folder = find_run(run)
    if folder.resolve() == out.resolve():
        raise ConfigError(f"pack: `OUT` has {out}, the run itself; expected another folder.")
    chosen = row(out.name) or row_of(out.name, folder)
    chosen = replace(
        chosen,
        data=data or chosen.data,
        licence=licence or chosen.licence,
        tolerance=chosen.tolerance if tolerance is None else tolerance,
    )
    with waiting("measuring"):
        record = pack(folder, out, chosen, device=device, note=note)
    size = sum(path.stat().st_size for path in out.rglob("*") if path.is_file()) / 1e6
    say(f"packed: {out}, {size:.2f} MB in {record['encoding']}")
    say(f"{record['metric']} {record['value']:g}, {record['before_packing']:g} before")
