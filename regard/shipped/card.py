"""A model card in Markdown, made from a packed model's record; its head is the one that the Hub reads."""

from pathlib import Path
from typing import Any

from regard import catalog

# how the Hub names a licence, by how the record's begins
LICENCES = {"Apache-2.0": "apache-2.0", "MIT": "mit", "CC-BY 2.0": "cc-by-2.0"}
CALLS = {
    "TranslationTask": 'model.translate("She is eating a green apple.")',
    "PointingTask": "model.point(points)  # (n, 2) coordinates; numbers for `sort`",
    "BitTask": "model.example(20).show()",
    "QuestionTask": 'model.ask("Anna took the lamp. Anna went to the garden.", "Where is the lamp?")',
    "CaptionTask": 'model.caption("picture.png").show()',
    "SentenceTask": 'model.score("She is eating an apple.")',
    "FewShotTask": "model.classify(drawings, labels, query)",
    "PictureTask": "model.sample(8).show()",
    "EntailmentTask": 'model.entails("w36 w40 w11 w9", "w40 w9")',
}


def write_card(path: Path, record: dict[str, Any]) -> None:
    """Write the card."""
    path.write_text(render_card(record), encoding="utf-8")


def render_card(record: dict[str, Any]) -> str:
    """The card as text."""
    model = catalog.find(record["model"], "model")
    numbers = "\n".join(f"| {name} | {value} |" for name, value in _plain_numbers(record["numbers"]))
    settings = "".join(f" --set {setting}" for setting in record["settings"])
    seconds = record["training_seconds"]
    return f"""---
library_name: regard
license: {hub_licence(record["licence"])}
tags: [attention, {record["model"]}, {record["task"]}]
---

# {record["name"]}

{record["sentence"]} {model.title} ({model.authors}, {model.year}).

```python
import regard

model = regard.load("{record["name"]}")
{call(record["task"])}
```

- **Figure**: {record["metric"]} {record["value"]} (test split); {record["before_packing"]} before packing.
- **Data**: {record["data"]}. Licence: {record["licence"]}.
- **Recipe**: `regard train {record["recipe"]}{settings}`, {record["step"]} steps.
- **Size**: {record["parameters"]:,} parameters, stored as {record["encoding"]}.
- **Limits**: {record["limits"]}
- **Trained**: {"" if seconds is None else f"{seconds:.0f} seconds, "}{record["machine"]}, {record["date"]}.

| number | value |
|---|---|
{numbers}
"""


def call(task: str) -> str:
    """The line of Python that uses a model of this task."""
    kinds = catalog.find(task, "task").load().__mro__
    return next((CALLS[kind.__name__] for kind in kinds if kind.__name__ in CALLS), "model.run")


def hub_licence(licence: str) -> str:
    """A licence as the Hub names it."""
    return next((name for start, name in LICENCES.items() if licence.startswith(start)), "other")


def _plain_numbers(numbers: dict[str, Any], before: str = "") -> list[tuple[str, object]]:
    """Every number of the evaluation with its path; lists of examples are left out."""
    found: list[tuple[str, object]] = []
    for name, value in numbers.items():
        if isinstance(value, dict):
            found += _plain_numbers(value, f"{before}{name}, ")
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            found.append((f"{before}{name}".replace("_", " "), value))
    return found
