"""Attention pooling against global average pooling: the class depends on one position of many.

    python benchmarks/pooling.py

S positions have a symbol of twelve each, and one bears a mark; the class is the symbol under the mark. The
vector of a position is the sum of its symbol's and its mark's; one linear layer follows the pooling, so the
wanted symbol must be picked out before vectors are mixed. The mean of such vectors tells which symbols are
there and that one is marked, not which. Both poolings learn under the same budget, with three seeds each.

Writes results/pooling.json and docs/pictures/layer-attention-pooling.png.
"""

import time
from itertools import product

import torch
import torch.nn.functional as F
from common import PICTURES, caption, keep
from torch import Tensor, nn

from regard.attention.record import record
from regard.layers.pooling import PoolingName, build_pooling
from regard.viz.heatmap import draw_alignment

PICTURE = PICTURES / "layer-attention-pooling.png"
SYMBOLS, SIZE, LENGTHS, SEEDS = 12, 32, (10, 40, 160), (1, 2, 3)
STEPS, BATCH, TESTED = 400, 64, 2000
POOLINGS: tuple[PoolingName, ...] = ("attention", "average")
LETTERS = "abcdefghijkl"


def marked(B: int, S: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """(B, S, 2) symbols and marks, (B,) the marked symbols."""
    symbols = torch.randint(SYMBOLS, (B, S), generator=generator)
    place = torch.randint(S, (B, 1), generator=generator)
    marks = (torch.arange(S) == place).long()
    return torch.stack([symbols, marks], -1), symbols.gather(1, place)[:, 0]


class Reader(nn.Module):
    """Adds vectors of symbols and marks, pools them and classifies the result."""

    def __init__(self, pooling: PoolingName) -> None:
        super().__init__()
        self.symbols, self.marks = nn.Embedding(SYMBOLS, SIZE), nn.Embedding(2, SIZE)
        self.pool = build_pooling(pooling, inputs=SIZE, hidden=SIZE)
        self.W = nn.Linear(SIZE, SYMBOLS)

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, 2) -> (B, SYMBOLS) scores."""
        out: Tensor = self.W(self.pool(self.symbols(x[..., 0]) + self.marks(x[..., 1])))
        return out


def train(pooling: PoolingName, S: int, seed: int) -> tuple[Reader, float]:
    """A trained reader, and its accuracy on new sequences."""
    torch.manual_seed(seed)
    model, generator = Reader(pooling), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        x, y = marked(BATCH, S, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    x, y = marked(TESTED, S, torch.Generator().manual_seed(1000 + seed))
    with torch.no_grad():
        return model, float((model(x).argmax(-1) == y).float().mean())


def measure(pooling: PoolingName, S: int, order: int) -> Reader:
    """Train with every seed, write the result."""
    started, values = time.process_time(), []
    for seed in SEEDS:
        model, value = train(pooling, S, seed)
        values.append(round(value, 4))
    mean, last = sum(values) / len(values), LENGTHS[-1] == S
    print(pooling, S, values, f"{time.process_time() - started:.0f} s", flush=True)
    said = "{:.0f} % right of 160 positions" if pooling == "attention" else "their mean {:.0f} %"
    keep(
        "pooling",
        f"{pooling}: right of {S} positions, one of which is marked",
        round(mean, 4),
        seconds=time.process_time() - started,
        note="a task made for this; chance is 0.083",
        seeds=SEEDS,
        details={
            "catalogue": ["layer:attention-pooling"] if last else [],
            "headline": last,
            "summary": said.format(100 * mean),
            "order": order,
            "values": values,
            "steps": STEPS,
            "positions": S,
        },
    )
    return model


def draw(model: Reader) -> None:
    """The weights of six sequences; the marked position is framed."""
    S, rows = 24, 6
    x, y = marked(rows, S, torch.Generator().manual_seed(7))
    with torch.no_grad(), record(model) as trace:
        said = model(x).argmax(-1)
        weights = trace["pool.attention"][0].weights[:, 0]
    names = [f"{LETTERS[int(a)]}, called {LETTERS[int(b)]}" for a, b in zip(y, said, strict=True)]
    gold = [(int(x[row, :, 1].argmax()), row) for row in range(rows)]
    positions = [str(s + 1) for s in range(S)]
    draw_alignment(weights, positions, names, gold=gold, key="the marked position", path=PICTURE)
    caption(
        PICTURE.stem,
        "Attention pooling on six sequences of 24 symbols: the orange frame is the marked position, whose "
        "symbol is the class; shades are the weights with which the positions go into the pooled vector.",
    )


def main() -> None:
    """Measure both poolings at every length; draw the last attention."""
    torch.set_num_threads(1)
    for order, (S, pooling) in enumerate(product(LENGTHS, POOLINGS)):
        model = measure(pooling, S, order)
        if pooling == "attention":
            shown = model
    draw(shown)


if __name__ == "__main__":
    main()
