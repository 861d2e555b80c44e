"""Tables made from results/*.json: for the documentation, and for the README between its markers.

python docs/_hooks/tables.py          writes the README's table anew
python docs/_hooks/tables.py --check  fails when it is stale
"""

import sys
from pathlib import Path

from regard import catalog
from regard.evaluate.results import Result, read_results
from regard.evaluate.text import LengthScore
from regard.train.config import recipe_names, recipe_sentence

ROOT = Path(__file__).parents[2]


def newest(results: list[Result]) -> list[Result]:
    """Of several records of one recipe and metric, the last."""
    latest = {(result.recipe, result.metric): result for result in sorted(results, key=lambda r: r.date)}
    return sorted(latest.values(), key=lambda r: (r.recipe, r.metric))


def rows_of(folder: Path, entry: str) -> list[Result]:
    """The results that belong to one catalogue entry, `kind:key`."""
    return [result for result in newest(read_results(folder)) if entry in result.details.get("catalogue", [])]


def table(results: list[Result]) -> str:
    """Results as a Markdown table."""
    lines = ["| recipe | metric | value | paper | seconds | machine | date |"]
    lines.append("|---|---|---:|---:|---:|---|---|")
    for result in results:
        paper = "" if result.paper_value is None else f"{result.paper_value:g}"
        lines.append(
            f"| `{result.recipe}` | {result.metric} | {number(result)} | {paper} | {result.seconds:.0f} "
            f"| {result.machine} | {result.date} |"
        )
    return "\n".join(lines)


def results_page(folder: Path) -> str:
    """Everything that was measured, with what the paper has beside it."""
    found = newest(read_results(folder))
    notes = sorted({result.paper_note for result in found if result.paper_note})
    return "\n".join(
        [
            "# Results",
            "",
            "Every number was measured by the recipe or benchmark it names; the files lie in `results/`.",
            "",
            table(found),
            "",
            "Where a paper's number stands beside ours, the notes say how far the two can be compared:",
            "",
            *(f"- {note}" for note in notes),
            "",
        ]
    )


def readme_table(folder: Path) -> str:
    """Year, mechanism, paper, file, what was measured: one line for each row of the catalogue."""
    lines = ["| year | mechanism | paper | file | measured |", "|---|---|---|---|---|"]
    for row in sorted(catalog.rows(), key=lambda r: r.year):
        if row.kind in ("kernel", "task"):
            continue
        paper = f"[{row.authors}]({row.link})"
        measured = "; ".join(headlines(rows_of(folder, f"{row.kind}:{row.key}")))
        lines.append(f"| {row.year} | {row.title} | {paper} | [`{row.file}`]({row.file}) | {measured} |")
    return "\n".join(lines)


def headlines(results: list[Result]) -> list[str]:
    """What the README says of a mechanism: the summaries of its main results, best known first."""
    return [
        str(result.details.get("summary", f"{result.metric} {number(result)}"))
        for result in sorted(
            results, key=lambda r: (r.recipe == "mechanisms", r.details.get("order", 0), r.metric)
        )
        if result.details.get("headline")
    ]


def number(result: Result) -> str:
    """A value as people write it."""
    return f"{result.value:.1f}" if abs(result.value) >= 10 else f"{result.value:.3g}"


def demo_table(folder: Path) -> str:
    """What the demo printed when its figures were recorded."""
    found = {
        r.recipe: r for r in newest(read_results(folder)) if r.metric == "BLEU" and "by_length" in r.details
    }
    if not {"seq2seq-en-fr", "rnnsearch-en-fr"} <= set(found):
        return "The figures of the demo have not been recorded yet."
    without, search = found["seq2seq-en-fr"], found["rnnsearch-en-fr"]
    lines = ["| English words | BLEU without attention | BLEU with attention |", "|---|---:|---:|"]
    pairs = zip(without.details["by_length"], search.details["by_length"], strict=True)
    for base, other in pairs:
        words = LengthScore(base["low"], base["high"], 0, 0.0).words
        lines.append(f"| {words} | {base['bleu']:.1f} | {other['bleu']:.1f} |")
    lines.append(
        f"| all {search.details['sentences']} sentences | {without.value:.1f} | {search.value:.1f} |"
    )
    error = search.details["alignment"]["error_rate"]
    close = (
        f"Alignment error rate {error:.2f}. Measured on {search.date} ({search.machine}); "
        f"training took {without.seconds:.0f} and {search.seconds:.0f} seconds, side by side."
    )
    return "\n".join([*lines, "", close])


def recipes_table() -> str:
    """Name, what it does, how long it takes: from the recipes' own first lines."""
    lines = ["| recipe | what | time |", "|---|---|---|"]
    for name in recipe_names():
        text = (ROOT / "regard" / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        [duration] = [
            line.removeprefix("# time").strip() for line in text.splitlines() if line.startswith("# time")
        ]
        lines.append(f"| `{name}` | {recipe_sentence(name)} | {duration} |")
    return "\n".join(lines)


def renewed(readme: str, folder: Path) -> str:
    """The README with its tables made anew."""
    tables = {"demo": demo_table(folder), "catalogue": readme_table(folder), "recipes": recipes_table()}
    for name, table_ in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = readme.partition(begin)
        _, _, after = rest.partition(end)
        readme = f"{before}{begin}\n{table_}\n{end}{after}"
    return readme


def main() -> None:
    """Write or check the README."""
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = renewed(old, ROOT / "results")
    if "--check" in sys.argv and old != new:
        sys.exit("README.md: a table is stale; run python docs/_hooks/tables.py.")
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
