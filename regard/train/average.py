"""Averages the last weights of a run, which circle around a better point while the learning rate is high.

    θ = 1/N Σ_n θ_n                     over the last N evaluations (Vaswani et al. 2017, section 6.1)

The run folder keeps the weights of the last N evaluations, one file per step; a new file replaces the oldest.
A resumed run reaches the same weights and writes the same files again; files from later steps are removed
first.

    averaging/step-00000400-9f86d081884c7d65.safetensors        the step, and the file's SHA-256 digest
"""

from collections.abc import Sequence
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError

from regard.errors import DataError
from regard.train import durable
from regard.train.serialization import Tensors
from regard.train.verified_files import digest

FOLDER = "averaging"
DIGITS = 16  # of the digest that the file name has


class Snapshots:
    """The weights of the last `count` evaluations of a run, on disk."""

    def __init__(self, run: Path, count: int) -> None:
        self.run, self.folder, self.count = Path(run), Path(run) / FOLDER, count

    def keep(self, step: int, weights: Tensors) -> None:
        """Write the weights of this step; delete files that are too old or from later steps."""
        self.folder.mkdir(parents=True, exist_ok=True)
        content = safetensors.torch.save(weights)
        path = self.folder / f"step-{step:08d}-{digest(content)[:DIGITS]}.safetensors"
        durable.replace(path, content)
        kept = [*self._files(step - 1), path][-self.count :]
        for other in self.folder.iterdir():
            if other not in kept:
                other.unlink()

    def mean(self, step: int) -> Tensors | None:
        """The mean of the last `count` weights up to this step; None if there are none."""
        files = self._files(step)[-self.count :]
        return average([self._read(path) for path in files]) if files else None

    def _files(self, step: int) -> list[Path]:
        """The files up to a step, earlier ones first."""
        files = sorted(self.folder.glob("step-*.safetensors"))
        return [path for path in files if int(path.stem.split("-")[1]) <= step]

    def _read(self, path: Path) -> Tensors:
        try:
            content = path.read_bytes()
            named = path.stem.split("-")[2:]  # earlier versions wrote no digest
            if named not in ([], [digest(content)[:DIGITS]]):
                raise OSError("its SHA-256 digest is not the one in its name")
            return dict(safetensors.torch.load(content))
        except (OSError, SafetensorError) as error:
            raise DataError(f"{self.run}: {FOLDER}/{path.name} cannot be read: {error}.") from error


def average(weights: Sequence[Tensors]) -> Tensors:
    """The mean of each floating-point tensor, summed in float64; other tensors (counters) are the last."""
    last = weights[-1]
    return {
        name: torch.stack([each[name].double() for each in weights]).mean(0).to(tensor.dtype)
        if tensor.is_floating_point()
        else tensor
        for name, tensor in last.items()
    }
