"""The Transformer that `regard train --source A --target B` takes, sized by the number of pairs.

Little text wants a small network and predictions that agree under two dropouts (R-Drop); much text the
paper's base size. A run makes `passes` passes through the text and ends before them when the validation loss
has not fallen for `PATIENCE` evaluations. The weights of the best evaluation are kept.

`benchmarks/own_text.py` measures the rows against others; docs/how-to/corpora.md says which were measured.
"""

from dataclasses import dataclass

RECIPE = "own-text"  # what all sizes share
LETTERS = 4  # bytes of text for a piece, roughly
FEWEST, MOST = 300, 300_000  # steps
EVALUATIONS = 40  # in a whole run
PATIENCE = 10  # evaluations without improvement


@dataclass(frozen=True)
class Size:
    """A network and how it is trained, for so many sentence pairs or more."""

    pairs: int
    layers: int
    d_model: int
    d_ff: int
    heads: int
    dropout: float
    vocabulary: int  # pieces; one vocabulary for both sides, or one each
    batch: int  # tokens
    warmup: int
    lr: float
    smoothing: float
    r_drop: float
    passes: int  # through the text


# pairs, layers, d_model, d_ff, heads, dropout, vocabulary, batch, warmup, lr, smoothing, r_drop, passes
SIZES = (
    Size(        0, 2, 128,  512, 4, 0.3,   8000,   1024,  200,  0.001, 0.1, 3.0, 100),
    Size(    2_000, 3, 128,  512, 4, 0.3,   8000,   2048,  300,  0.001, 0.1, 3.0,  80),
    Size(    6_000, 3, 256, 1024, 4, 0.2,   8000,   4096,  500,  0.001, 0.1, 3.0,  70),
    Size(   20_000, 3, 256, 1024, 4, 0.2,   8000,   8192, 1000,  0.001, 0.1, 3.0,  60),
    Size(   60_000, 4, 256, 1024, 4, 0.2,   8000,   8192, 1000,  0.001, 0.1, 1.0,  30),
    Size(  200_000, 5, 384, 1536, 6, 0.1, 12_000, 16_384, 2000,  0.001, 0.1, 0.0,  25),
    Size(  600_000, 6, 512, 2048, 8, 0.1, 16_000, 16_384, 4000, 0.0007, 0.1, 0.0,  20),
    Size(3_000_000, 6, 512, 2048, 8, 0.1, 32_000, 32_768, 4000, 0.0007, 0.1, 0.0,  10),
)  # fmt: skip


def size_for(pairs: int) -> Size:
    """The last row of the table that asks for no more pairs."""
    return next(size for size in reversed(SIZES) if size.pairs <= pairs)


def settings_for(pairs: int, size_in_bytes: int, *, joint: bool, gpu: bool) -> list[str]:
    """What differs from the recipe, each `table.key=value`: for this many pairs, of so much text.

    `joint`: one vocabulary for both sides. `gpu`: an NVIDIA GPU trains in bfloat16, each step recorded once.
    """
    size = size_for(pairs)
    steps = int(min(max(size.passes * size_in_bytes / LETTERS / size.batch, FEWEST), MOST))
    every = max(steps // EVALUATIONS, 50)
    return [
        f"model.layers={size.layers}",
        f"model.d_model={size.d_model}",
        f"model.d_ff={size.d_ff}",
        f"model.attention.heads={size.heads}",
        f"model.dropout={size.dropout}",
        f"model.tied={'all' if joint else 'target'}",
        f"task.joint={str(joint).lower()}",
        f"task.size={size.vocabulary}",
        f"task.smoothing={size.smoothing}",
        f"task.r_drop={size.r_drop}",
        f"train.steps={steps}",
        f"train.batch={size.batch}",
        f"train.lr={size.lr}",
        f"train.warmup={min(size.warmup, steps // 10)}",
        f"train.evaluate_every={every}",
        f"train.checkpoint_every={every}",
        f"train.patience={PATIENCE}",
        *(("train.precision=bf16", "train.capture=true") if gpu else ()),
    ]
