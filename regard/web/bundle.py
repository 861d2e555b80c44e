"""Bundles views into one script, for pages that may not load files.

Each module of `views/` becomes a function that runs once and returns its exports, so names of different
modules cannot clash. Only two statements are supported: `import { a, b as c } from "./x.js";` on one line,
and `export` before a declaration.
"""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

VIEWS = Path(__file__).parent / "views"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:async )?function|const|let|class) (\w+)", re.MULTILINE)
_COMMENT = re.compile(r"^\s*(//[^\n]*|/\*\*(?:(?!\*/).)*\*/)\n", re.MULTILINE | re.DOTALL)


@cache
def bundle(name: str) -> str:
    """A script with this module and its dependencies; its exports are in `views.NAME`."""
    order: list[str] = []
    _visit(name, order)
    return "\n".join(["const views = {};", *(_module(each) for each in order)])


def _visit(name: str, order: list[str]) -> None:
    for _, needed in _IMPORT.findall(_text(name)):
        if needed not in order:
            _visit(needed, order)
    order.append(name)


def _text(name: str) -> str:
    return (VIEWS / f"{name}.js").read_text(encoding="utf-8")


def _module(name: str) -> str:
    text = _text(name)
    exported = [found for _, found in _EXPORT.findall(text)]
    text = _IMPORT.sub(lambda m: f"const {{{m[1].replace(' as ', ': ')}}} = views.{m[2]};", text)
    text = _EXPORT.sub(r"\1 \2", text)
    text = _COMMENT.sub("", text)  # comments and types
    return f"views.{name} = (() => {{\n{text}\nreturn {{ {', '.join(exported)} }};\n}})();"


def as_json(data: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
