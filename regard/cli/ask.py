"""regard ask: answers a question about a story, and shows the sentences that the model attended to."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from regard.cli.common import complain, open_task, output, read_input, require_ending, say, table
from regard.cli.options import DeviceOption, RunArgument
from regard.data.parallel import read_lines
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.evaluate.answering import Answer


def command(
    run: RunArgument,
    story: Annotated[
        str,
        typer.Argument(metavar="STORY|-", help="A text file, one sentence a line; `-` reads standard input."),
    ],
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to ask, in quotes.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with the weights of every hop.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the attention into a .png or .svg file."),
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Answer a question about a story, and show what it attended to.

    regard ask stories story.txt "Where is the lamp?"
    echo "Anna went to the garden. Omar took the lamp." | regard ask stories - "Where is Anna?"

    Words that the model does not know are named and left out. If the story is longer than the memory, only
    its last sentences are read.
    """
    from regard.evaluate.answering import ask
    from regard.tasks.questions import QuestionTask

    require_ending("ask", out)
    if not question.strip():
        raise ConfigError(
            'ask: no question is given; expected one after the story, such as "Where is the lamp?".'
        )
    text = "\n".join(read_input() if story == "-" else read_lines(Path(story)))
    opened, task = open_task(run, QuestionTask, "'babi' or 'stories'", device=device)
    found = ask(opened.model, task, text, question)
    name_gaps(found)
    if as_json:
        typer.echo(json.dumps(record_of(found), ensure_ascii=False))
    else:
        print_answer(found)
    if out is not None:
        from regard.views.hops import draw

        draw(found, (), out)
        say(f"drawn: {out}")


def print_answer(found: "Answer") -> None:
    """The answer, then a row per sentence with its weight in each hop."""
    names = [f"hop {k + 1}" for k in range(len(found.weights))]
    output.print(Text.assemble(f"{found.question} ", (found.text, "bold"), f" ({found.probability:.0%})"))
    rows = [
        (sentence, *(f"{share:.2f}" if share >= 0.005 else "" for share in shares))
        for sentence, shares in zip(found.sentences, found.weights.T.tolist(), strict=True)
    ]
    output.print(table("sentence", *names, rows=rows, numeric=names))


def record_of(found: "Answer") -> dict[str, object]:
    """The answer as plain values."""
    return {
        "question": found.question,
        "answer": found.text,
        "probability": round(found.probability, 4),
        "others": [{"answer": word, "probability": round(share, 4)} for word, share in found.others],
        "sentences": list(found.sentences),
        "hops": [[round(share, 4) for share in row] for row in found.weights.tolist()],
        "unknown": list(found.unknown),
        "forgotten": found.forgotten,
    }


def name_gaps(found: "Answer") -> None:
    """Report words and sentences that the model did not read."""
    if found.unknown:
        words = ", ".join(repr(word) for word in found.unknown)
        complain(f"never seen in training: {words} (left out).")
    if found.forgotten:
        kept = len(found.sentences)
        complain(f"the story has {kept + found.forgotten} sentences; the memory holds the last {kept}.")
