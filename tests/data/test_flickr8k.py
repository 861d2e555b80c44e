"""Flickr8k in its packed form, made here from noise; frozen encoders and their cache."""

import gzip
import io
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from seeds import offset_seed

from regard.attention.config import AttentionConfig
from regard.data import features
from regard.data.features import SQUEEZENET, FrozenEncoder, build_encoder, cached_features
from regard.data.flickr8k import CAPTIONS, PICTURES, TOKENS, Flickr8k, clean, open_flickr8k
from regard.errors import ConfigError, DataError
from regard.layers.convolution import FIRES, PARTS, SqueezeNet
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from regard.tasks.captions import Flickr8kSettings, Flickr8kTask

SPLITS = ["train", "train", "dev", "test", "train"]
WORDS = ["A dog runs .", "The black dog , running !", "A dog", "Dog in the snow", "A wet dog's ball-game"]


def write_data(folder):
    rng = np.random.default_rng(offset_seed(0))
    files = []
    for _ in SPLITS:
        file = io.BytesIO()
        Image.fromarray(rng.integers(0, 255, (128, 128, 3), dtype=np.uint8)).save(file, "JPEG")
        files.append(np.frombuffer(file.getvalue(), dtype=np.uint8))
    offsets = np.cumsum([0, *map(len, files)])
    names = np.array([f"{n}.jpg" for n in range(len(SPLITS))])
    (folder / "flickr8k").mkdir()
    np.savez(
        folder / "flickr8k" / PICTURES,
        jpeg=np.concatenate(files),
        offsets=offsets,
        names=names,
        splits=np.array(SPLITS),
    )
    with gzip.open(folder / "flickr8k" / CAPTIONS, "wt") as lines:
        for name in names[::-1]:
            lines.write(json.dumps({"image": str(name), "captions": WORDS}) + "\n")
    (folder / "squeezenet").mkdir()
    np.savez(folder / "squeezenet" / SQUEEZENET, **arrays())


def arrays():
    torch.manual_seed(offset_seed(0))
    net, found = SqueezeNet(), {}
    names = {"conv1": net.conv1, "conv_final": torch.nn.Conv2d(512, 1000, 1)}
    for number in FIRES:
        for part, name in PARTS.items():
            names[f"fire{number}/{name}"] = getattr(net.fires[f"fire{number}"], part)
    for name, module in names.items():
        found[f"{name}.weight"] = module.weight.detach().numpy()
        found[f"{name}.bias"] = module.bias.detach().numpy()
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_captions_are_lower_case_words():
    assert [clean(text) for text in WORDS] == [
        "a dog runs",
        "the black dog running",
        "a dog",
        "dog in the snow",
        "a wet dog's ball-game",
    ]


def test_photographs_and_captions_are_joined_by_name(data):
    photographs = Flickr8k(str(data))
    assert len(photographs) == 5
    assert photographs.rows("valid") == [2]
    assert photographs.rows("train") == [0, 1, 4]
    assert photographs.captions[3][0] == "a dog runs"
    assert photographs.pictures([0, 3], side=32).shape == (2, 32, 32, 3)


@pytest.fixture
def public(data, tmp_path):
    """The same photographs and captions, as the data set is distributed."""
    packed, text = Flickr8k(str(data)), tmp_path / "Flickr8k_text"
    photographs = tmp_path / "Flicker8k_Dataset"
    photographs.mkdir()
    text.mkdir()
    for row, name in enumerate(packed.names):
        (photographs / name).write_bytes(packed.file(row))
    for split in ("train", "dev", "test"):
        listed = [name for name, part in zip(packed.names, SPLITS, strict=True) if part == split]
        (text / f"Flickr_8k.{split}Images.txt").write_text("\n".join(listed) + "\n")
    lines = [f"{name}#{k}\t{words}" for name in packed.names[::-1] for k, words in enumerate(WORDS)]
    (text / TOKENS).write_text("\n".join([*lines, "lost.jpg.1#0\tNobody asks for this ."]) + "\n")
    return tmp_path


def test_the_distributed_files_say_the_same_as_the_packed_ones(data, public):
    packed, files = open_flickr8k(str(data)), open_flickr8k(str(public))
    assert type(packed) is not type(files)
    assert len(files) == len(packed) == 5
    for split in ("train", "valid", "test"):
        theirs, ours = packed.rows(split), files.rows(split)
        assert [files.names[row] for row in ours] == [packed.names[row] for row in theirs]
        assert [files.captions[row] for row in ours] == [packed.captions[row] for row in theirs]
        assert torch.equal(files.pictures(ours, side=32), packed.pictures(theirs, side=32))
    task = Flickr8kTask.create(Flickr8kSettings(data=str(public), encoder="small", side=32, minimum=1))
    assert task.count("train") == 3
    before = files.digest()
    (public / "Flicker8k_Dataset" / "0.jpg").write_bytes(b"shorter")
    assert files.digest() != before


def test_distributed_files_that_lack_something_are_sentences(public):
    tokens = public / "Flickr8k_text" / TOKENS
    tokens.write_text("0.jpg#0 no tab\n")
    with pytest.raises(
        DataError, match=r"token\.txt: line 1 has no tab; expected NAME#NUMBER, a tab, a caption"
    ):
        _ = open_flickr8k(str(public)).captions
    tokens.write_text("0.jpg#0\tA dog\n")
    with pytest.raises(DataError, match=r"has no captions of 1\.jpg; expected one or more\.$"):
        _ = open_flickr8k(str(public)).captions
    (public / "Flicker8k_Dataset").rename(public / "elsewhere")
    with pytest.raises(
        DataError, match=r"^flickr8k: no photograph 0\.jpg was found in .*; expected the data set"
    ):
        open_flickr8k(str(public))
    (public / "Flickr8k_text" / "Flickr_8k.devImages.txt").unlink()
    with pytest.raises(DataError, match=r"devImages\.txt: no such file or directory\.$"):
        open_flickr8k(str(public))


def test_a_missing_folder_and_broken_files_are_sentences(data, tmp_path, monkeypatch):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(DataError, match=r"^flickr8k: no data folder is given"):
        Flickr8k()
    (tmp_path / PICTURES).write_bytes(b"PK no")
    with gzip.open(tmp_path / CAPTIONS, "wt") as lines:
        lines.write("{}\n")
    broken = Flickr8k(str(tmp_path))
    with pytest.raises(DataError, match=r"cannot be read \(.*\); expected jpeg, offsets, names, splits\.$"):
        len(broken)
    broken.__dict__["names"] = ["0.jpg"]
    with pytest.raises(DataError, match=r'line 1: has no caption record; expected {"image", "captions"}\.$'):
        _ = broken.captions


def test_every_training_caption_is_an_example_and_annotations_are_computed_once(data, cache, tmp_path):
    task = Flickr8kTask.create(Flickr8kSettings(data=str(data), minimum=2, longest=4))
    assert len(task.examples("train")[1]) == 3 * 4, "one caption of each photograph is too long"
    assert task.sizes() == {"target_vocab": len(task.tokenizer), "features": 512}
    batch = task.batch("train", [0, 7])
    assert batch.source.shape == (2, 169, 512)
    assert batch.source.dtype == torch.float16
    [file] = (cache / "features").glob("*.npy")
    before = file.stat().st_mtime_ns
    again = Flickr8kTask.create(Flickr8kSettings(data=str(data), minimum=2))
    assert torch.equal(again.batch("train", [0, 7]).source, batch.source)
    assert [each.stat().st_mtime_ns for each in (cache / "features").glob("*.npy")] == [before]
    direct = task.annotate(task.pictures("train", [1]))
    torch.testing.assert_close(direct[0], batch.source[1], atol=1e-2, rtol=1e-2)
    model = ShowAttendTell(
        ShowAttendTellConfig(**task.sizes(), embedding=4, hidden=4, attention=AttentionConfig("additive"))
    )
    assert task.loss(model, batch).total.isfinite()
    # a run folder alone is enough to describe pictures: no data folder is asked for
    folder = tmp_path / "run"
    folder.mkdir()
    task.save(folder)
    alone = Flickr8kTask.restore(Flickr8kSettings(), folder)
    assert alone.sizes() == task.sizes()
    assert torch.equal(alone.annotate(task.pictures("train", [1])), direct)


def test_pixels_go_to_the_models_own_net(data):
    task = Flickr8kTask.create(Flickr8kSettings(data=str(data), encoder="small", side=64, minimum=1))
    assert task.sizes()["features"] == 0
    assert task.batch("test", [0]).source.shape == (1, 64, 64, 3)
    assert task.references("test") == [[clean(text) for text in WORDS]]


class Counting(torch.nn.Module):
    side = 8

    def __init__(self, fails=False):
        super().__init__()
        self.calls, self.fails = 0, fails

    def forward(self, pictures):
        self.calls += 1
        if self.fails and self.calls == 2:
            raise KeyboardInterrupt
        return pictures.float().mean((1, 2))[:, None]


def test_an_interruption_leaves_no_half_file(cache, monkeypatch):
    monkeypatch.setattr(features, "CHUNK", 2)

    def pictures(rows):
        return torch.stack([torch.full((8, 8, 3), row, dtype=torch.uint8) for row in rows])

    with pytest.raises(KeyboardInterrupt):
        cached_features(FrozenEncoder("n", Counting(fails=True)), pictures, 5, of="x")
    assert [each.name for each in (cache / "features").iterdir()] == [".lock"]
    found = cached_features(FrozenEncoder("n", Counting()), pictures, 5, of="x")
    assert found[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    other = cached_features(FrozenEncoder("n", Counting()), pictures, 5, of="another file")
    assert len(list((cache / "features").glob("*.npy"))) == 2
    assert torch.equal(found, other)


def test_of_several_that_need_annotations_one_makes_them(cache):
    def pictures(rows):
        time.sleep(0.3)
        return torch.zeros(len(rows), 8, 8, 3, dtype=torch.uint8)

    encoders = [FrozenEncoder("n", Counting()) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda encoder: cached_features(encoder, pictures, 3, of="x"), encoders))
    assert sum(encoder.network.calls for encoder in encoders) == 1
    assert all(torch.equal(each, found[0]) for each in found)


def test_damaged_weights_are_a_sentence(tmp_path):
    path = tmp_path / SQUEEZENET
    np.savez(path, **{"conv1.weight": np.zeros((96, 3, 7, 7), dtype=np.float32)})
    with pytest.raises(DataError, match=r"^SqueezeNet: 'conv1\.bias' is missing; expected shape"):
        build_encoder("squeezenet", data=str(tmp_path))
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(DataError) as error:
        build_encoder("squeezenet", data=str(tmp_path))
    assert str(error.value) == (
        f"{path}: cannot be read (File is not a zip file); expected an .npz file of arrays. "
        "Try copying it again."
    )


def test_it_is_said_how_many_annotations_are_made_while_it_takes_long(cache, monkeypatch, caplog):
    monkeypatch.setattr(features, "CHUNK", 2)
    monkeypatch.setattr(features, "PATIENCE", -1.0)
    caplog.set_level("INFO", logger="regard")
    blank = torch.zeros(2, 8, 8, 3, dtype=torch.uint8)
    cached_features(FrozenEncoder("n", Counting()), lambda rows: blank[: len(rows)], 3, of="x")
    first, *later = [record.getMessage() for record in caplog.records]
    assert first.startswith("computing the annotations of 3 pictures into ")
    assert later == ["annotations of 2 pictures of 3", "annotations of 3 pictures of 3"]


def fake_torchvision(monkeypatch, get_model):
    models = SimpleNamespace(list_models=lambda: ["tiny"], get_model=get_model)
    monkeypatch.setitem(sys.modules, "torchvision", SimpleNamespace(models=models))
    monkeypatch.setattr(features, "find_spec", lambda name: name)


def test_a_network_that_torchvision_lacks_or_cannot_download_is_a_sentence(monkeypatch):
    def offline(name, weights):
        raise OSError("no route to host")

    fake_torchvision(monkeypatch, offline)
    with pytest.raises(ConfigError) as error:
        build_encoder("torchvision:vgg99")
    assert str(error.value) == (
        "task: `encoder` has 'torchvision:vgg99', which this torchvision does not have; expected one of "
        "torchvision.models.list_models(), as 'torchvision:vgg19'."
    )
    with pytest.raises(
        DataError, match=r"whose weights cannot be loaded \(no route to host\); expected them in"
    ):
        build_encoder("torchvision:tiny")


def test_an_unknown_encoder_is_a_sentence(monkeypatch):
    with pytest.raises(ConfigError) as error:
        build_encoder("vgg")
    assert str(error.value) == (
        "task: `encoder` has 'vgg'; expected 'small', 'squeezenet' or 'torchvision:NAME'."
    )
    monkeypatch.setattr(features, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"and torchvision is not installed\. Install it"):
        build_encoder("torchvision:resnet18")
    with pytest.raises(ConfigError, match=r"^flickr8k: `side` has 3; expected 32 or more\.$"):
        Flickr8kSettings(side=3)
