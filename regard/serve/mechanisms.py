"""The catalogue as JSON, and a small example of each mechanism, computed with adjustable parameters.

The example has eight keys; its queries are the first six keys plus noise. A score's learned weights are
random, from a seed. Stochastic parts run in evaluation mode.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from inspect import getsource
from typing import Any

import torch
from torch import Tensor

from regard import catalog
from regard.attention.config import AttentionConfig
from regard.attention.in_order import in_order
from regard.attention.memory.addressing import content_weights, interpolate, sharpen, shift
from regard.evaluate.results import entries_of, newest, packaged, read_results
from regard.serve.problems import Problem, invalid
from regard.serve.requests import MechanismRequest
from regard.serve.wire import matrix

QUERIES, KEYS, SIZE = 6, 8, 8
KINDS: tuple[catalog.Kind, ...] = ("score", "normalizer", "window", "memory", "layer")


@dataclass(frozen=True)
class Parameter:
    """A number that the user can adjust."""

    name: str
    min: float
    max: float
    value: float
    step: float


SEED = Parameter("seed", 0, 99, 1, 1)
EVERY = (SEED, Parameter("noise", 0.0, 2.0, 0.2, 0.05), Parameter("length", 0.25, 4.0, 2.0, 0.25))
TEMPERATURE = Parameter("temperature", 0.1, 5.0, 1.0, 0.1)
HALF_WIDTH = Parameter("half_width", 1, 5, 2, 1)
ADDRESSING = (
    SEED,
    Parameter("strength", 0.0, 20.0, 5.0, 0.5),
    Parameter("gate", 0.0, 1.0, 0.5, 0.05),
    Parameter("shift", -1.0, 1.0, 1.0, 0.1),
    Parameter("gamma", 1.0, 10.0, 2.0, 0.5),
)


# What a symbol of an equation is in the example: its rows or columns, scores, weights, a parameter; for the
# memory, the row of a stage. A symbol is looked up with its subscript first.
SCORE = {"e": "scores", "q": "rows", "k": "columns", "W": "seed", "U": "seed", "v": "seed"}
LATER = {"e": "scores", "h": "columns", "α": "weights", "W": "seed", "U": "seed", "V": "seed", "v": "seed"}
WINDOW = {"a": "weights", "align": "scores", "h": "rows", "h̄": "columns"}
LOCAL = WINDOW | {"D": "half_width"}
SYMBOLS: dict[str, dict[str, str]] = {
    "rectified": {"e": "scores", "θ": "rows", "φ": "columns", "w": "seed"},
    "location-aware": LATER | {"s": "rows", "F": "seed", "w": "seed", "b": "seed"},
    "coverage": LATER | {"t": "rows"},
    "feedforward": {"e": "scores", "a": "rows", "b": "columns", "F": "seed"},
    "softmax": {"α": "weights", "e": "scores", "τ": "temperature"},
    "sparsemax": {"z": "scores", "sparsemax": "weights"},
    "hard": {"s": "weights"},
    "straight-through": {"s": "weights"},
    "gumbel-softmax": {"y": "weights", "π": "scores", "τ": "temperature"},
    "mean": {"α": "weights"},
    "divide-by-length": {"w": "weights", "e": "scores"},
    "global": WINDOW,
    "local-monotonic": LOCAL,
    "local-predictive": LOCAL | {"W": "seed", "v": "seed"},
    "ntm-addressing": {
        **{"w_c": "row 0", "w_g": "row 1", "w̃": "row 2", "w": "row 3", "M": "columns"},
        **{"β": "strength", "g": "gate", "s": "shift", "γ": "gamma", "w_{t-1}": "", "K": ""},
    },
}
MEASURED = 6  # results shown per mechanism


def symbols_of(row: catalog.Row) -> dict[str, str]:
    """What the symbols of a row's equation are in its example."""
    if not parameters_of(row):
        return {}
    return SYMBOLS.get(row.key, SCORE if row.kind == "score" else {})


def measured() -> dict[str, list[dict[str, Any]]]:
    """The newest results by `kind:key`, headlines first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for result in sorted(newest(read_results(packaged())), key=lambda each: not each.details.get("headline")):
        about = {"recipe": result.recipe, "metric": result.metric, "value": result.value}
        about |= {"paper": result.paper_value, "machine": result.machine, "date": result.date}
        for entry in entries_of(result):
            if len(found.setdefault(entry, [])) < MEASURED:
                found[entry].append(about)
    return found


def parameters_of(row: catalog.Row) -> tuple[Parameter, ...]:
    """The adjustable parameters of a row's example; empty if it has none."""
    if row.key == "ntm-addressing":
        return ADDRESSING
    if row.kind in ("normalizer", "score", "window"):
        warm = row.key in ("softmax", "gumbel-softmax")
        narrow = row.key.startswith("local-")
        return (*EVERY, *((TEMPERATURE,) if warm else ()), *((HALF_WIDTH,) if narrow else ()))
    return ()


@cache
def rows() -> list[dict[str, Any]]:
    """The mechanisms of the catalogue."""
    known = measured()
    return [
        {
            "key": row.key,
            "kind": row.kind,
            "title": row.title,
            "authors": row.authors,
            "year": row.year,
            "link": row.link,
            "equation": equation(import_module(row.module).__doc__ or ""),
            "sentence": row.sentence,
            "symbols": symbols_of(row),
            "parameters": [asdict(each) for each in parameters_of(row)],
            "measured": known.get(f"{row.kind}:{row.key}", []),
            "file": row.file,
        }
        for row in catalog.rows()
        if row.kind in KINDS
    ]


def equation(docstring: str) -> str:
    """The equation in a mechanism's docstring: indented lines up to the symbol map (`paper  here …`)."""
    lines: list[str] = []
    for line in docstring.splitlines():
        if line.startswith("    ") and "here" in line.split():
            break
        if line.startswith("    ") or (lines and not line):
            lines.append(line[4:])
        elif lines:
            break
    return "\n".join(lines).strip("\n")


def example(requests: Sequence[MechanismRequest]) -> list[dict[str, Any]]:
    """Weights and scores of each example."""
    return [_example(request) for request in requests]


def _find(key: str) -> catalog.Row | None:
    return next((row for row in catalog.rows() if row.key == key and row.kind in KINDS), None)


def code(key: str) -> dict[str, str]:
    """The source file of a mechanism, which contains its equation."""
    row = _find(key)
    if row is None:
        raise Problem(404, "unknown_mechanism", f"id: has {key[:80]!r}; expected one of /v1/mechanisms.")
    return {"file": row.file, "text": getsource(import_module(row.module))}


def _example(request: MechanismRequest) -> dict[str, Any]:
    row = _find(request.name)
    known = () if row is None else parameters_of(row)
    if row is None or not known:
        raise Problem(
            404, "unknown_mechanism", f"name: has {request.name!r}; expected a mechanism that has parameters."
        )
    values = {each.name: each.value for each in known}
    for name, value in request.parameters.items():
        own = next((each for each in known if each.name == name), None)
        if own is None:
            expected = ", ".join(values)
            raise invalid(f"parameters: has {name!r}; expected some of {expected}.")
        if not own.min <= value <= own.max:
            raise invalid(f"parameters.{name}: has {value:g}; expected {own.min:g} to {own.max:g}.")
        values[name] = value
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(values["seed"]))
        weights, scores, names = _address(values) if row.kind == "memory" else _attend(row, values)
    return {
        "weights": matrix(weights),
        "scores": matrix(scores),
        "rows": names,
        "columns": [f"{'row' if row.kind == 'memory' else 'key'} {s + 1}" for s in range(weights.shape[1])],
    }


def _attend(row: catalog.Row, values: dict[str, float]) -> tuple[Tensor, Tensor, list[str]]:
    keys = torch.nn.functional.normalize(torch.randn(KEYS, SIZE), dim=-1) * values["length"]
    queries = keys[:QUERIES] + values["noise"] * torch.randn(QUERIES, SIZE)
    config = AttentionConfig(
        score=row.key if row.kind == "score" else "dot",
        normalizer=row.key if row.kind == "normalizer" else "softmax",
        window=row.key if row.kind == "window" else "global",
        hidden=SIZE,
        half_width=int(values.get("half_width", 2)),
        filters=4,
        width=5,
        temperature=values.get("temperature", 1.0),
        kernel="reference",
    )
    built = config.build(query=SIZE, keys=SIZE, positions=KEYS)
    attention = in_order(built).eval()
    result = attention(queries[None], attention.prepare(keys[None]))
    return result.weights[0], result.scores[0], [f"query {t + 1}" for t in range(QUERIES)]


def _address(values: dict[str, float]) -> tuple[Tensor, Tensor, list[str]]:
    """The four stages of addressing, one per row; the head was on the third of eight memory rows."""
    cells = torch.randn(KEYS, SIZE)
    key = cells[5] + 0.3 * torch.randn(SIZE)
    before = torch.zeros(KEYS).index_fill(0, torch.tensor([2]), 1.0)
    content = content_weights(cells, key, torch.tensor([values["strength"]]))
    gated = interpolate(content, before, torch.tensor([values["gate"]]))
    whole, part = math.floor(values["shift"]), values["shift"] - math.floor(values["shift"])
    moves = torch.zeros(5).index_add(0, torch.tensor([whole + 2, whole + 3]), torch.tensor([1 - part, part]))
    shifted = shift(gated, moves)
    weights = sharpen(shifted, torch.tensor([values["gamma"]]))
    stages = torch.stack([content, gated, shifted, weights])
    return stages, stages.clamp_min(1e-30).log(), ["content", "gated", "shifted", "sharpened"]
