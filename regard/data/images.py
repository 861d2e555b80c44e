"""Pictures: from files and bytes to squares of pixels, and to batches for decoding.

Anything that Pillow opens is accepted: grey, palette, transparency (composited onto white), sixteen bits,
rotated by the camera (turned upright), animated (the first frame). Refused with a DataError: anything that is
not an image, truncated files, fewer than SMALLEST pixels a side, more than LARGEST in all, files of more than
HEAVIEST bytes. Sizes are checked before anything large is read or decoded.
"""

import io
import struct
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data.batches import PairBatch, pad
from regard.data.tokens import EOS, PAD
from regard.errors import DataError
from regard.tensor_bytes import as_bytes, from_bytes

Pixels = Tensor  # (H, W, 3) bytes, red first

SMALLEST = 8  # pixels a side
LARGEST = 64_000_000  # pixels in all: 192 MB once unpacked
HEAVIEST = 512_000_000  # bytes of a file: more than LARGEST pixels need in any format
# endings of pictures in a folder; includes formats that Pillow may lack, so that they get an error
ENDINGS = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".jp2", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp"),
    *(".ppm", ".pgm", ".avif", ".heic", ".heif"),
)


@dataclass(frozen=True)
class ImageBatch(PairBatch):
    """Pictures and their captions. `source` is (B, H, W, 3) bytes, or (B, L, D) precomputed annotations.

    `source_lengths` are all the size of the source's second axis: pictures have no padding.
    """

    def rounded(self) -> Self:
        """Captions padded to a multiple of 4 words, so that step capture sees few shapes."""
        return replace(self, target=F.pad(self.target, (0, -self.target.shape[1] % 4), value=PAD))


def image_batch(source: Tensor, captions: Sequence[Sequence[int]] | None = None) -> ImageBatch:
    """Pictures or annotations, and the ids of their captions without eos; None: unknown."""
    target, lengths = pad([[*row, EOS] for row in captions or [[]] * len(source)])
    return ImageBatch(source, torch.full((len(source),), source.shape[1]), target, lengths)


def read_image(file: Path | bytes, *, side: int, owner: str = "image") -> Pixels:
    """(side, side, 3): the largest central square of a picture, resized.

    `file` is a path, or the contents of a file, which errors call `owner`.
    """
    return square(open_image(file, owner=owner), side)


def open_image(file: Path | bytes, *, owner: str = "image") -> Pixels:
    """(H, W, 3) the whole picture."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if isinstance(file, Path):
        owner = str(file)
        if (size := file.stat().st_size) > HEAVIEST:
            raise DataError(
                f"{owner}: has {size:,} bytes; expected at most {HEAVIEST:,} of a picture. Make it smaller."
            )
        file = file.read_bytes()
    try:
        with warnings.catch_warnings():
            # Pillow's warnings add nothing: either reading fails below, or the size does, or all is well
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(file)) as opened:
                check_size(owner, *opened.size)
                upright: Image.Image = ImageOps.exif_transpose(opened)
                return as_colours(upright)
    except DataError:
        raise
    except UnidentifiedImageError:
        raise DataError(f"{owner}: has no image that can be read; expected JPEG, PNG or the like.") from None
    except Image.DecompressionBombError:
        raise DataError(f"{owner}: has too many pixels; expected at most {LARGEST:,}.") from None
    except (OSError, SyntaxError, ValueError, EOFError, LookupError, struct.error) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise DataError(f"{owner}: has a damaged image ({reason}); expected a whole file.") from error


def check_size(owner: str, width: int, height: int) -> None:
    """Refuse a picture with too few pixels or too many."""
    if min(width, height) < SMALLEST:
        raise DataError(f"{owner}: has {width} × {height} pixels; expected {SMALLEST} or more a side.")
    if width * height > LARGEST:
        raise DataError(
            f"{owner}: has {width} × {height} pixels; expected at most {LARGEST:,} in all. Make it smaller."
        )


def as_colours(image: Any) -> Pixels:
    """Any mode of Pillow -> (H, W, 3)."""
    from PIL import Image

    if image.mode in ("I", "F") or image.mode.startswith("I;16"):  # more than eight bits of grey
        grey = from_image(image.convert("F"), torch.float32).double().nan_to_num()
        # files do not store the white level: 1 for fractions, the largest of one or two bytes for integers
        tops = (1.0, 255.0, 65535.0) if image.mode == "F" else (255.0, 65535.0)
        top = next((top for top in tops if grey.max() <= top), tops[-1])
        return (grey.clamp(0, top) * (255 / top)).round().byte().repeat(1, 1, 3)
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        above = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", above.size, "white"), above)
    return from_image(image.convert("RGB"))


def from_image(image: Any, dtype: torch.dtype = torch.uint8) -> Tensor:
    """(H, W, channels) numbers of a Pillow image."""
    return from_bytes(image.tobytes(), dtype).view(image.height, image.width, -1)


def to_image(pixels: Pixels) -> Any:
    """The picture as a Pillow image."""
    from PIL import Image

    return Image.frombytes("RGB", (pixels.shape[1], pixels.shape[0]), as_bytes(pixels))


def square(pixels: Pixels, side: int) -> Pixels:
    """(H, W, 3) -> (side, side, 3): the central square, resized."""
    from PIL import Image

    H, W = pixels.shape[:2]
    least = min(H, W)
    top, left = (H - least) // 2, (W - least) // 2
    middle = pixels[top : top + least, left : left + least]
    if least == side:
        return middle
    return from_image(to_image(middle).resize((side, side), Image.Resampling.BILINEAR))


def images_in(paths: Sequence[Path]) -> list[Path]:
    """The files, with each folder replaced by the pictures in it (by ending), sorted by name."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(each for each in path.iterdir() if each.suffix.lower() in ENDINGS)
        else:
            found.append(path)
    return found
