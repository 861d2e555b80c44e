"""regard demo: trains two translators, one with attention and one without, and compares them."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from regard.cli.common import messages, open_run, output, say, table, train_on, waiting
from regard.cli.options import DeviceOption
from regard.extras import needs

if TYPE_CHECKING:
    from regard.decode.translator import Translation
    from regard.evaluate.translation import TranslationEvaluation

BASELINE, SEARCH = "seq2seq-en-fr", "rnnsearch-coverage-en-fr"
TITLES = {BASELINE: "without attention", SEARCH: "with attention"}
FOLDERS = {BASELINE: "seq2seq", SEARCH: "rnnsearch"}
SHOWN = "The boys saw her, then they read Pierre's French novel at home."
LENGTHS_SHOWN = (6, 9, 12, 16, 22)  # lengths of the five printed sentences, in English words

Found = dict[str, "TranslationEvaluation"]


def command(
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for runs, pictures and the report.")
    ] = Path("demo"),
    results: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also record the figures in this folder, as JSON.")
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Train two translators and see what attention changes.

    Both learn English to French from the embedded corpus. The first squeezes each sentence into one vector
    (Sutskever et al. 2014). The second looks back at the sentence for each word it writes (Bahdanau et al.
    2014) and keeps track of what it has read (Tu et al. 2016). Takes a few minutes on two cores; nothing is
    downloaded.
    """
    from regard.cli.demo_report import draw_demo, record_demo
    from regard.compare.jobs import Job, run_jobs
    from regard.train.config import load_recipe

    needs("train", "accelerate", "sacrebleu")
    train_on(device)
    started = time.perf_counter()
    configs = {name: load_recipe(name) for name in (BASELINE, SEARCH)}
    messages.rule(Text("regard demo: English to French, with and without attention"), align="left")
    cores = os.cpu_count() or 1
    for name in configs:
        if (folder / FOLDERS[name] / "config.toml").exists():  # the last demo's run, and no other folder
            shutil.rmtree(folder / FOLDERS[name])
    jobs = [
        Job(TITLES[name], name, folder / FOLDERS[name], config.train.steps)
        for name, config in configs.items()
    ]
    say("Two networks learn from the same sentences, side by side; the sentences come from a grammar.")
    run_jobs(jobs, workers=min(2, cores), threads=max(1, min(2, cores // 2)), console=messages)
    found = {name: _measure(folder / FOLDERS[name], device) for name in configs}
    _print_scores(found)
    _print_translations(found)
    written = draw_demo(found, folder)
    if results is not None:
        written += record_demo(found, configs, folder, results)
    say(f"{time.perf_counter() - started:.0f} s. Written: {', '.join(str(path) for path in written)}")
    _print_next(folder)


def _measure(run: Path, device: str | None) -> "TranslationEvaluation":
    from regard.evaluate.translation import evaluate_translation
    from regard.export.base import translatable

    opened = translatable(open_run(run, device=device))
    with waiting("translating", len(opened.task.examples("test"))) as progress:
        how = opened.run.config.decode
        return evaluate_translation(opened.model, opened.task, "test", decoding=how, progress=progress)


def _print_scores(found: Found) -> None:
    messages.rule(Text("what attention changes", "bold"), align="left")
    alignment = found[SEARCH].alignment
    assert alignment is not None
    scores = [
        ("BLEU", *(f"{found[name].text.bleu:.1f}" for name in TITLES)),
        ("translations without any error", *(f"{100 * found[name].exact:.0f} %" for name in TITLES)),
        ("alignment error rate", "", f"{alignment.error_rate:.3f}"),
    ]
    titles = tuple(TITLES.values())
    output.print(table("", *titles, rows=scores, numeric=titles), "")
    lengths = [(words, *(f"{value:.1f}" for value in bleu)) for words, *bleu in lengths_table(found)]
    output.print(table("English words", *titles, rows=lengths, numeric=titles, title="BLEU by length"), "")


def lengths_table(found: Found) -> list[tuple[str, float, float]]:
    """Rows of (words, BLEU without, BLEU with attention)."""
    pairs = zip(found[BASELINE].by_length, found[SEARCH].by_length, strict=True)
    return [(base.words, base.bleu, search.bleu) for base, search in pairs]


def _print_translations(found: Found) -> None:
    for number in chosen_sentences(found[SEARCH].translations):
        reference = found[SEARCH].references[number]
        texts = [found[name].translations[number].text for name in TITLES]
        lines = table("", "", rows=[(Text("English", "bold"), found[SEARCH].translations[number].source)])
        for title, text in zip(TITLES.values(), texts, strict=True):
            lines.add_row(title, Text(text, "green" if text == reference else "red"))
        lines.add_row("reference", reference)
        lines.show_header = False
        output.print(lines, "")


def chosen_sentences(translations: "list[Translation]") -> list[int]:
    """Five sentences of increasing length."""
    chosen: list[int] = []
    for length in LENGTHS_SHOWN:
        nearest = min(
            (number for number in range(len(translations)) if number not in chosen),
            key=lambda number: abs(len(translations[number].source_pieces) - length),
        )
        chosen.append(nearest)
    return chosen


def _print_next(folder: Path) -> None:
    run = folder / FOLDERS[SEARCH]
    messages.rule(Text("three things to try next", "bold"), align="left")
    regard = "regard" if shutil.which("regard") else os.path.relpath(sys.argv[0])
    typer.echo(f'{regard} translate {run} "She is eating a green apple." --align')
    typer.echo(f'{regard} show {run} "{SHOWN}" --out alignment.svg')
    typer.echo(f"{regard} train rnnsearch-en-zh")
