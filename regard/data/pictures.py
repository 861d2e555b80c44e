"""Small pictures with a class each: batches, conversion for networks, and pairs of shapes.

A paired scene has the same shape in the same colour twice, left and right, at independent heights:

    the class is the shape; the colour is free, but the halves must agree

Nothing near one half gives away its colour: a network that generates or judges the pair must look across.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from regard.data.counter_rng import random_words, unit
from regard.data.shapes import COLOURS, SHAPES, Scenes
from regard.data.tensor_batch import TensorBatch

DRAWN = 32  # pixels a side at which pairs are drawn
BRIGHT = 110  # a pixel with a channel above this is not background, which is below 70


@dataclass(frozen=True)
class PictureBatch(TensorBatch):
    """Pictures and their classes."""

    pictures: Tensor  # (B, H, W, 3) bytes
    labels: Tensor  # (B,)


def to_network(pictures: Tensor) -> Tensor:
    """(B, H, W, 3) bytes -> (B, 3, H, W) from -1 to 1; memory stays channels-last."""
    return pictures.permute(0, 3, 1, 2).float() / 127.5 - 1


def to_pixels(pictures: Tensor) -> Tensor:
    """The inverse, rounded: (B, 3, H, W) -> (B, H, W, 3) bytes."""
    return ((pictures.float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1)


def flipped(pictures: Tensor) -> Tensor:
    """(B, C, H, W), each mirrored with probability 1/2, on the pictures' device."""
    heads = torch.rand(len(pictures), 1, 1, 1, device=pictures.device) < 0.5
    return torch.where(heads, pictures.flip(3), pictures)


def draw_pairs(key: str, examples: Sequence[int], *, side: int = DRAWN) -> tuple[Tensor, Tensor]:
    """(B,) example numbers -> (B, side, side, 3) pictures and (B,) classes, which are indices into SHAPES."""
    B = len(examples)
    drawn = unit(random_words(key, examples, 9))
    shape = (drawn[:, 0] * len(SHAPES)).long()
    colour = (drawn[:, 1] * len(COLOURS)).long()
    down, right = DRAWN / 2 + (drawn[:, 2:4] - 0.5) * 14, (drawn[:, 4:6] - 0.5) * 2
    right = right + drawn.new_tensor([DRAWN / 4, DRAWN * 3 / 4])
    scenes = Scenes(
        named=torch.full((B,), 2),
        count=torch.full((B,), 2),
        colours=torch.stack([colour, colour], 1),
        shapes=torch.stack([shape, shape], 1),
        cells=torch.zeros(B, 2, dtype=torch.long),
        centres=torch.stack([down, right], -1),
        radii=(5.6 + drawn[:, 6:7] * 1.2).repeat(1, 2),
        grain=torch.stack([25 + drawn[:, 7] * 35, drawn[:, 8] * 16 - 8], -1),
    )
    step = DRAWN // side
    blocks = scenes.pictures()[:, :DRAWN, :DRAWN].reshape(B, side, step, side, step, 3)
    return blocks.float().mean((2, 4)).round().byte(), shape


def halves_agree(pictures: Tensor) -> Tensor:
    """(B, H, W, 3) -> (B,): whether both halves have the same colour, by the nearest of COLOURS.

    A half with less than 4 % or more than 50 % of its pixels in the foreground agrees with nothing.
    """
    palette = torch.tensor([*COLOURS.values()], dtype=torch.float32)
    half = pictures.shape[2] // 2
    found: list[Tensor] = []
    for part in (pictures[:, :, :half], pictures[:, :, half:]):
        pixels = part.flatten(1, 2).float()
        stands = (pixels.amax(-1) > BRIGHT).float()  # (B, N)
        amount = stands.sum(1)
        mean = (pixels * stands[..., None]).sum(1) / amount.clamp(min=1)[:, None]
        nearest = ((mean[:, None] - palette) ** 2).sum(-1).argmin(1)
        share = amount / pixels.shape[1]
        found.append(torch.where((share >= 0.04) & (share <= 0.5), nearest, -1 - len(found)))
    return found[0] == found[1]
