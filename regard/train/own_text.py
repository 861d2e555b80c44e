"""The Transformer trained by `regard train --source A --target B`, sized by the number of sentence pairs.

Small corpora get a small network and R-Drop (two dropout passes that should agree); large ones the paper's
base size. A run makes `passes` passes over the text and stops early if the validation loss has not improved
for `PATIENCE` evaluations. The weights of the best evaluation are kept.

`benchmarks/own_text.py` compares the rows with alternatives; docs/how-to/corpora.md says which were measured.
"""

from dataclasses import dataclass

RECIPE = "own-text"  # shared by all sizes
LETTERS = 4  # bytes of text per subword, roughly
FEWEST, MOST = 300, 300_000  # steps
EVALUATIONS = 40  # in a whole run
PATIENCE = 10  # evaluations without improvement


@dataclass(frozen=True)
class Size:
    """A network and its training, for at least `pairs` sentence pairs."""

    pairs: int
    layers: int
    d_model: int
    d_ff: int
    heads: int
    dropout: float
    vocabulary: int  # subwords; one vocabulary for both sides, or one each
    batch: int  # tokens
    warmup: int
    lr: float
    smoothing: float
    r_drop: float
    passes: int  # over the text


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
    """The largest size for at most this many pairs."""
    return next(size for size in reversed(SIZES) if size.pairs <= pairs)


def settings_for(pairs: int, size_in_bytes: int, *, joint: bool, gpu: bool) -> list[str]:
    """The overrides of the recipe, each `table.key=value`, for this many pairs and bytes of text.

    `joint`: one vocabulary for both sides. `gpu`: train in bfloat16 with captured steps, on an NVIDIA GPU.
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
