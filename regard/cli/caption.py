"""regard caption: describes your own pictures, and draws where the model looks."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from regard.cli.common import PICTURES, complain, open_task, require_ending, say
from regard.cli.options import BeamOption, DeviceOption, RunArgument
from regard.errors import ConfigError, DataError

AT_ONCE = 32  # pictures in a batch
SHOWN = 384  # longest side of a drawn picture in pixels, unless the model sees more


def command(
    run: RunArgument,
    files: Annotated[
        list[Path], typer.Argument(metavar="PHOTO…", help="Pictures, or folders of them.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw the attention: a .png or .svg file; for several pictures a folder, one file each.",
        ),
    ] = None,
    form: Annotated[
        Literal["text", "json"],
        typer.Option("--form", help="Captions only, or with attention."),
    ] = "text",
    beam: BeamOption = None,
    device: DeviceOption = None,
) -> None:
    """Describe pictures, and draw where the model looked for each word.

    regard caption runs/sat-flickr8k photo.jpg --out caption.png
    regard caption runs/sat-flickr8k holiday/ --out captions/

    The model sees the square in the middle of a picture. A file that cannot be read is named on standard
    error, and the exit status is then 2.
    """
    from regard.data.images import Pixels, images_in, open_image, square
    from regard.tasks.captions import CaptionTask
    from regard.views.captions import captions, draw, said, weights_of, words_of

    paths = images_in(files)
    if not paths:
        raise DataError(f"{files[0]}: has no picture; expected .jpg, .png or the like.")
    single = len(paths) == 1 and not files[0].is_dir()
    _check_target(out, single=single)
    opened, task = open_task(run, CaptionTask, "a caption task: shapes or flickr8k", device=device)
    files_to_draw = {} if out is None else _drawn_files(paths, out, single=single)
    bad = 0
    for start in range(0, len(paths), AT_ONCE):
        pictures: list[tuple[Path, Pixels, Pixels]] = []  # as the model sees it, and as drawn
        for path in paths[start : start + AT_ONCE]:
            try:
                whole = open_image(path)
            except (DataError, OSError) as error:
                bad += 1
                complain(_sentence(path, error))
                continue
            fine = max(task.side, min(SHOWN, *whole.shape[:2]))
            # copies: a square of the right size is a view, which would keep the whole picture
            pictures.append((path, square(whole, task.side).clone(), square(whole, fine).clone()))
        if not pictures:
            continue
        found = captions(opened, [seen for _, seen, _ in pictures], beam=beam)
        for (path, _, picture), caption in zip(pictures, found, strict=True):
            text = said(task, caption)
            if path in files_to_draw and caption.tokens:
                file = files_to_draw[path]
                draw(task, picture, caption, file)
                say(f"drawn: {file}")
            elif path in files_to_draw:
                say(f"{path}: no word was written; nothing is drawn")
            if form == "json":
                line = {
                    "file": str(path),
                    "caption": text,
                    "log_probability": round(caption.log_probability, 4),
                    "finished": caption.finished,
                    "words": words_of(task, caption),
                    "attention": weights_of(task, caption),  # a row per word, each a row-major grid
                }
                typer.echo(json.dumps(line, ensure_ascii=False))
            else:
                typer.echo(text if single else f"{path}\t{text}")
    if bad:
        raise typer.Exit(2)


def _check_target(out: Path | None, *, single: bool) -> None:
    """Several pictures need a folder. Checked before any work is done."""
    if single:
        require_ending("caption", out)
    elif out is not None and (out.suffix.lower() in PICTURES or out.is_file()):
        raise ConfigError(f"caption: `--out` has a file, {out}; expected a folder for several pictures.")


def _drawn_files(paths: Sequence[Path], target: Path, *, single: bool) -> dict[Path, Path]:
    """The file for each picture; pictures with equal names do not overwrite each other."""
    if single:
        return {paths[0]: target}
    files: dict[Path, Path] = {}
    taken: set[str] = set()
    for path in paths:
        name, number = path.name, 2
        while name.casefold() in taken:
            name, number = f"{path.stem}-{number}{path.suffix}", number + 1
        taken.add(name.casefold())
        files.setdefault(path, target / f"{name}.png")
    return files


def _sentence(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{path}: {(error.strerror or str(error)).lower()}."
    return str(error)
