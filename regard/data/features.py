"""Frozen picture encoders and their annotations, computed once and mapped from the cache.

squeezenet           the file squeezenet_v1.0_decoded.npz in the data folder
torchvision:NAME     a pretrained network of torchvision, if it is installed
"""

import hashlib
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn

from regard import storage
from regard.data.folders import find_file, reading
from regard.data.images import Pixels
from regard.data.npy import map_npy, npy_header, read_npz
from regard.errors import ConfigError, DataError
from regard.layers.convolution import SqueezeNet, TorchvisionGrid
from regard.storage import alone, cache_folder
from regard.tensor_bytes import as_bytes

SQUEEZENET = "squeezenet_v1.0_decoded.npz"
HOME = "https://github.com/songhan/SqueezeNet-Deep-Compression"
CHUNK = 64  # pictures encoded at a time
PATIENCE = 20.0  # seconds between progress messages
FORMAT = 1  # of the cached annotations


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """A network that maps squares of pixels to annotations and is never trained."""

    name: str
    network: nn.Module

    def __call__(self, pictures: Pixels) -> Tensor:
        """(B, H, W, 3) -> (B, L, D) float16, computed on the accelerator if there is one."""
        device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
        network = self.network.to(device).eval()
        with torch.no_grad():
            found: Tensor = network(pictures.to(device))
        half = torch.finfo(torch.float16)
        return found.clamp(half.min, half.max).half().cpu()

    def digest(self) -> str:
        """Hash of the network's weights, sizes and type."""
        total = hashlib.sha256(f"{FORMAT} {self.name} {self.network!r} {self.network.side}".encode())
        for name, tensor in sorted(self.network.state_dict().items()):
            total.update(name.encode())
            total.update(as_bytes(tensor.detach().cpu()))
        return total.hexdigest()

    def save(self, file: Path) -> None:
        """Write the weights, so that a run folder does not need the data folder."""
        from safetensors.torch import save_file

        save_file(
            {name: tensor.cpu().contiguous() for name, tensor in self.network.state_dict().items()}, file
        )


def build_encoder(name: str, *, data: str = "", saved: Path | None = None) -> FrozenEncoder:
    """An encoder by name, with the weights that `save` wrote or the pretrained ones."""
    network = _squeezenet(data, saved) if name == "squeezenet" else _torchvision(name, saved)
    if saved is not None:
        from safetensors.torch import load_file

        network.load_state_dict(load_file(saved))
    return FrozenEncoder(name, network.requires_grad_(False))


def _squeezenet(data: str, saved: Path | None) -> SqueezeNet:
    network = SqueezeNet()
    if saved is None:
        path = find_file("squeezenet", [SQUEEZENET], data=data, folders=["squeezenet"], home=HOME)
        expected = "an .npz file of arrays. Try copying it again."
        with reading(path, expected):
            network.load_original(read_npz(path))
    return network


def _torchvision(name: str, saved: Path | None) -> TorchvisionGrid:
    kind, _, model = name.partition(":")
    if kind != "torchvision" or not model:
        raise ConfigError(
            f"task: `encoder` has {name!r}; expected 'small', 'squeezenet' or 'torchvision:NAME'."
        )
    if find_spec("torchvision") is None:
        raise ConfigError(f"task: `encoder` has {name!r}, and torchvision is not installed. Install it.")
    import torchvision  # type: ignore[import-not-found,unused-ignore]

    if model not in torchvision.models.list_models():
        raise ConfigError(
            f"task: `encoder` has {name!r}, which this torchvision does not have; expected one of "
            "torchvision.models.list_models(), as 'torchvision:vgg19'."
        )
    weights = None if saved is not None else "DEFAULT"
    try:
        return TorchvisionGrid(cast(nn.Module, torchvision.models.get_model(model, weights=weights)))
    except OSError as error:  # its weights are downloaded
        raise DataError(
            f"task: `encoder` has {name!r}, whose weights cannot be loaded ({error}); expected them in "
            "PyTorch's cache, or a network to download them by."
        ) from error


def cached_features(
    encoder: FrozenEncoder, pictures: Callable[[range], Pixels], count: int, *, of: str
) -> Tensor:
    """(count, L, D) annotations of pictures 0 … count - 1, mapped from a file, which is made if missing.

    `of` identifies the pictures: the digest of their source. The file is written aside and renamed, so an
    interruption leaves none or a whole one; of several processes that need it, one writes it and the others
    wait.
    """
    key = hashlib.sha256(f"{encoder.digest()} {of} {count}".encode()).hexdigest()[:32]
    path = cache_folder() / "features" / f"{encoder.name.replace(':', '-')}-{key}.npy"
    if not path.exists():
        with alone(path.parent):
            if not path.exists():
                _write(path, _encode(encoder, pictures, count), count)
    return map_npy(path)


def _encode(encoder: FrozenEncoder, pictures: Callable[[range], Pixels], count: int) -> Iterator[Tensor]:
    said = time.monotonic()
    for start in range(0, count, CHUNK):
        rows = range(start, min(start + CHUNK, count))
        yield encoder(pictures(rows))
        if time.monotonic() - said > PATIENCE:
            said = time.monotonic()
            logging.getLogger("regard").info("annotations of %d pictures of %d", rows.stop, count)


def _write(path: Path, parts: Iterator[Tensor], count: int) -> None:
    logging.getLogger("regard").info("computing the annotations of %d pictures into %s", count, path)
    with storage.whole(path) as file:
        for part in parts:
            if not file.tell():
                file.write(npy_header(torch.float16, (count, *part.shape[1:])))
            file.write(as_bytes(part))
        if not file.tell():
            raise DataError(f"features: `count` has {count} pictures; expected one or more.")
