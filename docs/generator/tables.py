"""The tables of README and documentation, made from results/*.json.

python docs/generator/tables.py          writes those of README.md and README.zh.md anew
python docs/generator/tables.py --check  fails when one of them is stale
"""

import sys
from collections.abc import Callable
from pathlib import Path

import costs
import experiments
import readme
import records

MAKERS: dict[str, Callable[[Path, str], str]] = {  # of the marker <!-- KIND: NAME --> in a page
    "comparison": experiments.comparison_table,  # NAME is that of the comparison
    "lengths": experiments.lengths_table,
    "bars": experiments.bars_picture,
    "corpus": experiments.corpus_table,  # the end of the recipes' names
    "budget": experiments.budget_table,  # the name of the benchmark's records
    "layers": costs.layers_table,  # the device, cpu or cuda
    "attention": costs.attention_table,
    "growth": costs.growth_table,
    "steps": costs.steps_table,
    "calls": costs.calls_table,
    "choices": costs.choices_table,  # the device, or any
    "any-model": costs.any_model_table,  # encoder or decoder
    "demo": readme.demo_table,  # any name
}


def filled(page: str, folder: Path) -> str:
    """The page with a table from the results in the place of each marker."""
    return records.markers(MAKERS).sub(lambda found: MAKERS[found[1]](folder, found[2]), page)


def main() -> None:
    """Write or check the README in every language."""
    for name, language in readme.LANGUAGES.items():
        path = records.ROOT / name
        old = path.read_text(encoding="utf-8")
        new = readme.renewed(old, records.ROOT / "results", language)
        if "--check" not in sys.argv:
            path.write_text(new, encoding="utf-8")
        elif old != new:
            sys.exit(f"{name}: a table is stale; run python docs/generator/tables.py.")


if __name__ == "__main__":
    main()
