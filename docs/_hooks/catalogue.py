"""Pages that mkdocs makes while it builds: one for each row of the catalogue, one for the results."""

import inspect
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "_hooks"))
import tables  # noqa: E402

from regard import catalog  # noqa: E402

TITLES = {
    "score": "Scores",
    "normalizer": "Normalizers",
    "window": "Windows",
    "layer": "Layers",
    "memory": "Memory",
    "kernel": "Kernels",
    "model": "Models",
    "task": "Tasks",
}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the generated pages to the navigation."""
    sections = [
        {title: [_address(row) for row in catalog.rows(kind)]}
        for kind, title in TITLES.items()
        if catalog.rows(kind)
    ]
    config.nav = [*(config.nav or []), {"Catalogue": sections}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages themselves."""
    for row in catalog.rows():
        files.append(File.generated(config, _address(row), content=page(row)))
    files.append(File.generated(config, "results.md", content=tables.results_page(ROOT / "results")))
    files.append(File.generated(config, "recipes.md", content=tables.recipes_page()))
    for source in sorted((ROOT / "docs").rglob("*.md")):
        markdown = source.read_text(encoding="utf-8")
        for name, content in tables.pictures(markdown, ROOT / "results").items():
            files.append(File.generated(config, f"pictures/{name}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the measured tables where a page has their markers."""
    return tables.filled(markdown, ROOT / "results")


def page(row: catalog.Row) -> str:
    """A row as Markdown: docstring with equation and symbol map, picture, measured results, signature."""
    parts = [f"# {row.title}", f"*{row.authors}, {row.year}.* {row.sentence}"]
    if row.link:
        parts.append(f"Paper: <{row.link}>. File: `{row.file}`. Key: `{row.key}`.")
    else:
        parts.append(f"File: `{row.file}`. Key: `{row.key}`.")
    parts.append(fenced(import_module(row.module).__doc__ or ""))
    picture = ROOT / "docs" / "pictures" / f"{row.kind}-{row.key}.png"
    if picture.exists():
        parts.append(f"![{row.title}](../../pictures/{picture.name})")
        caption = picture.with_suffix(".txt")
        if caption.exists():
            parts.append(f"*{caption.read_text(encoding='utf-8').strip()}*")
    measured = tables.rows_of(ROOT / "results", f"{row.kind}:{row.key}")
    if measured:
        parts += ["## Measured", tables.table(measured)]
    parts += ["## Signature", f"```python\n{signature(row)}\n```"]
    return "\n\n".join(parts) + "\n"


def fenced(docstring: str) -> str:
    """Indented blocks of a docstring (equations, symbol maps) become text blocks; the rest stays prose."""
    out: list[str] = []
    inside = False
    for line in docstring.strip().splitlines():
        indented = line.startswith("    ")
        if indented and not inside:
            out.append("```text")
            inside = True
        elif inside and line and not indented:
            out.append("```")
            inside = False
        out.append(line[4:] if indented else line)
    if inside:
        out.append("```")
    return "\n".join(out)


def signature(row: catalog.Row) -> str:
    """How the row's object is called."""
    found: Any = row.load()
    if inspect.isclass(found) and hasattr(found, "Config"):
        return _call(found.Config)
    if inspect.isclass(found) and hasattr(found, "Settings"):
        return _call(found.Settings)
    return _call(found)


def _call(found: Any) -> str:
    try:
        parameters = inspect.signature(found)
    except ValueError:
        return f"{found.__name__}()"
    names = [str(p).replace("'", "") for p in parameters.parameters.values()]
    line = f"{found.__name__}({', '.join(names)})"
    return line if len(line) < 90 else f"{found.__name__}(\n    " + ",\n    ".join(names) + ",\n)"


def _address(row: catalog.Row) -> str:
    return f"catalogue/{row.kind}/{row.key}.md"
