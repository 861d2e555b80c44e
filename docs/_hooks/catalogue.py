"""Pages that mkdocs makes while it builds: of each row of the catalogue, of the results, of the recipes."""

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import experiments
import tables
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from records import ROOT, markdown, newest, notes, number, papers, rows_of

from regard import catalog
from regard.evaluate.results import Result, read_results
from regard.train.config import recipe_names, recipe_sentence

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
    files.append(File.generated(config, "results.md", content=results_page()))
    files.append(File.generated(config, "recipes.md", content=recipes_page()))
    for source in sorted((ROOT / "docs").rglob("*.md")):
        made = experiments.pictures(source.read_text(encoding="utf-8"), RESULTS)
        for name, content in made.items():
            files.append(File.generated(config, f"pictures/{name}", content=content))
    return files


def on_page_markdown(text: str, **_: Any) -> str:
    """Put the measured tables where a page has their markers, and below each picture what it shows."""
    return captioned(tables.filled(text, RESULTS))


def captioned(text: str) -> str:
    """Below each picture that stands alone, what the file of its name says of it, or else its own words."""

    def caption(picture: re.Match[str]) -> str:
        file = PICTURES / f"{Path(picture[2]).stem}.txt"
        return file.read_text(encoding="utf-8").strip() if file.exists() else f"{picture[1]}."

    alone = re.compile(r"^!\[(.+)\]\((.+)\)$", re.MULTILINE)
    return alone.sub(lambda picture: f"{picture[0]}\n\n*{caption(picture)}*", text)


def page(row: catalog.Row) -> str:
    """A row as Markdown: docstring with equation and symbol map, picture, measured results, signature."""
    parts = [f"# {row.title}", f"*{row.authors}, {row.year}.* {row.sentence}"]
    if row.link:
        parts.append(f"Paper: <{row.link}>. File: `{row.file}`. Key: `{row.key}`.")
    else:
        parts.append(f"File: `{row.file}`. Key: `{row.key}`.")
    parts.append(fenced(import_module(row.module).__doc__ or ""))
    picture = f"{row.kind}-{row.key}.png"
    if (PICTURES / picture).exists():
        parts.append(f"![{row.title}](../../pictures/{picture})")
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
    names = [_parameter(str(p)) for p in parameters.parameters.values()]
    line = f"{found.__name__}({', '.join(names)})"
    return line if len(line) < 90 else f"{found.__name__}(\n    " + ",\n    ".join(names) + ",\n)"


def _parameter(text: str) -> str:
    """Without the quotes of annotations, and a function that is the default by its name, not its address."""
    return re.sub(r"<function ([\w.]+) at 0x\w+>", r"\1", text).replace("'", "")


def _address(row: catalog.Row) -> str:
    return f"catalogue/{row.kind}/{row.key}.md"


def results_page() -> str:
    """Everything that was measured, with what the paper has beside it."""
    found = newest(read_results(RESULTS))
    return "\n".join(
        [
            "# Results",
            "",
            "Every number was measured by the recipe or benchmark it names; the files lie in `results/`.",
            "",
            results_table(found),
            "",
            "Where a paper's number stands beside ours, the notes say how far the two can be compared:",
            "",
            *(f"- {note}" for note in notes(found)),
            "",
        ]
    )


def results_table(results: list[Result]) -> str:
    """A line for each number, with where and when it was measured."""
    header = ["recipe", "metric", "value", "paper", "seconds", "machine", "date"]
    body = [
        [f"`{r.recipe}`", r.metric, number(r), papers(r), f"{r.seconds:.0f}", r.machine, r.date]
        for r in results
    ]
    return markdown(header, body, sides="llrrrl")


def recipes_page() -> str:
    """How to use a recipe; and what each does and how long it takes, from its own first lines."""
    about = (
        "`regard train NAME` trains one; each file says the paper, what to expect and how long it takes. "
        "`--set model.hidden=64` changes a setting, your own `.toml` file takes the place of a name."
    )
    body = []
    for name in recipe_names():
        text = (ROOT / "regard" / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        [duration] = [
            line.removeprefix("# time").strip() for line in text.splitlines() if line.startswith("# time")
        ]
        body.append([f"`{name}`", recipe_sentence(name), duration])
    return f"# Recipes\n\n{about}\n\n{markdown(['recipe', 'what', 'time'], body, sides='l')}\n"
