"""Episodes of few-shot classification: labelled drawings of new classes, and drawings to be named.

A batch is dealt as numbers: which drawing stands where, moved how far, bent how much. It becomes pictures on
the device that it goes to, where the drawings of a split lie once and for all; so a GPU does not wait for
pixels.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.tensor_batch import TensorBatch


@dataclass(frozen=True)
class EpisodeBatch(TensorBatch):
    """Episodes of one shape: N classes, K drawings of each in random order, and Q queries apart."""

    support: Tensor  # (B, N K, 28, 28) uint8, ink is 255
    labels: Tensor  # (B, N K) below N
    queries: Tensor  # (B, Q, 28, 28) uint8
    answers: Tensor  # (B, Q) below N


@dataclass(frozen=True, eq=False)
class Sheets:
    """Drawings with a margin of paper, from which each is cut, a little moved where that is asked for."""

    drawings: Tensor  # (M, H, W) uint8
    margin: int = 0  # pixels on every side
    _placed: dict[torch.device, Tensor] = field(default_factory=dict, repr=False)

    def on(self, device: torch.device | str) -> Tensor:
        """(M, H + 2 m, W + 2 m) on a device, brought there when first asked for."""
        device = torch.device(device)
        if device not in self._placed:
            self._placed[device] = F.pad(self.drawings.to(device), [self.margin] * 4)
        return self._placed[device]

    def cut(self, numbers: Tensor, corners: Tensor | None = None) -> Tensor:
        """(B, S) numbers, (B, S, 2) rows and columns of 0 to 2 m -> (B, S, H, W); None: unmoved."""
        H, W = self.drawings.shape[1:]
        sheets = self.on(numbers.device)
        if corners is None:
            middle = sheets[:, self.margin : self.margin + H, self.margin : self.margin + W]
            return middle[numbers]
        rows = corners[..., 0, None] + torch.arange(H, device=numbers.device)  # (B, S, H)
        columns = corners[..., 1, None] + torch.arange(W, device=numbers.device)
        return sheets[numbers[..., None, None], rows[..., None], columns[..., None, :]]


def bent(pictures: Tensor, bends: Tensor) -> Tensor:
    """(B, S, H, W) bytes, (B, S, 2, 2) -> the same: at x from the middle stands what stood at (I + bend) x.

    Such maps turn, stretch and slant. Between pixels the ink is interpolated; beyond the edge there is none.
    """
    B, S, H, W = pictures.shape
    maps = bends.float() + torch.eye(2, device=bends.device)
    maps = F.pad(maps, (0, 1)).flatten(0, 1)  # (B S, 2, 3): nothing is moved
    grid = F.affine_grid(maps, [B * S, 1, H, W], align_corners=False)
    # cubic: a linear mean of neighbours would blur the strokes of what is bent, and of nothing else
    ink = F.grid_sample(pictures.view(B * S, 1, H, W).float(), grid, mode="bicubic", align_corners=False)
    return ink.round().clamp(0, 255).to(pictures.dtype).view(B, S, H, W)


@dataclass(frozen=True)
class DealtEpisodes:
    """The same as numbers: of the drawings, of the corners at which they are cut from sheets, of bends."""

    sheets: Sheets
    support: Tensor  # (B, N K) numbers of drawings
    labels: Tensor  # (B, N K) below N
    queries: Tensor  # (B, Q)
    answers: Tensor  # (B, Q) below N
    corners: Tensor | None = None  # (B, N K + Q, 2), of the support and then the queries; None: none is moved
    bends: Tensor | None = None  # (B, N K + Q, 2, 2), see `bent`; None: none is bent

    @property
    def size(self) -> int:
        return self.support.shape[0]

    def to(self, device: torch.device | str) -> EpisodeBatch:
        """The pictures, on a device."""
        numbers = torch.cat([self.support, self.queries], 1).to(device)
        corners = None if self.corners is None else self.corners.to(device)
        pictures, S = self.sheets.cut(numbers, corners), self.support.shape[1]
        if self.bends is not None:
            pictures = bent(pictures, self.bends.to(device))
        return EpisodeBatch(pictures[:, :S], self.labels.to(device), pictures[:, S:], self.answers.to(device))
