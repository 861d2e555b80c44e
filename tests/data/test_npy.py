"""NumPy's files are read as NumPy reads them, and NumPy reads what is written."""

import numpy as np
import pytest
import torch
from seeds import offset_seed

from regard.data.npy import KINDS, make_npy, map_npy, npy_header, read_npz


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [(), (0,), (7,), (3, 4, 5), (2, 0)], ids=str)
def test_arrays_are_those_of_numpy(tmp_path, kind, shape):
    array = np.random.default_rng(offset_seed(0)).integers(0, 100, shape).astype(kind)
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", one=array, other=array[..., None])
        found = read_npz(tmp_path / "a.npz")
        assert found["one"].dtype == KINDS[kind]
        assert np.array_equal(found["one"].numpy(), array)
        assert found["other"].shape == (*shape, 1)
    np.save(tmp_path / "a.npy", array)
    assert np.array_equal(map_npy(tmp_path / "a.npy").numpy(), array)
    assert (tmp_path / "a.npy").read_bytes().startswith(npy_header(KINDS[kind], shape))


def test_texts_become_lists(tmp_path):
    texts = ["train", "", "测试", "a longer one"]
    np.savez(tmp_path / "a.npz", texts=np.array(texts))
    assert read_npz(tmp_path / "a.npz")["texts"] == texts


def test_what_is_written_into_a_new_file_is_there_and_what_is_written_into_a_mapped_one_is_not(tmp_path):
    made = make_npy(tmp_path / "a.npy", torch.int32, (5,))
    assert made.tolist() == [0] * 5
    made[2:] = torch.tensor([7, 8, 9])
    assert np.load(tmp_path / "a.npy").tolist() == [0, 0, 7, 8, 9]
    mapped = map_npy(tmp_path / "a.npy")
    mapped[0] = 4
    assert np.load(tmp_path / "a.npy").tolist() == [0, 0, 7, 8, 9]


@pytest.mark.parametrize("array", [np.ones((2, 3), order="F"), np.array([{}]), np.ones(2, ">f4")], ids=str)
def test_other_arrays_are_refused(tmp_path, array):
    np.savez(tmp_path / "a.npz", array=array)
    with pytest.raises(ValueError, match=r"an array of type .* that is not read here"):
        read_npz(tmp_path / "a.npz")
