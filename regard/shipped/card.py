"""Model cards in Markdown, rendered from a packed model's record; the front matter is for the Hub."""

import json
from collections.abc import Mapping
from typing import Any

from regard import catalog
from regard.hub import citation, head

# the Hub's name of a licence, by how the record's name begins
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


def render_card(record: dict[str, Any]) -> str:
    """The card as Markdown."""
    model = catalog.find(record["model"], "model")
    numbers = "\n".join(f"| {name} | {value} |" for name, value in _plain_numbers(record["numbers"]))
    settings = "".join(f" --set {setting}" for setting in record["settings"])
    seconds = record["training_seconds"]
    tags = ["attention", record["model"], record["task"]]
    note = f"- **Note**: {record['note']}\n" if "note" in record else ""
    facts = f"""\
- **Figure**: {record["metric"]} {record["value"]} (test split); {record["before_packing"]} before packing.
- **Data**: {record["data"]}. Licence: {record["licence"]}.
- **Recipe**: `regard train {record["recipe"]}{settings}`, {record["step"]} steps.
- **Size**: {record["parameters"]:,} parameters, stored as {record["encoding"]}.
- **Limits**: {record["limits"]}
- **Trained**: {"" if seconds is None else f"{seconds:.0f} seconds, "}{record["machine"]}, {record["date"]}.
{note}
| number | value |
|---|---|
{numbers}
"""
    first = head(hub_licence(record["licence"]), tags, _figures(record))
    sentence = f"{record['sentence']} {model.title} ({model.authors}, {model.year})."
    return _card(first, record["name"], sentence, record["task"], facts, model)


def render_plain_card(
    name: str, model: str, task: str, *, parameters: int, step: int, said: Mapping[str, Any]
) -> str:
    """The card of a run that was not packed and so has no figures yet."""
    row = catalog.find(model, "model")
    facts = f"""\
- **Trained**: {step} steps of the task {task}; `regard pack` measures it and writes the figures here.
- **Size**: {parameters:,} parameters.
"""
    more = "".join(f"- **{key.capitalize()}**: {text}\n" for key, text in said.items() if key != "license")
    first, sentence = head(said.get("license"), ["attention", model, task]), row.sentence
    return _card(first, name, f"{row.title} ({row.authors}, {row.year}). {sentence}", task, facts + more, row)


def _card(first: str, name: str, sentence: str, task: str, facts: str, row: catalog.Row) -> str:
    return f"""{first}

# {name}

{sentence}

```python
import regard

model = regard.load("{name}")
{call(task)}
```

{facts}
## Citation

{citation(row)}
"""


def _figures(record: dict[str, Any]) -> str:
    """The test figure as front matter for the Hub."""
    plain = {
        "name": record["name"],
        "results": [
            {
                "task": {"type": record["task"]},
                "dataset": {"name": record["data"], "type": record["task"]},
                "metrics": [{"type": record["metric"], "value": record["value"]}],
            }
        ],
    }
    return f"model-index: {json.dumps([plain], ensure_ascii=False)}"  # YAML accepts JSON


def call(task: str) -> str:
    """A line of Python that uses a model of this task."""
    kinds = catalog.find(task, "task").load().__mro__
    return next((CALLS[kind.__name__] for kind in kinds if kind.__name__ in CALLS), "model.run")


def hub_licence(licence: str) -> str:
    """The Hub's name of a licence."""
    return next((name for start, name in LICENCES.items() if licence.startswith(start)), "other")


def _plain_numbers(numbers: dict[str, Any], before: str = "") -> list[tuple[str, object]]:
    """All numbers of the evaluation with their paths; lists of examples are skipped."""
    found: list[tuple[str, object]] = []
    for name, value in numbers.items():
        if isinstance(value, dict):
            found += _plain_numbers(value, f"{before}{name}, ")
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            shown = value.replace("|", r"\|") if isinstance(value, str) else value  # a bar would end the cell
            found.append((f"{before}{name}".replace("_", " "), shown))
    return found
