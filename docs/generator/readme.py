"""The README's tables: the demo, the systems and mechanisms with their headlines, and what runs how fast."""

from pathlib import Path

from costs import share_of_ceiling
from records import benchmark, markdown, memory, newest, number, place, rows_of, words

from regard import catalog
from regard.evaluate.results import Result, read_results

SYSTEMS: tuple[catalog.Kind, ...] = ("model",)
MECHANISMS: tuple[catalog.Kind, ...] = ("score", "normalizer", "window", "layer", "memory")


def renewed(readme: str, folder: Path) -> str:
    """The README with its tables made anew."""
    tables = {
        "demo": demo_table(folder),
        "systems": catalogue_table(folder, "system", SYSTEMS),
        "mechanisms": catalogue_table(folder, "mechanism", MECHANISMS),
        "performance": performance_table(folder),
    }
    for name, table in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, _, rest = readme.partition(begin)
        _, _, after = rest.partition(end)
        readme = f"{before}{begin}\n{table}\n{end}{after}"
    return readme


def demo_table(folder: Path) -> str:
    """What the demo printed when its figures were recorded."""
    found = {
        r.recipe: r for r in newest(read_results(folder)) if r.metric == "BLEU" and "by_length" in r.details
    }
    if not {"seq2seq-en-fr", "rnnsearch-en-fr"} <= set(found):
        return "The figures of the demo have not been recorded yet."
    without, search = found["seq2seq-en-fr"], found["rnnsearch-en-fr"]
    pairs = zip(without.details["by_length"], search.details["by_length"], strict=True)
    body = [[words(base), f"{base['bleu']:.1f}", f"{other['bleu']:.1f}"] for base, other in pairs]
    every = f"all {search.details['sentences']} sentences"
    body.append([every, f"{without.value:.1f}", f"{search.value:.1f}"])
    close = (
        f"Alignment error rate {search.details['alignment']['error_rate']:.2f}. "
        f"Measured on {search.date} ({search.machine}); "
        f"training took {without.seconds:.0f} and {search.seconds:.0f} seconds, side by side."
    )
    return "\n".join(
        [markdown(["English words", "BLEU without attention", "BLEU with attention"], body), "", close]
    )


def catalogue_table(folder: Path, what: str, kinds: tuple[catalog.Kind, ...]) -> str:
    """Year, name, paper, file, what was measured: one line for each row of these kinds."""
    body = []
    for row in sorted(catalog.rows(), key=lambda r: r.year):
        if row.kind in kinds:
            measured = "; ".join(headlines(rows_of(folder, f"{row.kind}:{row.key}")))
            paper, file = f"[{row.authors}]({row.link})", f"[`{row.file}`]({row.file})"
            body.append([str(row.year), row.title, paper, file, measured])
    return markdown(["year", what, "paper", "file", "measured"], body, sides="l")


def headlines(results: list[Result]) -> list[str]:
    """What the README says of a mechanism: the summaries of its main results, best known first."""
    return [
        str(result.details.get("summary", f"{result.metric} {number(result)}"))
        for result in sorted(
            results, key=lambda r: (r.recipe == "mechanisms", r.details.get("order", 0), r.metric)
        )
        if result.details.get("headline")
    ]


# What runs how fast -----------------------------------------------------------------------------------------

MOST = 14  # rows
BOTH = "forward and backward"
SHOWN = {
    "cuda": (
        *(("additive", "forward"), ("additive", BOTH), ("additive, one query", BOTH)),
        *(("scaled-dot, sparsemax", BOTH), ("general, local-monotonic", BOTH)),
    ),
    "cpu": (("additive", "forward"), ("additive", BOTH), ("scaled-dot, sparsemax", BOTH)),
}
OTHERS = {
    ("training", "rnnsearch: captured training step, times as fast as the plain loop, bf16"): (
        "whole training step of RNNsearch, captured, bf16",
        "{:.1f} times as fast as the plain loop",
    ),
    ("training", "transformer: captured step in bf16, times as fast as torch.nn.Transformer in bf16"): (
        "whole training step of the Transformer, captured, bf16",
        "{:.1f} times as fast as torch.nn.Transformer",
    ),
    ("decoding", "greedy: share of CTranslate2's speed"): (
        "greedy translation with a Transformer",
        "{:.0%} of CTranslate2's speed",
    ),
    ("decoding", "beam 5: share of CTranslate2's speed"): (
        "the same with a beam of 5",
        "{:.0%} of CTranslate2's speed",
    ),
}


def performance_table(folder: Path) -> str:
    """What runs how many times as fast as what, where."""
    rows = [row for device in SHOWN for row in _fused_rows(folder, device)]
    rows += _other_rows(folder) + _step_rows(folder)
    return markdown(["what", "measured", "where"], rows[:MOST], sides="l")


def _fused_rows(folder: Path, device: str) -> list[tuple[str, str, str]]:
    rows = []
    for result in benchmark(folder, f"attention-{device}"):
        of = result.details
        if (of.get("mechanism"), of.get("pass")) not in SHOWN[device] or of["kernel"] == "reference":
            continue
        called, graphs = of["times as fast"], of.get("captured times as fast")
        times, megabytes = graphs or called, of["megabytes"]
        said = [f"{times['reference']:.1f} times as fast as the formula in plain PyTorch"]
        said[0] += f", both as graphs ({called['reference']:.1f} as called)" if graphs else ""
        said += [f"{times['compile']:.1f} times torch.compile"] if "compile" in times else []
        said += [f"{times['entmax']:.1f} times entmax"] if "entmax" in times else []
        said += [f"{memory(megabytes['fused'])} where the formula needs {memory(megabytes['reference'])}"]
        share = share_of_ceiling(of)
        said += [f"{100 * share:.0f} % of the arithmetic's ceiling"] if share is not None else []
        what = f"{of['mechanism']}, {of['pass']}, {of['query'][0]} × {of['length']} positions, {of['dtype']}"
        rows.append((what, "; ".join(said), place(result)))
    return rows


def _other_rows(folder: Path) -> list[tuple[str, str, str]]:
    found = {(result.recipe, result.metric): result for result in newest(read_results(folder))}
    return [
        (what, said.format(found[key].value).replace("%", " %"), place(found[key]))
        for key, (what, said) in OTHERS.items()
        if key in found
    ]


def _step_rows(folder: Path) -> list[tuple[str, str, str]]:
    """Each model once: captured on a GPU, else as it is measured on a CPU."""
    found: dict[str, tuple[str, str, str]] = {}
    for device in SHOWN:
        for result in benchmark(folder, f"training-steps-{device}"):
            of = result.details
            if "fused" not in of["milliseconds"] or (device == "cuda" and of["way"] != "captured"):
                continue
            what = f"{of['way']} training step with fused attention: {of['model']}"
            said = f"{result.value:.2f} times as fast as with the attention in plain PyTorch"
            found.setdefault(of["model"], (what, said, place(result)))
    return list(found.values())
