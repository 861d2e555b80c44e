"""Two sentences, the label, and which words of the one were aligned with which of the other."""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from regard.attention.record import record
from regard.data.entailment import LABELS, UNLABELLED
from regard.decode.base import evaluating
from regard.models.lstmn_pairs import LSTMNPairs
from regard.models.pooled import PooledSentences
from regard.tasks.entailment import EntailmentTask
from regard.train.run import Run
from regard.views.shared import is_page, require_attention

NOTHING = "⟨null⟩"


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Label a pair, "premise ||| hypothesis", or the first of the test set, and draw both alignments."""
    task, model = run.task, run.model
    assert isinstance(task, EntailmentTask)
    aligner = require_attention(run)
    pair = task.pairs("test")[0] if text is None else task.read(text)
    with evaluating(model), record(model) as trace:
        scores = model(task.tensors([pair]).to(next(model.parameters()).device))
        weights = [result.weights.float().cpu() for result in trace[aligner]]
    there, back = looks(model, weights, 0, len(pair.premise) + 1, len(pair.hypothesis) + 1)
    shares = scores[0].softmax(-1).tolist()
    said = max(range(len(LABELS)), key=shares.__getitem__)
    show = draw_pooled if isinstance(model, PooledSentences) else draw
    show(there, back, [NOTHING, *pair.premise], [NOTHING, *pair.hypothesis], LABELS[said], out)
    shown = ", ".join(f"{label} {share:.2f}" for label, share in zip(LABELS, shares, strict=True))
    wrong = pair.label not in (said, UNLABELLED)
    return shown + (f" (it was {LABELS[pair.label]})" if wrong else "")


def looks(
    model: nn.Module, weights: Sequence[Tensor], pair: int, A: int, B: int
) -> tuple[Tensor | None, Tensor]:
    """Weights of a pair's A premise words and of its B hypothesis words: there (A, B), back (B, A).

    `weights` are all that the model left. A pooled model has one row for each sentence, over its own words.
    An LSTMN reads the premise before the hypothesis, so it only looks back, one word at a time.
    """
    own = [each[pair] for each in weights]
    if isinstance(model, LSTMNPairs):
        return None, torch.cat(own)[:B, :A]
    there, back = own
    if isinstance(model, PooledSentences):
        return there[:, :A], back[:, :B]
    return there[:A, :B], back[:B, :A]


def draw(
    there: Tensor | None, back: Tensor, premise: list[str], hypothesis: list[str], label: str, out: Path
) -> None:
    """Draw the alignments as a picture, or as a page if the file ends in .html."""
    from regard.viz.heatmap import Panel, draw_gallery
    from regard.viz.report import AlignmentSection, write_report

    sections = [AlignmentSection("Each hypothesis word in the premise", back, premise, hypothesis)]
    if there is not None:
        sections.insert(
            0, AlignmentSection("Each premise word in the hypothesis", there, hypothesis, premise)
        )
    if is_page(out):
        write_report(out, title="Soft alignment", summary=label, sections=sections)
        return
    panels = [Panel(one.weights, one.source, one.target, one.title.lower()) for one in sections]
    draw_gallery(panels, title=label, columns=len(panels), path=out)


def draw_pooled(
    first: Tensor | None, second: Tensor, premise: list[str], hypothesis: list[str], label: str, out: Path
) -> None:
    """Draw what each sentence's vector is made of: (1, Ta) and (1, Tb) weights of its own words."""
    from regard.viz.heatmap import draw_alignment
    from regard.viz.report import AlignmentSection, write_report

    assert first is not None
    weights = torch.block_diag(first, second)  # type: ignore[no-untyped-call]  # (2, Ta + Tb)
    words, rows = [*premise, *hypothesis], ["premise", "hypothesis"]
    if is_page(out):
        section = AlignmentSection("The words that each sentence's vector is made of", weights, words, rows)
        write_report(out, title="Attention pooling", summary=label, sections=[section])
        return
    draw_alignment(weights, words, rows, title=label, path=out)
