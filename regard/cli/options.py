"""Arguments and options shared by several commands."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.decode.base import WIDEST

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run folder, a name from `regard models`, or a Hub id.")
]

BeamOption = Annotated[
    int | None,
    typer.Option("--beam", min=1, max=WIDEST, help="Beam width; default: the recipe's."),
]

DeviceOption = Annotated[
    Literal["cpu", "cuda", "mps"] | None,
    typer.Option("--device", help="Device; default: an accelerator if there is one."),
]

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]

SplitOption = Annotated[
    Literal["train", "valid", "test"], typer.Option("--split", help="Split to measure on.")
]

SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="A.B=C", help="Override a setting; may be repeated.")
]

UnknownOption = Annotated[
    str,
    typer.Option(
        "--unknown",
        metavar="copy|dictionary|keep|FILE",
        help="How to write unknown words: copy the source word, look it up in the run's dictionary "
        "(`regard dictionary RUN`) or in a two-column file, or keep <unk>.",
    ),
]
