"""Draw what benchmarks/any_model.py recorded, time and peak memory by length: docs/pictures/any-model.png.

python benchmarks/any_model_picture.py
"""

from typing import Any

from common import PICTURES, RESULTS

from regard.evaluate.results import read_results
from regard.viz import style
from regard.viz.axes import Axes, log_ticks
from regard.viz.sheet import MARKERS, Box, Sheet

PICTURE = PICTURES / "any-model.png"
RUNS = {  # name in the records -> name in the picture
    "sdpa": "sdpa",
    "record": "sdpa + record",
    "one layer": "sdpa + record + one layer's weights",
    "eager": "eager, output_attentions",
}
PANELS = {"ms": ("milliseconds", (1, 2, 5)), "MiB": ("peak memory, MiB", (1,))}  # title; ticks of a decade


def measured(shape: str = "encoder", device: str = "cuda") -> list[dict[str, Any]]:
    """The details of each length's record, shortest first."""
    wanted = f"any-model-{shape}-"
    found = [r for r in read_results(RESULTS) if r.recipe.startswith(wanted)]
    chosen = (r.details for r in found if (r.details["device"], r.details["batch"]) == (device, 4))
    return sorted(chosen, key=lambda of: of["T"])


def draw_panel(sheet: Sheet, box: Box, found: list[dict[str, Any]], unit: str) -> None:
    """A line for each way to run, over the number of tokens; both axes are logarithmic."""
    lengths = [of["T"] for of in found]
    values = [value for of in found for run, value in of[unit].items() if run in RUNS]
    title, multiples = PANELS[unit]
    axes = Axes(sheet, box, (lengths[0], lengths[-1]), (min(values) / 1.2, max(values) * 1.2), (True, True))
    marks = log_ticks(axes.up, multiples)
    axes.lines(y=marks)
    axes.lines(y=axes.up[:1], edge=style.RULE)
    axes.name_y({mark: f"{mark:,.0f}" for mark in marks}, size=8)
    axes.name_x({T: f"{T:,}" for T in lengths}, "tokens", size=8, tick=3)
    sheet.write(box[0], box[1] - 0.12, title, size=9)
    for i, run in enumerate(RUNS):
        points = [axes.at(of["T"], of[unit][run]) for of in found if run in of[unit]]
        sheet.draw([points], edge=style.LINES[i], line=1.4, cap="round")
        for point in points:
            sheet.dot(point, 4, style.LINES[i], edge=style.LINES[i], line=0.5, marker=list(MARKERS)[i])


def main() -> None:
    """Draw the encoder on the GPU."""
    found, sheet = measured(), Sheet(7.6, 2.75)
    for x, unit in ((0.55, "ms"), (4.35, "MiB")):
        draw_panel(sheet, (x, 0.4, 2.95, 1.6), found, unit)
    x = 0.55
    for i, name in enumerate(RUNS.values()):
        sheet.draw([[(x, 2.6), (x + 0.25, 2.6)]], edge=style.LINES[i], line=1.4)
        sheet.dot((x + 0.125, 2.6), 4, style.LINES[i], edge=style.LINES[i], line=0.5, marker=list(MARKERS)[i])
        sheet.write(x + 0.32, 2.6, name, size=7.5, middle=True)
        x += 0.32 + style.width([name], 7.5) + 0.25
    sheet.save("any_model_picture", PICTURE)


if __name__ == "__main__":
    main()
