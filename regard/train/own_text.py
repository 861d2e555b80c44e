"""The Transformer that `regard train --source A --target B` takes, sized by the number of pairs.

Little text wants a small network and predictions that agree under two dropouts (R-Drop); much text the
paper's base size. A run makes `passes` passes through the text and ends before them when the validation loss
has not fallen for `PATIENCE` evaluations. The weights of the best evaluation are kept.

`benchmarks/own_text.py` measures the rows against others; docs/own-text.md says which were measured.
"""

from dataclasses import dataclass

RECIPE = "own-text"  # what all sizes share
LETTERS = 4  # bytes of text for a piece, roughly
FEWEST, MOST = 300, 300_000  # steps
EVALUATIONS = 40  # in a whole run
PATIENCE = 10  # evaluations without improvement


@dataclass(frozen=True, kw_only=True)
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


SIZES = (
    Size(
        pairs=0,
        layers=2,
        d_model=128,
        d_ff=512,
        heads=4,
        dropout=0.3,
        vocabulary=8000,
        batch=1024,
        warmup=200,
        lr=0.001,
        smoothing=0.1,
        r_drop=3.0,
        passes=100,
    ),
    Size(
        pairs=2_000,
        layers=3,
        d_model=128,
        d_ff=512,
        heads=4,
        dropout=0.3,
        vocabulary=8000,
        batch=2048,
        warmup=300,
        lr=0.001,
        smoothing=0.1,
        r_drop=3.0,
        passes=80,
    ),
    Size(
        pairs=6_000,
        layers=3,
        d_model=256,
        d_ff=1024,
        heads=4,
        dropout=0.2,
        vocabulary=8000,
        batch=4096,
        warmup=500,
        lr=0.001,
        smoothing=0.1,
        r_drop=3.0,
        passes=70,
    ),
    Size(
        pairs=20_000,
        layers=3,
        d_model=256,
        d_ff=1024,
        heads=4,
        dropout=0.2,
        vocabulary=8000,
        batch=8192,
        warmup=1000,
        lr=0.001,
        smoothing=0.1,
        r_drop=3.0,
        passes=60,
    ),
    Size(
        pairs=60_000,
        layers=4,
        d_model=256,
        d_ff=1024,
        heads=4,
        dropout=0.2,
        vocabulary=8000,
        batch=8192,
        warmup=1000,
        lr=0.001,
        smoothing=0.1,
        r_drop=1.0,
        passes=30,
    ),
    Size(
        pairs=200_000,
        layers=5,
        d_model=384,
        d_ff=1536,
        heads=6,
        dropout=0.1,
        vocabulary=12_000,
        batch=16_384,
        warmup=2000,
        lr=0.001,
        smoothing=0.1,
        r_drop=0.0,
        passes=25,
    ),
    Size(
        pairs=600_000,
        layers=6,
        d_model=512,
        d_ff=2048,
        heads=8,
        dropout=0.1,
        vocabulary=16_000,
        batch=16_384,
        warmup=4000,
        lr=0.0007,
        smoothing=0.1,
        r_drop=0.0,
        passes=20,
    ),
    Size(
        pairs=3_000_000,
        layers=6,
        d_model=512,
        d_ff=2048,
        heads=8,
        dropout=0.1,
        vocabulary=32_000,
        batch=32_768,
        warmup=4000,
        lr=0.0007,
        smoothing=0.1,
        r_drop=0.0,
        passes=10,
    ),
)


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
