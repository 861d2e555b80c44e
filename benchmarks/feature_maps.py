"""Attention over feature maps on one small task: what each layer learns, and where its places look.

    python benchmarks/feature_maps.py [--steps 400] [--only embedded,self-attention]
    python benchmarks/feature_maps.py --memory        # on a GPU: SAGAN with attention at 32 × 32, batch 64

A plain dot must be painted in the colour of the coloured dot of its kind, which stands in another quarter of
a map of 6 × 6 places. A 3 × 3 convolution sees no two dots at once, so a network without attention can only
guess (a third is right); one that knows which colours there are, but not whose, is right for two thirds.
Measured on 2,000 new maps: the share of plain dots painted rightly.

Writes results/feature-maps.json and docs/pictures/layer-KEY.png.
"""

import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from common import PICTURES, arguments, caption, keep
from torch import Tensor, nn

from regard.attention.record import record
from regard.data.shapes import COLOURS as PALETTE
from regard.layers.feature_maps import NonLocalBlock, SelfAttention2d
from regard.models.sagan import SAGAN, SAGANConfig
from regard.viz.pictures import Look, draw_samples

COLOURS, KINDS, SIDE, CHANNELS, BATCH, TESTED, SEED = 3, 2, 6, 16, 64, 2000, 1
PAINT = torch.tensor(list(PALETTE.values())[:COLOURS], dtype=torch.uint8)
GROUND, PLAIN, CELL = 35, 190, 9  # shades, and pixels of a place as it is drawn

Block = Callable[[], nn.Module]
BLOCKS: dict[str, tuple[Block, tuple[str, ...]]] = {  # name -> the layer, rows of the catalogue it stands for
    "self-attention": (
        lambda: SelfAttention2d(CHANNELS, narrow=2, pool=1),
        ("layer:self-attention-2d",),
    ),
    "embedded": (lambda: NonLocalBlock(CHANNELS, hidden=CHANNELS), ("layer:non-local",)),
    "gaussian": (lambda: NonLocalBlock(CHANNELS, form="gaussian", hidden=CHANNELS), ("layer:non-local",)),
    "dot": (lambda: NonLocalBlock(CHANNELS, form="dot", hidden=CHANNELS), ("layer:non-local",)),
    "concatenation": (
        lambda: NonLocalBlock(CHANNELS, form="concatenation", hidden=CHANNELS, norm=False),
        ("layer:non-local",),
    ),
    "convolution alone": (lambda: nn.Conv2d(CHANNELS, CHANNELS, 1), ()),
}
DRAWN = {"self-attention": "self-attention-2d", "embedded": "non-local"}


def scenes(B: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Maps (B, kinds + colours, 6, 6), and the colour wanted at each plain dot, -100 elsewhere."""
    x, wanted = torch.zeros(B, KINDS + COLOURS, SIDE, SIDE), torch.full((B, SIDE, SIDE), -100)
    quarter = torch.rand(B, 2 * KINDS, generator=generator).argsort(1)
    offset = torch.randint(2, (B, 2 * KINDS, 2), generator=generator)
    i, j = quarter // 2 * 4 + offset[..., 0], quarter % 2 * 4 + offset[..., 1]  # at least three apart
    colour, row = torch.randint(COLOURS, (B, KINDS), generator=generator), torch.arange(B)
    for kind in range(KINDS):
        coloured, plain = (row, i[:, kind], j[:, kind]), (row, i[:, KINDS + kind], j[:, KINDS + kind])
        for b, down, right in (coloured, plain):
            x[b, kind, down, right] = 1
        x[coloured[0], KINDS + colour[:, kind], coloured[1], coloured[2]] = 1
        wanted[plain] = colour[:, kind]
    return x, wanted


class Painter(nn.Module):
    """A 3 × 3 convolution, a block, two layers a place."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.see = nn.Conv2d(KINDS + COLOURS, CHANNELS, 3, padding=1)
        self.block = block
        self.think, self.paint = nn.Conv2d(CHANNELS, CHANNELS, 1), nn.Conv2d(CHANNELS, COLOURS, 1)

    def forward(self, x: Tensor) -> Tensor:
        """(B, kinds + colours, 6, 6) -> (B, colours, 6, 6)."""
        painted: Tensor = self.paint(torch.relu(self.think(self.block(torch.relu(self.see(x))))))
        return painted


def measure(name: str, steps: int) -> None:
    """Train one, measure it, draw it, record the result."""
    build, rows = BLOCKS[name]
    torch.manual_seed(SEED)
    generator, net = torch.Generator().manual_seed(SEED), Painter(build())
    optimizer = torch.optim.Adam(net.parameters())
    started = time.perf_counter()
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.01 * min(1, (step + 1) / 30) * (1 - step / steps)
        x, wanted = scenes(BATCH, generator)
        loss = F.cross_entropy(net(x), wanted)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    seconds = time.perf_counter() - started
    net.eval()
    x, wanted = scenes(TESTED, torch.Generator().manual_seed(99))
    with torch.no_grad():
        found = net(x).argmax(1)
    asked = wanted >= 0
    right = float((found[asked] == wanted[asked]).double().mean())
    print(f"{name}: {100 * right:.1f} % right, {seconds:.0f} s", flush=True)
    if name in DRAWN:
        draw(net, PICTURES / f"layer-{DRAWN[name]}.png")
    keep(
        "feature-maps",
        f"{name}: far dots painted rightly",
        round(right, 4),
        seconds=seconds,
        note="a small task that needs what is far away, not the paper's",
        seeds=(SEED,),
        details={
            "catalogue": list(rows),
            "headline": name in DRAWN,
            "summary": f"{100 * right:.0f} % of far dots painted rightly; convolutions alone a third",
            "order": list(BLOCKS).index(name),
            "steps": steps,
            "parameters": sum(p.numel() for p in net.parameters()),
        },
    )


def shown(x: Tensor, found: Tensor | None = None) -> Tensor:
    """One map as pixels: the first kind is a square, the second a bar; plain dots are grey or as found."""
    pixels = torch.full((SIDE * CELL, SIDE * CELL, 3), GROUND, dtype=torch.uint8)
    for kind, i, j in x[:KINDS].nonzero().tolist():
        colour = x[KINDS:, i, j]
        shade = PAINT[int(colour.argmax())] if colour.any() else torch.full((3,), PLAIN)
        if found is not None and not colour.any():
            shade = PAINT[int(found[i, j])]
        edge = 1 if kind == 0 else 3
        pixels[i * CELL + edge : (i + 1) * CELL - edge, j * CELL + 1 : (j + 1) * CELL - 1] = shade
    return pixels


def draw(net: Painter, path: Path) -> None:
    """Eight maps as given and as painted, and where the plain dots of two of them look."""
    x, wanted = scenes(8, torch.Generator().manual_seed(7))
    with torch.no_grad(), record(net) as trace:
        found = net(x).argmax(1)
    weights = trace["block.attention"][0].weights[:, 0]  # (B, N, N)
    rows = [shown(each) for each in x], [shown(*pair) for pair in zip(x, found, strict=True)]
    pictures = torch.stack([torch.stack(row) for row in rows])
    looks = []
    for b in range(2):
        places = (wanted[b] >= 0).nonzero().tolist()
        looks.append(
            Look(
                shown(x[b]),
                [((i + 0.5) / SIDE, (j + 0.5) / SIDE) for i, j in places],
                torch.stack([weights[b, i * SIDE + j] for i, j in places]),
                "looked at",
            )
        )
    draw_samples(pictures, ["given", "painted"], looks, path=path)
    caption(
        path.stem,
        "Grey dots must take the colour of the dot of their shape, far away. Below, bright where the marked "
        "dot looked.",
    )


def memory() -> None:
    """The peak of a training step of SAGAN with attention at 32 × 32 places, keys as fine as queries."""
    device = torch.device("cuda")
    config = SAGANConfig(classes=10, side=32, attention=(32,), pool=1)
    model = SAGAN(config).to(device)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], betas=(0.0, 0.9))
    x, y = torch.randn(BATCH, 3, 32, 32, device=device), torch.arange(BATCH, device=device) % 10
    torch.cuda.reset_peak_memory_stats()
    started = time.perf_counter()
    for _ in range(3):
        for player in model.players:
            with torch.autocast("cuda", torch.bfloat16):
                losses = model(x, y, player=player.name)
            optimizer.zero_grad()
            losses.sum().backward()
            optimizer.step()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated()
    print(f"SAGAN, attention at 32 × 32, batch {BATCH}: {peak / 1e9:.2f} GB at the peak", flush=True)
    keep(
        "feature-maps",
        "SAGAN, attention at 32 × 32 places, batch 64: peak memory of training, GB",
        round(peak / 1e9, 3),
        seconds=time.perf_counter() - started,
        note="",
        seeds=(SEED,),
        details={"catalogue": ["layer:self-attention-2d"], "headline": False, "order": 9},
    )


def main() -> None:
    """Measure all, or those named."""
    parser = arguments(__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--only", default="")
    parser.add_argument("--memory", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.memory:
        memory()
        return
    for name in list(filter(None, options.only.split(","))) or BLOCKS:
        measure(name, options.steps)


if __name__ == "__main__":
    main()
