"""Invented characters: each class is a few random strokes, drawn repeatedly by an unsteady hand.

    stroke_k(u) = Σ_i Bernstein_i(u) (c_ki + ε)          u in [0, 1], i = 0 … 3: a cubic Bézier curve
    drawing = R · stroke + shift                         R turns and stretches a little
    ink(y, x) = min(1, Σ_u exp(-(y - s_y(u))² / 2σ²) exp(-(x - s_x(u))² / 2σ²))

    here          shape
    c  controls   (classes, strokes, 4, 2) in the unit square: the class
    ε  jitter     new for each drawing
    σ  PEN        the width of the pen

The Gaussian factors into y and x, so a drawing is one matrix product. A drawing is a function of the indices
of its class and itself; there is no generator state.
"""

import torch
from torch import Tensor

from regard.data.counter_rng import uniform
from regard.data.omniglot import SIDE

STROKES = 3  # of a class, at most; a quarter of the classes have one less
POINTS = 24  # on each stroke
PEN = 0.022  # of the side
JITTER = 0.05  # largest shift of a control point, of the side
CHUNK = 2048  # drawings rendered at once


def draw_characters(stream: str, classes: int, drawings: int) -> Tensor:
    """(classes, drawings, 28, 28): the first classes of a named stream."""
    controls, present = _classes(uniform(f"{stream} class", range(classes), STROKES * 8 + 1))
    hand = uniform(f"{stream} hand", range(classes * drawings), STROKES * 8 * 2 + 5)
    owners = torch.arange(classes).repeat_interleave(drawings)
    parts = zip(torch.split(owners, CHUNK), torch.split(hand, CHUNK), strict=True)
    drawn = [_render(controls[owner], present[owner], u) for owner, u in parts]
    return torch.cat(drawn).reshape(classes, drawings, SIDE, SIDE)


def _classes(u: Tensor) -> tuple[Tensor, Tensor]:
    """(C, 25) numbers -> controls (C, strokes, 4, 2), and a mask (C, strokes) of the strokes present."""
    controls = 1.1 * u[:, :-1].reshape(-1, STROKES, 4, 2) - 0.05
    present = torch.ones(len(u), STROKES, dtype=torch.bool)
    present[u[:, -1] < 0.25, -1] = False
    return controls, present


def _render(controls: Tensor, present: Tensor, u: Tensor) -> Tensor:
    """One drawing for each row: (B, strokes, 4, 2) -> (B, 28, 28)."""
    B, size = len(u), STROKES * 8
    # the sum of two uniform numbers is close enough to a Gaussian
    shaking = (u[:, :size] + u[:, size : 2 * size] - 1).reshape(controls.shape)
    angle, stretch, shift = u[:, -5] - 0.5, u[:, -4:-2] - 0.5, u[:, -2:] - 0.5
    points = torch.einsum("pi,bkid->bkpd", _bernstein(), controls + JITTER * shaking) - 0.5
    cos, sin = (0.4 * angle).cos(), (0.4 * angle).sin()
    turn = torch.stack([cos, -sin, sin, cos], -1).view(B, 2, 2)  # (B, 2, 2)
    points = torch.einsum("bij,bkpj->bkpi", turn, points) * (1 + 0.2 * stretch)[:, None, None]
    points = (points + 0.5 + 0.2 * shift[:, None, None]).reshape(B, -1, 2)
    grid = (torch.arange(SIDE, dtype=torch.float64) + 0.5) / SIDE
    away = ((grid - points[..., None]) / PEN).float()
    bells = (-(away**2) / 2).exp()  # (B, P, 2, 28)
    weight = present.repeat_interleave(POINTS, 1)[..., None].float()
    ink = (bells[:, :, 0] * weight).mT @ bells[:, :, 1]
    return (255 * ink.clamp(max=1)).byte()


def _bernstein() -> Tensor:
    """(P, 4): the weight of each control point along a cubic curve."""
    u = torch.linspace(0, 1, POINTS, dtype=torch.float64)
    return torch.stack([(1 - u) ** 3, 3 * u * (1 - u) ** 2, 3 * u**2 * (1 - u), u**3], -1)
