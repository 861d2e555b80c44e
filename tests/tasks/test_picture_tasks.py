"""Pictures to be made: paired shapes, CIFAR-10 in its three forms, what is wrong with a file."""

import io
import pickle
import tarfile

import numpy as np
import pytest
import torch
from PIL import Image
from seeds import offset_seed

from regard import ConfigError, DataError
from regard.data import cifar10
from regard.data.pictures import draw_pairs, flipped, halves_agree, to_network, to_pixels
from regard.tasks.pictures import Cifar10Settings, Cifar10Task, PairedShapesSettings, PairedShapesTask


def test_pairs_are_the_same_for_the_same_numbers_in_any_batch():
    numbers = [5, 9, 5]
    pictures, _ = draw_pairs("key", numbers, side=16)
    assert pictures.shape == (3, 16, 16, 3)
    assert pictures.dtype == torch.uint8
    assert torch.equal(pictures[0], pictures[2])
    assert not torch.equal(pictures[0], pictures[1])
    assert torch.equal(pictures[1:2], draw_pairs("key", numbers[1:2], side=16)[0])
    assert set(draw_pairs("key", range(100))[1].tolist()) == set(range(5))


def test_the_halves_of_real_pairs_agree_and_those_of_strangers_do_not():
    pictures, _ = draw_pairs("key", range(400), side=16)
    assert halves_agree(pictures).double().mean() > 0.99
    strangers = pictures.clone()
    strangers[:, :, 8:] = pictures.roll(1, 0)[:, :, 8:]
    assert halves_agree(strangers).double().mean() < 0.3
    even = torch.tensor([30, 200], dtype=torch.uint8)[:, None, None, None].expand(2, 16, 16, 3)
    assert not halves_agree(even).any()  # ground alone, nothing but brightness


def test_pixels_and_networks_speak_of_the_same_pictures():
    pictures = torch.randint(0, 256, (3, 4, 4, 3), dtype=torch.uint8)
    x = to_network(pictures)
    assert x.shape == (3, 3, 4, 4)
    assert x.min() >= -1
    assert x.max() <= 1
    assert torch.equal(to_pixels(x), pictures)
    mirrored = flipped(x)
    assert all(torch.equal(m, a) or torch.equal(m, a.flip(2)) for m, a in zip(mirrored, x, strict=True))


def test_splits_of_pairs_differ_and_the_plan_covers_the_training_split():
    task = PairedShapesTask.create(PairedShapesSettings(side=8, train=50))
    assert task.sizes() == {"classes": 5, "side": 8}
    assert not torch.equal(task.batch("train", [0]).pictures, task.batch("test", [0]).pictures)
    rows = [row for batch in task.plan(0, seed=1, batch=10) for row in batch]
    assert sorted(rows) == list(range(50))
    assert task.evaluation_plan("valid", batch=10) == []


def test_the_loss_hands_over_pictures_from_minus_1_to_1_and_sums():
    task = PairedShapesTask.create(PairedShapesSettings(side=8))
    batch = task.batch("train", range(6))
    seen = []

    def model(pictures, labels):
        seen.append((pictures, labels))
        return torch.arange(6.0)

    loss = task.loss(model, batch)
    assert loss.total == 15
    assert loss.count == 6
    assert torch.equal(to_pixels(seen[0][0]), batch.pictures)
    assert torch.equal(seen[0][1], batch.labels)


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(ConfigError, match=r"^paired-shapes: `side` has 12; expected 8, 16 or 32\.$"):
        PairedShapesSettings(side=12)
    with pytest.raises(ConfigError, match=r"^cifar10: `valid` has 0; expected 1 to 25000\.$"):
        Cifar10Settings(valid=0)


# CIFAR-10 -----------------------------------------------------------------------------------------------

PICTURES = np.random.default_rng(offset_seed(0)).integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
LABELS = np.arange(12) % 10
PARTS = {"train": slice(0, 8), "test": slice(8, 12)}


def rows(part):
    return PICTURES[part].transpose(0, 3, 1, 2).reshape(-1, 3072)


def add(archive, name, content):
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def packed(folder, quality=95):
    arrays = {}
    for split, part in PARTS.items():
        files = []
        for picture in PICTURES[part]:
            file = io.BytesIO()
            smooth = np.full_like(picture, picture.mean((0, 1)).astype(np.uint8))
            Image.fromarray(smooth).save(file, "JPEG", quality=quality)
            files.append(file.getvalue())
        arrays[f"{split}_jpeg"] = np.frombuffer(b"".join(files), np.uint8)
        arrays[f"{split}_offsets"] = np.cumsum([0, *map(len, files)])
        arrays[f"{split}_labels"] = LABELS[part]
    np.savez(folder / cifar10.PACKED, **arrays)


def binary(folder):
    with tarfile.open(folder / cifar10.BINARY, "w:gz") as archive:
        for split, part in PARTS.items():
            content = np.concatenate([LABELS[part][:, None].astype(np.uint8), rows(part)], 1).tobytes()
            add(
                archive, f"cifar-10-batches-bin/{'data' if split == 'train' else 'test'}_batch_1.bin", content
            )
        add(archive, "cifar-10-batches-bin/readme.html", b"no pictures")


def python(folder, extra=None):
    with tarfile.open(folder / cifar10.PYTHON, "w:gz") as archive:
        for split, part in PARTS.items():
            record = {b"data": rows(part), b"labels": LABELS[part].tolist()} | (extra or {})
            name = "data_batch_1" if split == "train" else "test_batch"
            add(archive, f"cifar-10-batches-py/{name}", pickle.dumps(record, protocol=2))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "data" / "cifar10").mkdir(parents=True)
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "cifar10"


@pytest.mark.parametrize("write", [binary, python], ids=["binary", "python"])
def test_the_distributed_archives_give_the_pictures_back(folder, write):
    write(folder)
    parts, _ = cifar10.read_cifar10()
    for split, part in PARTS.items():
        assert np.array_equal(parts[split].pictures, PICTURES[part])
        assert parts[split].labels.tolist() == LABELS[part].tolist()


def test_the_packed_form_is_unpacked_once_and_then_mapped(folder, tmp_path, monkeypatch, is_mapped):
    packed(folder)
    parts, digest = cifar10.read_cifar10()
    labels = parts["train"].labels
    assert sorted(labels.tolist()) == list(range(8))
    assert labels.tolist() != sorted(labels.tolist())  # the file is sorted by class, what is read is not
    means = torch.from_numpy(PICTURES)[labels].double().mean((1, 2))  # picture n has the class n
    assert abs(parts["train"].pictures.double().mean((1, 2)) - means).max() < 4
    monkeypatch.setattr(cifar10, "_unpack", lambda path: pytest.fail("unpacked twice"))
    again, same = cifar10.read_cifar10()
    assert same == digest
    assert is_mapped(again["train"].pictures)
    assert torch.equal(again["test"].pictures, parts["test"].pictures)


def test_validation_is_spread_over_the_training_part_and_classes_come_along(folder):
    binary(folder)
    task = Cifar10Task.create(Cifar10Settings(valid=2))
    assert [task.count(split) for split in ("train", "valid", "test")] == [6, 2, 4]
    assert torch.equal(task.batch("valid", [1]).pictures[0], torch.from_numpy(PICTURES[4]))
    assert task.batch("valid", range(2)).labels.tolist() == [0, 4]
    assert task.batch("train", range(6)).labels.tolist() == [1, 2, 3, 5, 6, 7]
    with pytest.raises(
        ConfigError, match=r"^cifar10: `valid` has 8; expected fewer than the 8 training pictures\.$"
    ):
        Cifar10Task(Cifar10Settings(valid=8)).count("train")
    assert task.batch("test", [1, 3]).labels.tolist() == [9, 1]
    assert task.sizes() == {"classes": 10, "side": 32}


def test_a_pickle_that_names_a_function_is_refused_and_nothing_runs(folder):
    class Evil:
        def __reduce__(self):
            return (print, ("it ran",))

    python(folder, {b"evil": Evil()})
    with pytest.raises(
        DataError, match=r"^cifar10: a pickle has .*print; expected only arrays and plain values"
    ):
        cifar10.read_cifar10()


def test_damaged_and_missing_files_are_said(folder, monkeypatch):
    with pytest.raises(
        DataError, match=r"^cifar10: no file cifar10_jpeg\.npz or cifar-10-binary\.tar\.gz or "
    ):
        cifar10.read_cifar10()
    (folder / cifar10.BINARY).write_bytes(b"not an archive")
    with pytest.raises(DataError, match=r"cannot be read as CIFAR-10 \(.*Try copying it again\.$"):
        cifar10.read_cifar10()
    (folder / cifar10.BINARY).unlink()
    monkeypatch.setitem(PARTS, "test", slice(8, 8))
    binary(folder)
    with pytest.raises(
        DataError, match=r"test has pictures of shape \(0, 32, 32, 3\) and 0 labels; expected"
    ):
        cifar10.read_cifar10()


@pytest.mark.parametrize("write", [packed, binary, python], ids=["packed", "binary", "python"])
def test_an_archive_with_wrong_bytes_is_read_or_a_sentence(folder, write):
    write(folder)
    [path] = folder.iterdir()
    whole, chance = path.read_bytes(), np.random.default_rng(offset_seed(0))
    refused = []
    for _ in range(12):
        data = bytearray(whole)
        for place in chance.integers(0, len(data), 40):
            data[place] = chance.integers(256)
        path.write_bytes(bytes(data[: chance.integers(len(data) // 2, len(data) + 1)]))
        try:
            cifar10.read_cifar10()
        except DataError as error:
            refused.append(str(error))
    assert len(refused) > 6
    assert not any("\n" in sentence for sentence in refused)


def test_a_truncated_picture_is_named(folder):
    packed(folder)
    with np.load(folder / cifar10.PACKED) as arrays:
        changed = dict(arrays)
    changed["train_jpeg"] = changed["train_jpeg"].copy()
    changed["train_jpeg"][:20] = 0
    np.savez(folder / cifar10.PACKED, **changed)
    with pytest.raises(DataError, match=r"cifar10_jpeg\.npz, train image 0: has "):
        cifar10.read_cifar10()
