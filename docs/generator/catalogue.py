"""The pages of the catalogue: one for each row, from its docstring, its card and its records."""

import inspect
import re
from importlib import import_module
from typing import Any

from live_view import frame
from records import ROOT, markdown, number, papers, recorded, rows_of

from regard import catalog
from regard.evaluate.results import Result

RESULTS = ROOT / "results"
PICTURES = ROOT / "docs" / "pictures"
TITLES: dict[catalog.Kind, str] = {
    "score": "Scores",
    "normalizer": "Normalizers",
    "window": "Windows",
    "layer": "Layers",
    "memory": "Memory",
    "kernel": "Kernels",
    "model": "Models",
    "task": "Tasks",
}
MEASURED: tuple[catalog.Kind, ...] = ("score", "normalizer", "window", "layer", "model")


def pages() -> dict[str, str]:
    """All generated pages of the catalogue, by their paths."""
    made = {address(row): page(row) for row in catalog.rows()}
    made["reference/catalogue/index.md"] = index()
    for kind, title in TITLES.items():
        made[f"reference/catalogue/{kind}/index.md"] = kind_index(kind, title)
    return made


def index() -> str:
    """The contents of the catalogue. A link without words takes the title of its page, in its language."""
    about = (
        "A page for every mechanism, model and task: its equation, its symbols, a picture, what was measured."
    )
    kinds = [(f"[]({kind}/index.md)", catalog.rows(kind)) for kind in TITLES]
    names = [
        f"**{title}**\\\n{' · '.join(f'[]({r.kind}/{r.key}.md)' for r in rows)}" for title, rows in kinds
    ]
    entries = "\n".join(f"{kind}/index" for kind in TITLES)
    parts = ["# Catalogue", about, *names, f"```{{toctree}}\n:hidden:\n\n{entries}\n```"]
    return "\n\n".join(parts) + "\n"


def kind_index(kind: catalog.Kind, title: str) -> str:
    """One kind: what each row is, in a sentence."""
    body = [[f"[]({row.key}.md)", str(row.year), row.sentence] for row in catalog.rows(kind)]
    table = markdown(["name", "year", "in a sentence"], body, sides="l")
    entries = "\n".join(row.key for row in catalog.rows(kind))
    return f"# {title}\n\n{table}\n\n```{{toctree}}\n:hidden:\n\n{entries}\n```\n"


def captioned(text: str) -> str:
    """Below each picture that stands alone, what the file of its name says of it, or else its own words."""

    def caption(picture: re.Match[str]) -> str:
        file = PICTURES / f"{picture[2].partition('pictures/')[2].removesuffix('.png')}.txt"
        return file.read_text(encoding="utf-8").strip() if file.exists() else f"{picture[1]}."

    alone = re.compile(r"^!\[(.+)\]\((.+)\)$", re.MULTILINE)
    return alone.sub(lambda picture: f"{picture[0]}\n\n*{caption(picture)}*", text)


def page(row: catalog.Row) -> str:
    """A row as Markdown: sentence, docstring, picture, live view, results, signature."""
    paper = f"[{row.authors}]({row.link})" if row.link else row.authors
    facts = [paper, str(row.year), f"`{row.file}`", f"`{row.key}`"]
    parts = [f"# {row.title}", row.sentence]
    parts.append(recorded(markdown(["paper", "year", "file", "key"], [facts], sides="l")))
    parts.append(
        f"`````{{rst-class}} translation-optional\n{fenced(import_module(row.module).__doc__ or '')}\n`````"
    )
    picture = f"{row.kind}-{row.key}.png"
    if (PICTURES / picture).exists():
        parts.append(f"![{row.title}](../../../pictures/{picture})")
    if live := frame(row):
        parts += ["## Try it", live]
    measured = rows_of(RESULTS, f"{row.kind}:{row.key}")
    if measured:
        parts += ["## Measured", results_table(measured)]
    elif row.kind in MEASURED:
        parts += ["## Measured", "Not measured yet."]
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
        out.append(line[4:] if indented else _linked(line))
    if inside:
        out.append("```")
    return "\n".join(out)


def _linked(line: str) -> str:
    """Addresses become links; one that ends a line, as that of a paper does, ends it on the page too."""
    linked = re.sub(r"(?<![<(])https?://[^\s>)]*[^\s>).,;]", r"<\g<0>>", line)
    return f"{linked}  " if linked.endswith(">") else linked


def signature(row: catalog.Row) -> str:
    """How the row's object is called."""
    found: Any = row.load()
    found = getattr(found, "Config", getattr(found, "Settings", found))
    try:
        parameters = inspect.signature(found)
    except ValueError:
        return f"{found.__name__}()"
    names = [_parameter(str(p)) for p in parameters.parameters.values()]
    line = f"{found.__name__}({', '.join(names)})"
    return line if len(line) < 90 else f"{found.__name__}(\n    " + ",\n    ".join(names) + ",\n)"


def _parameter(text: str) -> str:
    """Without the quotes of annotations, and a function that is the default by its name, not its address."""
    return re.sub(r"<function ([\w.]+) at 0x\w+>", r"\1", text).replace("'", "")


def address(row: catalog.Row) -> str:
    """The path of its page."""
    return f"reference/catalogue/{row.kind}/{row.key}.md"


def results_table(results: list[Result]) -> str:
    """A line for each number, with where and when it was measured."""
    header = ["recipe", "metric", "value", "paper", "seconds", "machine", "date"]
    body = [
        [f"`{r.recipe}`", r.metric, number(r), papers(r), f"{r.seconds:.0f}", r.machine, r.date]
        for r in results
    ]
    return recorded(markdown(header, body, sides="llrrrl"))
