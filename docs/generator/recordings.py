"""What recording any model costs, by benchmarks/any_model.py."""

from pathlib import Path
from typing import Any

from records import markdown, newest, recorded

from regard.evaluate.results import Result, read_results

RECORDINGS = {  # in the records, in the table
    "sdpa": "sdpa",
    "record": "record",
    "one layer": "+ one layer",
    "top 8": "+ top 8",
    "eager": "eager",
}


BATCH = 4  # of the records that are compared; longer texts are measured one at a time


def any_model_records(folder: Path, shape: str, device: str = "cuda") -> list[Result]:
    """What benchmarks/any_model.py recorded, shortest text first."""
    found = [r for r in newest(read_results(folder)) if r.recipe.startswith(f"any-model-{shape}-")]
    return sorted((r for r in found if r.details["device"] == device), key=lambda r: r.details["T"])


def any_model_batches(folder: Path, shape: str) -> list[Result]:
    """Those of them that have one size of batch."""
    return [r for r in any_model_records(folder, shape) if r.details["batch"] == BATCH]


def any_model_table(folder: Path, shape: str) -> str:
    """Milliseconds and memory of every way to run, by length."""

    def cell(of: dict[str, Any], run: str) -> str:
        return f"{of['ms'][run]:,.1f} / {of['MiB'][run]:,.0f}" if run in of["ms"] else "–"

    found = [result.details for result in any_model_records(folder, shape)]
    body = [[_tokens(of), *(cell(of, run) for run in RECORDINGS)] for of in found]
    return recorded(markdown(["tokens", *RECORDINGS.values()], body, sides="r"))


def _tokens(of: dict[str, Any]) -> str:
    return f"{of['T']:,}" if of["batch"] == BATCH else f"{of['T']:,} (batch {of['batch']})"
