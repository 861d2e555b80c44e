"""The live view of a catalogue page: a room of the studio with its precomputed examples, in a frame."""

import json
import tomllib
from functools import cache
from typing import Any
from urllib.parse import urlencode

from records import ROOT

from regard import catalog
from regard.shipped.table import MODELS

EXAMPLES = ROOT / "regard" / "web" / "studio" / "examples"
ROOMS = {  # what a model does: where the studio shows it, and on which tab
    "translate": ("translate", None),
    "point": ("point", None),
    "run": ("remember", None),
    "ask": ("ask", None),
    "entail": ("read", None),
    "score": ("read", "score"),
    "caption": ("see", None),
    "sample": ("see", "sample"),
    "classify": ("see", "characters"),
}
PARTS = {  # parts that a shipped model shows at work
    "layer:multi-head": "en-fr",
    "layer:self-attention-2d": "sagan-shapes",
    "memory:ntm-memory": "ntm-copy",
    "memory:ntm-heads": "ntm-copy",
}


def frame(row: catalog.Row) -> str:
    """The frame for a row's page; empty where the studio has nothing of it. conf.py adds the language."""
    found = address(row)
    if not found:
        return ""
    source = f"../../../try/studio/index.html?embed#/{found}"
    return f'<iframe src="{source}" title="{row.title}" loading="lazy" class="studio"></iframe>'


def address(row: catalog.Row) -> str:
    """What stands behind `#/` in the studio's address."""
    if row.kind != "kernel" and row.key in _mechanisms():
        return f"mechanisms?name={row.key}"
    name = PARTS.get(f"{row.kind}:{row.key}") or _trained().get(f"{row.kind}:{row.key}")
    if name is None:
        return ""
    room, tab = ROOMS[_kinds()[name]]
    return f"{room}?{urlencode({'tab': tab, 'model': name} if tab else {'model': name})}"


@cache
def _trained() -> dict[str, str]:
    """The first shipped model of each model and each task."""
    found: dict[str, str] = {}
    for model in MODELS:
        if model.name in _kinds():
            recipe = tomllib.loads((ROOT / "regard" / "recipes" / f"{model.recipe}.toml").read_text("utf-8"))
            for kind in ("model", "task"):
                found.setdefault(f"{kind}:{recipe[kind]['name']}", model.name)
    return found


@cache
def _kinds() -> dict[str, str]:
    """The models of the studio, and what each does."""
    [listed] = _read("models")
    return {model["name"]: model["kind"] for model in listed["answer"]}


@cache
def _mechanisms() -> set[str]:
    """The mechanisms that have an example."""
    return {each["body"]["name"] for each in _read("mechanisms") if each["path"] == "mechanism"}


def _read(name: str) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = json.loads((EXAMPLES / f"{name}.json").read_text(encoding="utf-8"))
    return read
