"""Tables made from results/*.json: for the documentation, and for the README between its markers.

python docs/_hooks/tables.py          writes the README's table anew
python docs/_hooks/tables.py --check  fails when it is stale
"""

import sys
from pathlib import Path

from regard import catalog
from regard.evaluate.results import Result, read_results

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- catalogue: begin -->", "<!-- catalogue: end -->"


def newest(results: list[Result]) -> list[Result]:
    """Of several records of one recipe and metric, the last."""
    latest = {(result.recipe, result.metric): result for result in sorted(results, key=lambda r: r.date)}
    return sorted(latest.values(), key=lambda r: (r.recipe, r.metric))


def rows_of(folder: Path, entry: str) -> list[Result]:
    """The results that belong to one catalogue entry, `kind:key`."""
    return [result for result in newest(read_results(folder)) if entry in result.details.get("catalogue", [])]


def table(results: list[Result]) -> str:
    """Results as a Markdown table."""
    lines = ["| recipe | metric | value | paper | seconds | machine | date |", "|---|---|---:|---:|---:|---|---|"]
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
            "Every number here was measured by the recipe or benchmark it names; the files lie in `results/`.",
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
        headline = [result for result in rows_of(folder, f"{row.kind}:{row.key}") if result.details.get("headline")]
        measured = "; ".join(f"{result.metric} {number(result)}" for result in headline)
        lines.append(f"| {row.year} | {row.title} | {paper} | [`{row.file}`]({row.file}) | {measured} |")
    return "\n".join(lines)


def number(result: Result) -> str:
    """A value as people write it."""
    return f"{result.value:.1f}" if abs(result.value) >= 10 else f"{result.value:.3g}"


def renewed(readme: str, folder: Path) -> str:
    """The README with its table made anew."""
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{readme_table(folder)}\n{END}{after}"


def main() -> None:
    """Write or check the README."""
    path = ROOT / "README.md"
    old = path.read_text(encoding="utf-8")
    new = renewed(old, ROOT / "results")
    if "--check" in sys.argv and old != new:
        sys.exit("README.md: its table is stale; run python docs/_hooks/tables.py.")
    path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
