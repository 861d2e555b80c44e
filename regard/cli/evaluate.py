"""regard evaluate: what a run has learnt."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from regard.cli.common import RunArgument, decoding, messages, open_translator, output, table, waiting

if TYPE_CHECKING:
    from regard.evaluate.translation import Evaluation


def command(
    run: RunArgument,
    split: Annotated[Literal["train", "valid", "test"], typer.Option(help="Which sentences.")] = "test",
    beam: Annotated[
        int | None, typer.Option(min=1, help="Hypotheses kept; default as in the recipe.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the translations, one a line.")
    ] = None,
) -> None:
    """Translate a split and measure: BLEU, chrF, BLEU by length, alignment error rate.

    regard evaluate runs/rnnsearch-en-fr --beam 5
    regard evaluate runs/rnnsearch-en-fr --split valid --json
    """
    from regard.evaluate.translation import evaluate_translation

    opened = open_translator(run)
    how = decoding(opened.config.decode, beam=beam)
    task = opened.task
    with waiting("translating", len(task.examples(split))) as progress:
        found = evaluate_translation(opened.model, task, split, decoding=how, progress=progress)
    if out is not None:
        out.write_text("".join(f"{t.text}\n" for t in found.translations), encoding="utf-8")
        messages.print(f"translations: {out}")
    if as_json:
        typer.echo(json.dumps({"run": str(run), "step": opened.step, **found.summary()}, ensure_ascii=False))
        return
    output.print(f"{run}, step {opened.step}, {split}: {found.text.sentences} sentences, beam {how.width}")
    print_evaluation(found)


def print_evaluation(found: "Evaluation") -> None:
    """The numbers for a reader."""
    made = table("measure", "value", numeric=("value",))
    made.add_row("BLEU", f"{found.text.bleu:.2f}")
    made.add_row("chrF", f"{found.text.chrf:.2f}")
    made.add_row("translations without any error", f"{100 * found.exact:.1f} %")
    if found.alignment is not None:
        made.add_row("alignment error rate", f"{found.alignment.error_rate:.3f}")
    output.print(made, "")
    lengths = table("source words", "sentences", "BLEU", numeric=("sentences", "BLEU"))
    for row in found.by_length:
        lengths.add_row(row.words, str(row.sentences), f"{row.bleu:.2f}")
    output.print(lengths, "")
    output.print(f"signature: {found.text.signature}", style="dim")
