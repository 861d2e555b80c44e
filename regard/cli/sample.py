"""regard sample: a sheet of pictures that a model draws, a row for each class."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import open_task, require_ending, say, words
from regard.cli.options import DeviceOption, RunArgument


def command(
    run: RunArgument,
    out: Annotated[Path, typer.Option(metavar="FILE", help="A .png file.")] = Path("samples.png"),
    classes: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Classes by name; default: all.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="Pictures for each class.")] = 10,
    scale: Annotated[int, typer.Option(min=1, max=32, help="Enlargement: screen pixels for each pixel.")] = 2,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of the noise.")] = 1,
    device: DeviceOption = None,
) -> None:
    """Generate pictures with a GAN and write them as one sheet, a row for each class.

    regard sample runs/sagan-cifar10 --classes bird,ship --count 16 --out birds-and-ships.png
    """
    from regard.data.images import to_image
    from regard.systems.picture_system import PictureSystem
    from regard.tasks.pictures import PictureTask
    from regard.views.pictures import class_number

    require_ending("sample", out, (".png",))
    opened, task = open_task(run, PictureTask, "a task of generating pictures", device=device)
    names = words(classes) or tuple(task.classes)
    for name in names:
        class_number(task, name, owner="sample: `--classes`")
    each = [name for name in names for _ in range(count)]
    pictures = PictureSystem(opened).sample(len(each), classes=each, seed=seed).pictures
    sheet = pictures.view(len(names), count, task.side, task.side, 3).transpose(1, 2)
    pixels = sheet.reshape(len(names) * task.side, count * task.side, 3)
    pixels = pixels.repeat_interleave(scale, 0).repeat_interleave(scale, 1)
    out.parent.mkdir(parents=True, exist_ok=True)
    to_image(pixels).save(out)
    say(f"drawn: {out}, {count} of each: {', '.join(names)}")
