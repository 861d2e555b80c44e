"""Flickr8k in its packed form, made here from noise; frozen encoders and their cache."""

import gzip
import io
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from PIL import Image

from regard.data import features
from regard.data.features import SQUEEZENET, FrozenEncoder, build_encoder, cached_features
from regard.data.flickr8k import CAPTIONS, PICTURES, Flickr8k, clean
from regard.errors import ConfigError, DataError
from regard.layers.convolution import FIRES, PARTS, SqueezeNet
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from regard.tasks.captions import Flickr8kSettings, Flickr8kTask

SPLITS = ["train", "train", "dev", "test", "train"]
WORDS = ["A dog runs .", "The black dog , running !", "A dog", "Dog in the snow", "A wet dog's ball-game"]


def write_data(folder):
    rng = np.random.default_rng(0)
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
    torch.manual_seed(0)
    net, found = SqueezeNet(classes=True), {}
    names = {"conv1": net.conv1, "conv_final": net.last}
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
    assert photographs.rows("valid").tolist() == [2]
    assert photographs.rows("train").tolist() == [0, 1, 4]
    assert photographs.captions[3][0] == "a dog runs"
    assert photographs.pictures([0, 3], side=32).shape == (2, 32, 32, 3)


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
    model = ShowAttendTell(ShowAttendTellConfig(**task.sizes(), embedding=4, hidden=4, alignment=4))
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
        return np.stack([np.full((8, 8, 3), row, dtype=np.uint8) for row in rows])

    with pytest.raises(KeyboardInterrupt):
        cached_features(FrozenEncoder("n", Counting(fails=True)), pictures, 5, of="x")
    assert [each.name for each in (cache / "features").iterdir()] == [".lock"]
    done = []
    found = cached_features(FrozenEncoder("n", Counting()), pictures, 5, of="x", progress=done.append)
    assert found[:, 0, 0].tolist() == [0, 1, 2, 3, 4]
    assert done == [2, 2, 1]
    other = cached_features(FrozenEncoder("n", Counting()), pictures, 5, of="another file")
    assert len(list((cache / "features").glob("*.npy"))) == 2
    assert np.array_equal(found, other)


def test_of_several_that_need_annotations_one_makes_them(cache):
    def pictures(rows):
        time.sleep(0.3)
        return np.zeros((len(rows), 8, 8, 3), dtype=np.uint8)

    encoders = [FrozenEncoder("n", Counting()) for _ in range(3)]
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda encoder: cached_features(encoder, pictures, 3, of="x"), encoders))
    assert sum(encoder.network.calls for encoder in encoders) == 1
    assert all(np.array_equal(each, found[0]) for each in found)


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
