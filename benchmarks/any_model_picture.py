"""Draw what benchmarks/any_model.py recorded, time and peak memory by length: docs/pictures/any-model.png.

python benchmarks/any_model_picture.py
"""

from typing import Any

from common import PICTURES, RESULTS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from regard.evaluate.results import read_results
from regard.viz import style
from regard.viz.files import save

PICTURE = PICTURES / "any-model.png"
RUNS = {  # in the records, in the picture
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


def draw_panel(axes: Axes, found: list[dict[str, Any]], unit: str) -> None:
    """A line for each way to run, over the number of tokens; both axes are logarithmic."""
    for i, (run, name) in enumerate(RUNS.items()):
        values = [(of["T"], of[unit][run]) for of in found if run in of[unit]]
        look: dict[str, Any] = {"color": style.LINES[i], "marker": style.MARKERS[i], "label": name}
        axes.plot(*zip(*values, strict=True), markersize=3.5, linewidth=1.4, **look)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    title, ticks = PANELS[unit]
    lengths = [of["T"] for of in found]
    axes.set_xticks(lengths, [f"{T:,}" for T in lengths])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=ticks))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=style.GRID)
    axes.set_xlabel("tokens")
    axes.set_title(title, fontsize=9, loc="left")


def main() -> None:
    """Draw the encoder on the GPU."""
    found = measured()
    with style.look():
        figure = Figure(figsize=(7.2, 2.5), layout="constrained")
        left, right = figure.subplots(1, 2)
        for axes, unit in ((left, "ms"), (right, "MiB")):
            draw_panel(axes, found, unit)
        lines, names = left.get_legend_handles_labels()
        figure.legend(lines, names, loc="outside lower center", ncols=4, frameon=False, fontsize=7.5)
        save(figure, PICTURE)


if __name__ == "__main__":
    main()
