"""regard demo: two translators, one with attention and one without, trained and compared in a few minutes."""

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from regard.cli.common import DeviceOption, messages, open_translator, output, say, table, train_on, waiting
from regard.extras import needs

if TYPE_CHECKING:
    from regard.compare.jobs import Job
    from regard.decode.translator import Translation
    from regard.evaluate.translation import TranslationEvaluation
    from regard.train.config import RunConfig

BASELINE, SEARCH = "seq2seq-en-fr", "rnnsearch-coverage-en-fr"
TITLES = {BASELINE: "without attention", SEARCH: "with attention"}
FOLDERS = {BASELINE: "seq2seq", SEARCH: "rnnsearch"}
SHOWN = "The boys saw her, then they read Pierre's French novel at home."
LENGTHS_SHOWN = (6, 9, 12, 16, 22)  # English words of the five translations that are printed

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
    from regard.compare.jobs import run_jobs
    from regard.train.config import load_recipe

    needs("train", "accelerate", "sacrebleu")
    train_on(device)
    started = time.perf_counter()
    configs = {name: load_recipe(name) for name in (BASELINE, SEARCH)}
    messages.rule(Text("regard demo: English to French, with and without attention"), align="left")
    cores = os.cpu_count() or 1
    jobs = [_job(name, config, folder) for name, config in configs.items()]
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


def _job(name: str, config: "RunConfig", folder: Path) -> "Job":
    from regard.compare.jobs import Job

    run = folder / FOLDERS[name]
    _forget(run)
    return Job(TITLES[name], name, run, config.train.steps)


def _measure(run: Path, device: str | None) -> "TranslationEvaluation":
    from regard.evaluate.translation import evaluate_translation

    opened = open_translator(run, device=device)
    with waiting("translating", len(opened.task.examples("test"))) as progress:
        how = opened.config.decode
        return evaluate_translation(opened.model, opened.task, "test", decoding=how, progress=progress)


def _forget(run: Path) -> None:
    """A demo begins anew; only a folder that is a run is removed."""
    if (run / "config.toml").exists():
        shutil.rmtree(run)


def _print_scores(found: Found) -> None:
    messages.rule(Text("what attention changes", "bold"), align="left")
    scores = table("", *TITLES.values(), numeric=tuple(TITLES.values()))
    scores.add_row("BLEU", *(f"{found[name].text.bleu:.1f}" for name in TITLES))
    scores.add_row("translations without any error", *(f"{100 * found[name].exact:.0f} %" for name in TITLES))
    alignment = found[SEARCH].alignment
    assert alignment is not None
    scores.add_row("alignment error rate", "", f"{alignment.error_rate:.3f}")
    output.print(scores, "")
    lengths = table("English words", *TITLES.values(), numeric=tuple(TITLES.values()), title="BLEU by length")
    for bucket, *bleu in lengths_table(found):
        lengths.add_row(bucket, *(f"{value:.1f}" for value in bleu))
    output.print(lengths, "")


def lengths_table(found: Found) -> list[tuple[str, float, float]]:
    """Rows of words, BLEU without, BLEU with attention."""
    pairs = zip(found[BASELINE].by_length, found[SEARCH].by_length, strict=True)
    return [(base.words, base.bleu, search.bleu) for base, search in pairs]


def _print_translations(found: Found) -> None:
    for number in chosen_sentences(found[SEARCH].translations):
        lines = table("", "")
        lines.show_header = False
        lines.add_row(Text("English", "bold"), found[SEARCH].translations[number].source)
        for name, title in TITLES.items():
            right = found[name].translations[number].text == found[name].references[number]
            text = found[name].translations[number].text
            lines.add_row(title, Text(text, "green" if right else "red"))
        lines.add_row("reference", found[SEARCH].references[number])
        output.print(lines, "")


def chosen_sentences(translations: "list[Translation]") -> list[int]:
    """Five sentences of rising length."""
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
