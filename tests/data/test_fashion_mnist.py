"""Fashion-MNIST from files in the IDX format, and what is said of files that are damaged."""

import gzip
import struct

import numpy as np
import pytest
from seeds import offset_seed

from regard.data import fashion_mnist
from regard.data.fashion_mnist import read_fashion_mnist, read_idx
from regard.errors import DataError


def idx(array, header=b"\x00\x00\x08"):
    return header + bytes([array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def folder(tmp_path):
    """A data folder with 30 pictures to train with and 10 to test with."""
    place = tmp_path / "fashion-mnist"
    place.mkdir()
    chance = np.random.default_rng(offset_seed(0))
    for name, count in (("train", 30), ("t10k", 10)):
        images = chance.integers(0, 256, (count, 28, 28)).astype(np.uint8)
        labels = (np.arange(count) % 10).astype(np.uint8)
        (place / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (place / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))
    return tmp_path


def test_grey_pictures_become_three_equal_colours(folder):
    pictures, labels = read_fashion_mnist(str(folder), "train")
    assert pictures.shape == (30, 28, 28, 3)
    assert labels.tolist() == [*range(10)] * 3
    raw = read_idx(folder / "fashion-mnist" / "train-images-idx3-ubyte.gz")
    for colour in range(3):
        assert np.array_equal(pictures[..., colour], raw)


def test_debian_s_folder_is_taken_where_none_is_named(folder, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setattr(fashion_mnist, "DEBIAN", folder / "fashion-mnist")
    assert len(read_fashion_mnist("", "test")[1]) == 10


def test_debian_s_folder_is_taken_where_the_named_one_has_other_data(folder, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv("REGARD_DATA", str(other))
    monkeypatch.setattr(fashion_mnist, "DEBIAN", folder / "fashion-mnist")
    assert len(read_fashion_mnist("", "test")[1]) == 10
    with pytest.raises(DataError, match=r"^fashion-mnist: no file train-images.* was found in "):
        read_fashion_mnist(str(other), "test")  # a setting of its own is meant


def test_without_data_it_is_said_where_it_is_to_be_had(tmp_path):
    with pytest.raises(DataError, match=r"^fashion-mnist: no file train-images.*dataset-fashion-mnist"):
        read_fashion_mnist(str(tmp_path), "train")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"no gzip", r"cannot be read \(.*\); expected a whole file of"),
        (gzip.compress(bytes(5000))[:12], r"cannot be read \(.*\); expected a whole file of"),
        (gzip.compress(b"\x00\x00\x0d\x01abcd"), r"has no IDX header for bytes; expected a file of"),
        (
            gzip.compress(idx(np.zeros(9, dtype=np.uint8))[:-2]),
            r"has 7 values; expected 9 by its header\. Try copying it again\.$",
        ),
    ],
    ids=["no-gzip", "truncated", "floats", "short"],
)
def test_a_damaged_file_is_a_sentence(tmp_path, content, message):
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as error:
        read_idx(path)
    assert str(error.value).startswith(f"{path}: ")


def test_labels_that_do_not_fit_are_refused(folder):
    place = folder / "fashion-mnist" / "t10k-labels-idx1-ubyte.gz"
    place.write_bytes(gzip.compress(idx(np.zeros(9, dtype=np.uint8))))
    message = (
        r"the test part has pictures of shape \(10, 28, 28\) and 9 labels; expected \(N, 28, 28\) and N\.$"
    )
    with pytest.raises(DataError, match=message):
        read_fashion_mnist(str(folder), "test")
    place.write_bytes(gzip.compress(idx(np.full(10, 10, dtype=np.uint8))))
    with pytest.raises(DataError, match=r"has a label of 10; expected 0 to 9\.$"):
        read_fashion_mnist(str(folder), "test")
