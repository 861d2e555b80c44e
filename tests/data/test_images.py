"""Pictures of every kind become squares of pixels; what is none is a sentence."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from seeds import offset_seed

from regard.data.images import image_batch, images_in, open_image, read_image, square
from regard.errors import DataError


def encoded(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def photo(width=40, height=20):
    ramp = np.arange(width * height * 3, dtype=np.uint32).reshape(height, width, 3) % 251
    return Image.fromarray(ramp.astype(np.uint8))


@pytest.mark.parametrize("mode", ["L", "P", "RGBA", "LA", "1", "CMYK", "I;16"])
def test_any_mode_becomes_three_colours(mode):
    kind = "TIFF" if mode == "CMYK" else "PNG"
    image = photo().convert("L").convert("I;16") if mode == "I;16" else photo().convert(mode)
    pixels = read_image(encoded(image, kind), side=16)
    assert pixels.shape == (16, 16, 3)
    assert pixels.dtype == torch.uint8
    assert pixels.max() > pixels.min()


def test_sixteen_bits_of_grey_are_scaled():
    grey = Image.fromarray(np.full((16, 16), 32896, dtype=np.uint16))
    assert open_image(encoded(grey)).tolist()[0][0] == [128] * 3


@pytest.mark.parametrize(("white", "dtype"), [(1.0, np.float32), (255.0, np.float32), (65535, np.int32)])
def test_grey_of_any_range_is_scaled_by_what_white_must_be(white, dtype):
    grey = np.tile(np.linspace(0, white, 16).astype(dtype), (16, 1))
    if dtype == np.float32:
        grey[3, 3] = np.nan  # what was not measured is black
    pixels = open_image(encoded(Image.fromarray(grey), "TIFF"))
    assert pixels[0, 0].tolist() == [0] * 3
    assert pixels[0, -1].tolist() == [255] * 3
    assert abs(int(pixels[0, 8, 0]) - 136) <= 1


def test_what_is_transparent_is_white():
    image = Image.new("RGBA", (16, 16), (255, 0, 0, 0))
    assert read_image(encoded(image), side=16).min() == 255


def test_a_photograph_that_lies_on_its_side_is_turned_upright():
    image = Image.new("RGB", (16, 16), "black")
    image.paste("white", (0, 0, 16, 8))
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was turned: the top is on the right
    pixels = read_image(encoded(image, "JPEG", exif=exif, quality=95), side=16)
    assert pixels[:, 12].min() > 200
    assert pixels[:, 3].max() < 50


def test_the_square_in_the_middle_is_taken():
    pixels = torch.zeros(10, 30, 3, dtype=torch.uint8)
    pixels[:, 10:20] = 200
    assert (square(pixels, 10) == 200).all()
    assert square(pixels, 20).shape == (20, 20, 3)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"no picture at all", "p: has no image that can be read; expected JPEG, PNG or the like."),
        (b"", "p: has no image that can be read; expected JPEG, PNG or the like."),
        (encoded(photo(1, 1)), "p: has 1 × 1 pixels; expected 8 or more a side."),
    ],
    ids=["text", "empty", "one-pixel"],
)
def test_what_is_no_photograph_is_refused(data, message):
    with pytest.raises(DataError) as error:
        read_image(data, side=16, owner="p")
    assert str(error.value) == message


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_a_truncated_file_is_refused(kind):
    noise = Image.fromarray(
        np.random.default_rng(offset_seed(0)).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    )
    data = encoded(noise, kind)
    with pytest.raises(DataError, match=r"^p: has a damaged image \(.*\); expected a whole file\.$"):
        read_image(data[: len(data) // 2], side=16, owner="p")


def test_a_huge_picture_is_refused_before_it_is_unpacked():
    data = encoded(Image.new("1", (9000, 8000)))
    with pytest.raises(DataError) as error:
        read_image(data, side=16, owner="p")
    assert str(error.value) == (
        "p: has 9000 × 8000 pixels; expected at most 64,000,000 in all. Make it smaller."
    )


def test_a_picture_of_which_pillow_would_warn_is_refused_in_our_words():
    data = encoded(Image.new("1", (10_000, 9_500)))  # beyond Pillow's first limit
    with pytest.raises(DataError, match=r"^p: has 10000 × 9500 pixels; expected at most 64,000,000 in all"):
        open_image(data, owner="p")


def test_a_huge_file_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "film.jpg"
    with path.open("wb") as file:
        file.truncate(600_000_000)  # takes no room on the disk
    with pytest.raises(DataError) as error:
        read_image(path, side=16)
    assert str(error.value) == (
        f"{path}: has 600,000,000 bytes; expected at most 512,000,000 of a picture. Make it smaller."
    )


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM"])
def test_a_damaged_file_of_any_kind_is_a_picture_or_a_sentence(kind):
    chance = np.random.default_rng(offset_seed(0))
    whole = encoded(Image.fromarray(chance.integers(0, 255, (24, 24, 3), dtype=np.uint8)), kind)
    refused = []
    for _ in range(40):
        data = bytearray(whole[: chance.integers(1, len(whole) + 1)])
        for place in chance.integers(0, len(data), 3):
            data[place] = chance.integers(256)
        try:
            assert open_image(bytes(data), owner="p").shape[2] == 3
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 5
    assert all(sentence.startswith("p: has ") for sentence in refused)


def test_a_folder_gives_its_pictures_by_name(tmp_path):
    for name in ("b.JPG", "a.png", "c.heic", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    other = tmp_path / "notes.txt"
    assert [path.name for path in images_in([tmp_path, other])] == ["a.png", "b.JPG", "c.heic", "notes.txt"]


def test_a_batch_moves_and_rounds_its_captions():
    batch = image_batch(torch.zeros(2, 8, 8, 3, dtype=torch.uint8), [[4, 5], [6]])
    assert batch.target.tolist() == [[4, 5, 2], [6, 2, 0]]
    assert batch.source_lengths.tolist() == [8, 8]
    rounded = batch.rounded().to("cpu")
    assert type(rounded) is type(batch)
    assert rounded.target.shape == (2, 4)
    assert rounded.target_lengths.tolist() == [3, 2]
    assert image_batch(torch.zeros(3, 4, 5)).target.tolist() == [[2]] * 3
