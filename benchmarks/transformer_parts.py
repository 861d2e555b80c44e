"""The Transformer's parts on one small task: positions, norms, heads, the scale.

    python benchmarks/transformer_parts.py [--only sinusoidal,none]

A Transformer of two layers (recipe transformer-reverse) learns to write 4 to 12 symbols backwards under
another alphabet; then the same with one part replaced, each under the same budget and seed. Measured on 256
new sequences of each length: the share of right symbols, decoded greedily. Lengths 16 and 20 were never seen.

Writes results/transformer-parts.json, docs/pictures/model-transformer.png and
docs/pictures/layer-sinusoidal-positions.png.
"""

import time

import torch
from common import PICTURES, arguments, caption, keep
from reversing import EXAMPLE, share_right, tested, train

from regard.attention.config import AttentionConfig
from regard.decode.forced import forced
from regard.layers.positions import sinusoids
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.reverse import ReverseSettings, ReverseTask
from regard.train.config import load_recipe
from regard.viz.heatmap import draw_alignment, draw_heads

RECIPE, SEED, LENGTHS = "transformer-reverse", 1, (4, 8, 12, 16, 20)
PARTS: dict[str, dict[str, object]] = {
    "sinusoidal": {},
    "none": {"positions": "none"},
    "learned": {"positions": "learned"},
    "batch norm": {"norm_kind": "batch"},
    "pre-norm": {"norm": "pre"},
    "one head": {"attention": AttentionConfig("scaled-dot", heads=1)},
    "unscaled": {"attention": AttentionConfig("dot"), "d_k": 256},
}
CATALOGUE = {
    "sinusoidal": ["model:transformer", "layer:sinusoidal-positions"],
    "none": ["layer:sinusoidal-positions"],
}
SAYS = {"none": "without positions {:.0f} %", "sinusoidal": "{:.0f} % of symbols right at length 12"}


def measure(name: str, settings: dict[str, object]) -> Transformer:
    """Train one, measure it, write its result."""
    torch.set_num_threads(1)
    config = load_recipe(RECIPE, [f"train.seed={SEED}"])
    task = ReverseTask.create(ReverseSettings(**config.task_settings))
    torch.manual_seed(SEED)
    given = config.model_settings | settings | task.sizes()
    model = Transformer(TransformerConfig(**given))  # type: ignore[arg-type]
    started = time.process_time()
    summary = train(model, task, config)
    seconds = time.process_time() - started
    right = {length: share_right(model, task, length) for length in LENGTHS}
    print(
        name,
        {k: round(v, 3) for k, v in right.items()},
        f"loss {summary.best_loss:.4f}, {seconds:.0f} s",
        flush=True,
    )
    keep(
        "transformer-parts",
        f"{name}: symbols right at length 12, written backwards",
        round(right[12], 4),
        seconds=seconds,
        note="a small task with known alignments, not the paper's",
        seeds=(SEED,),
        details={
            "catalogue": CATALOGUE.get(name, []),
            "headline": name in CATALOGUE,
            "summary": SAYS.get(name, "{:.0f} %").format(100 * right[12]),
            "order": list(PARTS).index(name),
            "steps": config.train.steps,
            "by length": {str(length): round(share, 4) for length, share in right.items()},
            "validation loss": summary.best_loss,
            "parameters": sum(p.numel() for p in model.parameters()),
        },
    )
    return model


def draw(model: Transformer) -> None:
    """Every head of every decoder layer over the source, on one test sequence; and the table of positions."""
    task = tested(ReverseTask.create(ReverseSettings()), 12)
    example = task.examples("test")[EXAMPLE]
    [track] = forced(model, task.batch("test", [EXAMPLE]))
    source, target = [*example.source.split(), "<eos>"], [*example.target.split(), "<eos>"]
    layers = [path for path in track.attention if "source_attention" in path]
    weights = torch.cat([track.attention[path] for path in layers])
    heads = model.shape.heads
    names = [f"layer {i // heads + 1}, head {i % heads + 1}" for i in range(len(weights))]
    draw_heads(weights, source, target, names=names, columns=heads, path=PICTURES / "model-transformer.png")
    caption(
        "model-transformer",
        "A Transformer of two layers writes twelve symbols backwards: each map is one head's attention over "
        "the source, rows are symbols written, columns symbols read.",
    )
    table = (sinusoids(32, 64) + 1) / 2
    draw_alignment(
        table,
        [str(i) for i in range(64)],
        [str(t) for t in range(32)],
        path=PICTURES / "layer-sinusoidal-positions.png",
    )
    caption(
        "layer-sinusoidal-positions",
        "What is added to the words at positions 0 to 31 (rows) in 64 features (columns), drawn as (PE + 1) "
        "/ 2: white is -1, dark is 1. Each pair of columns turns at its own speed.",
    )


def main() -> None:
    """Measure all, or those named."""
    parser = arguments(__doc__)
    parser.add_argument("--only", default="")
    wanted = set(filter(None, parser.parse_args().only.split(",")))
    for name, settings in PARTS.items():
        if not wanted or name in wanted:
            model = measure(name, settings)
            if name == "sinusoidal":
                draw(model)


if __name__ == "__main__":
    main()
