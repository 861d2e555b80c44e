"""Omniglot is read from either of its forms; what is missing or broken is named."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from regard.data import omniglot
from regard.errors import DataError


@pytest.fixture(autouse=True)
def forget():
    omniglot._read.cache_clear()
    yield
    omniglot._read.cache_clear()


def write_npz(folder, **arrays):
    np.savez_compressed(folder / "omniglot28.npz", **arrays)
    return str(folder)


def images(classes, value=255):
    return np.full((classes, 20, 28, 28), value, dtype=np.uint8)


def write_zip(path, classes, drawings=20):
    with zipfile.ZipFile(path, "w") as archive:
        for c in range(classes):
            for d in range(drawings):
                picture = np.full((105, 105), 255, dtype=np.uint8)
                picture[: 10 + 20 * c] = 0  # ink on top
                file = io.BytesIO()
                Image.fromarray(picture).convert("1").save(file, "PNG")
                archive.writestr(f"{path.stem}/Greek/character{c:02}/{d:04}.png", file.getvalue())


def test_ink_is_bright_and_both_parts_are_there(tmp_path):
    data = write_npz(tmp_path, background=images(3), evaluation=images(2, 0))
    read = omniglot.read_omniglot(data)
    assert read.shape == (5, 20, 28, 28)
    assert read[:3].max() == 0
    assert read[3:].min() == 255


def test_the_archives_are_read_as_they_are_distributed(tmp_path):
    folder = tmp_path / "omniglot"
    folder.mkdir()
    write_zip(folder / "images_background.zip", 3)
    write_zip(folder / "images_evaluation.zip", 2)
    read = omniglot.read_omniglot(str(tmp_path))
    assert read.shape == (5, 20, 28, 28)
    ink = read[:, 0].reshape(5, -1).float().mean(1)
    assert ink[0] < ink[1] < ink[2]  # in the order of their names
    assert read[0, 0, 0].min() > 200  # the top is ink
    assert read[0, 0, -1].max() < 50


def test_no_folder_is_said_with_the_data_s_home(monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(DataError, match=r"^omniglot: no data folder is given; .*brendenlake/omniglot"):
        omniglot.find_omniglot()


def test_an_empty_folder_is_said_with_the_data_s_home(tmp_path):
    message = (
        r"^omniglot: no file omniglot28.npz or images_background.zip was found in .*brendenlake/omniglot"
    )
    with pytest.raises(DataError, match=message):
        omniglot.read_omniglot(str(tmp_path))


def test_a_missing_array_is_named(tmp_path):
    with pytest.raises(DataError, match=r"the array 'evaluation' is missing; expected background and eval"):
        omniglot.read_omniglot(write_npz(tmp_path, background=images(3)))


def test_a_wrong_shape_or_type_is_named(tmp_path):
    wrong = images(2).astype(np.float32)
    with pytest.raises(
        DataError, match=r"'background' has shape \(2, 20, 28, 28\) of torch.float32; expected \(cl"
    ):
        omniglot.read_omniglot(write_npz(tmp_path, background=wrong, evaluation=images(2)))


@pytest.mark.parametrize("name", ["omniglot28.npz", "images_background.zip"])
def test_a_truncated_file_is_said_to_be_unreadable(tmp_path, name):
    if name.endswith("npz"):
        write_npz(tmp_path, background=images(3), evaluation=images(2))
    else:
        write_zip(tmp_path / name, 1)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-300])
    with pytest.raises(DataError, match=rf"{name}: cannot be read \(.*\); expected "):
        omniglot.read_omniglot(str(tmp_path))


def test_an_archive_without_its_other_half_is_named(tmp_path):
    write_zip(tmp_path / "images_background.zip", 1)
    with pytest.raises(DataError, match=r"images_evaluation\.zip: cannot be read"):
        omniglot.read_omniglot(str(tmp_path))


def test_a_character_with_too_few_drawings_is_named(tmp_path):
    write_zip(tmp_path / "images_background.zip", 1, drawings=3)
    with pytest.raises(DataError, match=r"Greek/character00 has 3 drawings; expected 20 of each character"):
        omniglot.read_omniglot(str(tmp_path))
