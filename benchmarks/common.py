"""What all benchmarks share: paths, the command line, records, captions of pictures."""

import argparse
from pathlib import Path
from typing import Any

from regard.bench.records import measured
from regard.evaluate.results import write_result

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
PICTURES = ROOT / "docs" / "pictures"


def arguments(description: str | None) -> argparse.ArgumentParser:
    """A parser whose help is the docstring of the benchmark."""
    return argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )


def keep(recipe: str, metric: str, value: float, *, folder: Path = RESULTS, **facts: Any) -> Path:
    """Write the record of one number, with the facts that `measured` takes; return its file."""
    return write_result(folder, measured(recipe, metric, value, **facts))


def caption(name: str, text: str) -> None:
    """Write the sentence under a picture."""
    (PICTURES / f"{name}.txt").write_text(text + "\n", encoding="utf-8")
