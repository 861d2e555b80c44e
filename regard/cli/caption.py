"""regard caption: what a model says of your own pictures, and where it looks."""

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.common import RunArgument, complain, messages
from regard.errors import ConfigError, DataError

AT_ONCE = 32  # pictures described together


def command(
    run: RunArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="PHOTO…", help="Pictures, or folders of them.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Draw the attention: a .png or .svg file; for several pictures a folder, one file each.",
        ),
    ] = None,
    form: Annotated[
        Literal["text", "json"], typer.Option("--form", help="Captions alone, or everything.")
    ] = "text",
    beam: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses kept; default as in the recipe.")
    ] = None,
) -> None:
    """Describe pictures, and draw where the model looked at each word.

    regard caption runs/sat-flickr8k photo.jpg --out caption.png
    regard caption runs/sat-flickr8k holiday/ --out captions/

    The square in the middle of a picture is described. A file that cannot be read is named on standard error
    and the others go on; the exit status is then 2.
    """
    from regard.cli.views.captions import captions, draw, said
    from regard.data.images import Pixels, images_in, read_image
    from regard.tasks.captions import CaptionTask
    from regard.train.run import open_run

    paths = images_in(files)
    if not paths:
        raise DataError(f"{files[0]}: has no picture; expected .jpg, .png and the like.")
    single = len(paths) == 1 and not files[0].is_dir()
    target = _target(out, single=single)
    opened = open_run(run)
    task = opened.task
    if not isinstance(task, CaptionTask):
        raise DataError(f"{run}: task is {opened.config.task!r}; expected one of captions: shapes, flickr8k.")
    bad = 0
    for start in range(0, len(paths), AT_ONCE):
        pictures: list[tuple[Path, Pixels]] = []
        for path in paths[start : start + AT_ONCE]:
            try:
                pictures.append((path, read_image(path, side=task.side)))
            except (DataError, OSError) as error:
                bad += 1
                complain(_sentence(path, error))
        if not pictures:
            continue
        found = captions(opened, [picture for _, picture in pictures], beam=beam)
        for (path, picture), caption in zip(pictures, found, strict=True):
            text = said(task, caption)
            if target is not None and caption.tokens:
                file = target if single else target / f"{path.name}.png"
                draw(task, picture, caption, file)
                messages.print(f"drawn: {file}")
            if form == "json":
                line = {
                    "file": str(path),
                    "caption": text,
                    "log_probability": round(caption.log_probability, 4),
                    "finished": caption.finished,
                }
                typer.echo(json.dumps(line, ensure_ascii=False))
            else:
                typer.echo(text if single else f"{path}\t{text}")
    if bad:
        raise typer.Exit(2)


def _target(out: Path | None, *, single: bool) -> Path | None:
    """Where to draw; several pictures need a folder. Asked before any work is done."""
    if out is None:
        return None
    if single:
        if out.suffix.lower() not in (".png", ".svg"):
            raise ConfigError(f"caption: `--out` has the ending {out.suffix!r}; expected .png or .svg.")
    elif out.suffix.lower() in (".png", ".svg") or out.is_file():
        raise ConfigError(f"caption: `--out` has a file, {out}; expected a folder for several pictures.")
    return out


def _sentence(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{path}: {(error.strerror or str(error)).lower()}."
    return str(error)
