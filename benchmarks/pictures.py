"""Pictures of the documentation that need no training: memory addressing, memory writing, gold alignments.

    python benchmarks/pictures.py

Writes docs/pictures/*.png with a caption beside each. That of the public corpora needs them in REGARD_DATA.
"""

import os
from itertools import islice

import torch
from common import PICTURES, caption

from regard.attention.memory.addressing import content_weights, interpolate, sharpen, shift
from regard.attention.memory.cells import write
from regard.data.corpora import CORPORA
from regard.data.grammar import generate
from regard.tasks.pictures import Cifar10Settings, Cifar10Task, PairedShapesSettings, PairedShapesTask
from regard.tasks.reverse import ReverseSettings, ReverseTask
from regard.viz.curves import draw_lengths
from regard.viz.heatmap import Panel, draw_alignment, draw_gallery
from regard.viz.pictures import draw_samples

ROWS = 12


def draw_addressing() -> None:
    """The four stages of equations 5 to 9, on a memory of twelve rows."""
    torch.manual_seed(4)
    cells = torch.randn(1, ROWS, 6)
    key = cells[:, 3] + 0.4 * torch.randn(1, 6)
    previous = torch.zeros(1, ROWS).index_fill(1, torch.tensor([8]), 1.0)
    content = content_weights(cells, key, torch.tensor([[6.0]]))
    gated = interpolate(content, previous, torch.tensor([[0.7]]))
    shifted = shift(gated, torch.tensor([[0.05, 0.15, 0.8]]))
    sharp = sharpen(shifted, torch.tensor([[4.0]]))
    stages = torch.cat([previous, content, gated, shifted, sharp])
    names = ["where it stood", "by content", "interpolated", "shifted by +1", "sharpened"]
    draw_alignment(stages, [str(i) for i in range(ROWS)], names, path=PICTURES / "memory-ntm-addressing.png")
    caption(
        "memory-ntm-addressing",
        "The stages of addressing over twelve memory rows. The key resembles row 3; the head stood at row 8; "
        "the gate takes 70 % of the content; most of the shift is one row forward.",
    )


def draw_writing() -> None:
    """A memory before and after a write."""
    torch.manual_seed(1)
    cells = torch.rand(1, ROWS, 8)
    where = torch.zeros(1, ROWS).index_fill(1, torch.tensor([5]), 0.9).index_fill(1, torch.tensor([6]), 0.1)
    add = torch.tensor([[1.0, 0.0] * 4])
    after = write(cells, where, torch.ones(1, 8), add)
    columns, rows = [str(i) for i in range(8)], [str(i) for i in range(ROWS)]
    panels = [Panel(cells[0], columns, rows, "before"), Panel(after[0].clamp(0, 1), columns, rows, "after")]
    draw_gallery(panels, path=PICTURES / "memory-ntm-memory.png")
    caption(
        "memory-ntm-memory",
        "A write with weight 0.9 on row 5 and 0.1 on row 6: the old content is erased to that extent and an "
        "alternating pattern is added.",
    )


def draw_tasks() -> None:
    """Gold alignments of the two embedded tasks."""
    wanted = (pair for pair in generate("zh", "test", seed=5, words=(11, 14)) if "who" in pair.source)
    [pair] = islice(wanted, 1)
    links = torch.zeros(len(pair.target), len(pair.source))
    for s, t in pair.links:
        links[t, s] = 1.0
    draw_alignment(links, pair.source, pair.target, path=PICTURES / "task-grammar.png")
    caption(
        "task-grammar",
        "The gold links of one English-Chinese pair: the relative clause stands before its noun.",
    )
    task = ReverseTask.create(ReverseSettings(test=1))
    [example] = task.examples("test")
    source, target = example.source.split(), example.target.split()
    links = torch.zeros(len(target), len(source))
    for s, t in example.links or ():
        links[t, s] = 1.0
    draw_alignment(links, source, target, path=PICTURES / "task-reverse.png")
    caption("task-reverse", "The gold alignment of one sequence: the anti-diagonal.")


def draw_corpora() -> None:
    """How long the English sentences of the public corpora are; no sentence is shown."""
    edges = list(range(1, 26, 3))
    lines = {}
    for name, split in (("multi30k", "train"), ("tatoeba", "train"), ("hansards", "test")):
        corpus = next(corpus for key, corpus in CORPORA.items() if key.startswith(name))
        lengths = [len(pair.source.split()) for pair in corpus.stream(split)]
        lines[name] = [
            (low, high - 1, 100 * sum(low <= length < high for length in lengths) / len(lengths))
            for low, high in zip(edges, [*edges[1:], 10_000], strict=True)
        ]
        lines[name][-1] = (edges[-1], float("inf"), lines[name][-1][2])
    path = PICTURES / "task-corpus.png"
    draw_lengths(lines, path, xlabel="English words between spaces", ylabel="% of the sentences")
    caption(
        "task-corpus",
        "How long the English sentences are: captions of Multi30k, everyday sentences of Tatoeba, debates of "
        "the Hansards.",
    )


def draw_pairs() -> None:
    """Paired shapes, by class."""
    task = PairedShapesTask.create(PairedShapesSettings())
    batch = task.batch("test", range(400))
    by_class = [batch.pictures[batch.labels == number][:10] for number in range(len(task.classes))]
    path = PICTURES / "task-paired-shapes.png"
    draw_samples(torch.stack(by_class), task.classes, path=path)
    caption("task-paired-shapes", "Test pictures by class: the same shape twice, in one colour.")


def draw_cifar10() -> None:
    """The mean of each class of CIFAR-10; no photograph is shown."""
    task = Cifar10Task.create(Cifar10Settings())
    batch = task.batch("train", range(task.count("train")))
    means = [batch.pictures[batch.labels == number].float().mean(0) for number in range(len(task.classes))]
    shown = torch.stack(means).round().to(torch.uint8)[None]
    path = PICTURES / "task-cifar10.png"
    draw_samples(shown, ["mean"], title=", ".join(task.classes), path=path)
    caption("task-cifar10", "The mean of the training photographs of each class, from airplane to truck.")


if __name__ == "__main__":
    if os.environ.get("REGARD_DATA"):
        draw_corpora()
        draw_cifar10()
    draw_pairs()
    draw_addressing()
    draw_writing()
    draw_tasks()
