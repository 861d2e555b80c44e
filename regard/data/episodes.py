"""Episodes of few-shot classification: labelled drawings of new classes, and drawings to classify.

A batch is built as indices: which drawings, shifted how far, distorted how much. It becomes pictures on its
target device, which keeps all drawings of a split, so that a GPU does not wait for pixels.
"""

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.tensor_batch import TensorBatch


@dataclass(frozen=True)
class EpisodeBatch(TensorBatch):
    """Episodes of one shape: N classes, K drawings of each in random order, and Q separate queries."""

    support: Tensor  # (B, N K, 28, 28) uint8, ink is 255
    labels: Tensor  # (B, N K) below N
    queries: Tensor  # (B, Q, 28, 28) uint8
    answers: Tensor  # (B, Q) below N


@dataclass(frozen=True, eq=False)
class Sheets:
    """Drawings padded with a margin, from which crops are taken, shifted if requested."""

    drawings: Tensor  # (M, H, W) uint8
    margin: int = 0  # pixels on every side
    _placed: dict[torch.device, Tensor] = field(default_factory=dict, repr=False)

    def on(self, device: torch.device | str) -> Tensor:
        """(M, H + 2 m, W + 2 m) on a device, copied there on first use."""
        device = torch.device(device)
        if device not in self._placed:
            self._placed[device] = F.pad(self.drawings.to(device), [self.margin] * 4)
        return self._placed[device]

    def cut(self, numbers: Tensor, corners: Tensor | None = None) -> Tensor:
        """(B, S) indices, (B, S, 2) corners (row, column) from 0 to 2 m -> (B, S, H, W); None: centred."""
        H, W = self.drawings.shape[1:]
        sheets = self.on(numbers.device)
        if corners is None:
            middle = sheets[:, self.margin : self.margin + H, self.margin : self.margin + W]
            return middle[numbers]
        rows = corners[..., 0, None] + torch.arange(H, device=numbers.device)  # (B, S, H)
        columns = corners[..., 1, None] + torch.arange(W, device=numbers.device)
        return sheets[numbers[..., None, None], rows[..., None], columns[..., None, :]]


def bent(pictures: Tensor, bends: Tensor) -> Tensor:
    """(B, S, H, W) bytes, (B, S, 2, 2) -> distorted: the value at x from the centre comes from (I + bend) x.

    Such maps rotate, stretch and shear. Values between pixels are interpolated; outside there is no ink.
    """
    B, S, H, W = pictures.shape
    maps = bends.float() + torch.eye(2, device=bends.device)
    maps = F.pad(maps, (0, 1)).flatten(0, 1)  # (B S, 2, 3): no translation
    grid = F.affine_grid(maps, [B * S, 1, H, W], align_corners=False)
    # bicubic: linear interpolation would blur the strokes, and only those of distorted drawings
    ink = F.grid_sample(pictures.view(B * S, 1, H, W).float(), grid, mode="bicubic", align_corners=False)
    return ink.round().clamp(0, 255).to(pictures.dtype).view(B, S, H, W)


@dataclass(frozen=True)
class DealtEpisodes:
    """Episodes as indices of drawings, corners of their crops in the sheets, and distortions."""

    sheets: Sheets
    support: Tensor  # (B, N K) indices of drawings
    labels: Tensor  # (B, N K) below N
    queries: Tensor  # (B, Q)
    answers: Tensor  # (B, Q) below N
    corners: Tensor | None = None  # (B, N K + Q, 2), support first, then queries; None: no shifts
    bends: Tensor | None = None  # (B, N K + Q, 2, 2), see `bent`; None: no distortion

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
