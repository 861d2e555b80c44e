"""What is far apart is brought together: with attention over the feature map, and not without.

A plain dot must be painted in the colour of the coloured dot of its kind, which stands in another quarter of
the map, beyond what the convolutions see. Two kinds: who only knows which colours there are is right for two
thirds of the dots at most, who knows nothing of the rest of the map for a third.
"""

import pytest
import torch
import torch.nn.functional as F
from measures import at_least, at_most
from torch import nn

from regard import record
from regard.layers.feature_maps import NonLocalBlock, SelfAttention2d

pytestmark = pytest.mark.slow
COLOURS, KINDS, SIDE = 3, 2, 6


def scenes(B, generator):
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

    def __init__(self, block, channels=32):
        super().__init__()
        self.see = nn.Conv2d(KINDS + COLOURS, channels, 3, padding=1)
        self.block = block(channels)
        self.think, self.paint = nn.Conv2d(channels, channels, 1), nn.Conv2d(channels, COLOURS, 1)

    def forward(self, x):
        return self.paint(torch.relu(self.think(self.block(torch.relu(self.see(x))))))


def learn(block, *, pinned=False, steps=200):
    generator = torch.Generator().manual_seed(torch.initial_seed())
    net = Painter(block)
    if pinned:
        net.block.gamma.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad])
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = 0.01 * min(1, (step + 1) / 30) * (1 - step / steps)
        x, wanted = scenes(64, generator)
        loss = F.cross_entropy(net(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return net.eval()


def share_right(net):
    x, wanted = scenes(500, torch.Generator().manual_seed(99))
    with torch.no_grad():
        found = net(x).argmax(1)
    asked = wanted >= 0
    return (found[asked] == wanted[asked]).double().mean().item()


def test_self_attention_paints_far_dots_alike_and_with_gamma_held_at_0_it_cannot():
    def layer(channels):
        return SelfAttention2d(channels, narrow=2, pool=1)

    net = learn(layer)
    at_least(share_right(net), 0.97, "right", mean=1.0000, sd=0.0000)
    at_least(abs(net.block.gamma.item()), 0.05, "gamma", mean=0.4436, sd=0.0289)
    at_least(looked_at_its_kind(net), 0.6, "weight on its kind", mean=0.9362, sd=0.0611)
    net.block.gamma.data.zero_()  # what was learnt is lost without it
    at_most(share_right(net), 0.6, "right with gamma at 0", mean=0.3349, sd=0.0105)
    at_most(
        share_right(learn(layer, pinned=True)), 0.45, "right with gamma held at 0", mean=0.3332, sd=0.0090
    )


def looked_at_its_kind(net):
    """The mean weight that plain dots give to the 3 × 3 places that see the coloured dot of their kind."""
    x, wanted = scenes(200, torch.Generator().manual_seed(5))
    with torch.no_grad(), record(net) as trace:
        net(x)
    weights = trace["block.attention"][0].weights.squeeze(1).unflatten(2, (SIDE, SIDE))
    total, count = 0.0, 0
    for b, i, j in (wanted >= 0).nonzero().tolist():
        kind = x[b, :KINDS, i, j].argmax()
        coloured = x[b, kind] * x[b, KINDS:].sum(0)
        near = F.max_pool2d(coloured[None, None], 3, stride=1, padding=1)[0, 0]
        total += (weights[b, i * SIDE + j] * near).sum().item()
        count += 1
    return total / count


@pytest.mark.parametrize("form", ["gaussian", "embedded"])
def test_a_non_local_block_with_a_softmax_finds_the_right_dot(form):
    net = learn(lambda channels: NonLocalBlock(channels, form=form, norm=False), steps=300)
    at_least(share_right(net), 0.85, "right", mean=0.9947, sd=0.0239)


def open_rectifier(channels):
    """The block of concatenation, every pair's score near 1 at first.

    It is w_fᵀ [θ, φ] behind a ReLU, one number for all pairs of one side and the other: if that begins below
    0 for all of them, as about every third does, no gradient reaches it and the block stays what it is.
    """
    block = NonLocalBlock(channels, form="concatenation", norm=False)
    w = block.attention.score.U.weight[0]
    with torch.no_grad():
        block.phi.bias.copy_(w / (w @ w))
    return block


def dot(channels):
    return NonLocalBlock(channels, form="dot", norm=False)


@pytest.mark.parametrize("block", [dot, open_rectifier])
def test_in_this_budget_one_that_divides_by_n_finds_which_colours_there_are(block):
    """Some have found the kinds too by then: more than two thirds count as two thirds."""
    at_least(min(share_right(learn(block)), 2 / 3), 0.5, "right, two thirds at most", mean=0.6531, sd=0.0363)


def test_convolutions_alone_cannot():
    at_most(
        share_right(learn(lambda channels: nn.Conv2d(channels, channels, 1))),
        0.45,
        "right",
        mean=0.3291,
        sd=0.0078,
    )
