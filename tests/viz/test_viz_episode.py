"""An episode is drawn whatever its size; `regard show` says what the query was called."""

import dataclasses

import numpy as np
import pytest
import torch
from pages import read
from seeds import offset_seed

from regard.errors import ConfigError, DataError, ShapeError
from regard.models.snail import SNAIL, SNAILConfig
from regard.tasks.fewshot import FewShotSettings, FewShotTask
from regard.train.config import RunConfig
from regard.train.run import Run
from regard.views import episode
from regard.views.episode import view
from regard.viz.episode import draw_episode

SMALL = {"embedding": 8, "channels": 4, "keys": (8, 8, 8), "values": (4, 4, 4), "filters": 4}


def images(T):
    return np.random.default_rng(offset_seed(0)).integers(0, 255, (T, 28, 28))


@pytest.mark.parametrize(
    ("T", "L"), [(2, 1), (6, 3), (6, 0), (26, 2)], ids=["two", "six", "no-blocks", "many"]
)
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_any_episode_is_drawn(T, L, ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    weights = torch.rand(L, T).softmax(-1)
    names = [str(i % 5) for i in range(T - 1)]
    assert (
        draw_episode(images(T), names, weights, answer="0", found="1", title="An episode", path=path) == path
    )
    assert path.stat().st_size > 1000


def test_a_larger_weight_is_darker(tmp_path):
    pictures = []
    for weight in (0.1, 0.9):
        path = tmp_path / f"{weight}.png"
        draw_episode(np.zeros((2, 28, 28)), ["A"], [[weight, 0.0]], answer="A", path=path)
        pictures.append(read(path).mean())
    assert pictures[1] < pictures[0]


def test_what_does_not_fit_is_said(tmp_path):
    path = tmp_path / "a.png"
    with pytest.raises(
        ShapeError, match=r"^draw_episode: `images` has shape \(3, 28, 28\); expected \(T=2, H"
    ):
        draw_episode(images(3), ["A"], torch.ones(1, 2), answer="A", path=path)
    with pytest.raises(
        ShapeError, match=r"^draw_episode: `weights` has shape \(1, 3\); expected \(L, T=2\)\.$"
    ):
        draw_episode(images(2), ["A"], torch.ones(1, 3), answer="A", path=path)
    with pytest.raises(DataError, match=r"^draw_episode"):
        draw_episode(images(2), ["A"], torch.full((1, 2), torch.nan), answer="A", path=path)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    task = FewShotTask.create(FewShotSettings())
    model = SNAIL(SNAILConfig(**task.sizes(), **SMALL)).eval()
    config = RunConfig(model="snail", model_settings={}, task="few-shot", task_settings={})
    return Run(config, model, task, tmp_path_factory.mktemp("run"), 0)


def test_an_episode_of_the_test_set_is_shown(run, tmp_path):
    line = view(run, "3", tmp_path / "a.png", beam=None)
    batch = run.task.episodes("test", [3], 1)
    found = int(run.model(batch).argmax())
    assert line.startswith("ABCDE"[found])
    assert ("right" in line) == (found == int(batch.answers))
    assert read(tmp_path / "a.png").shape[0] > 100


def test_a_model_without_attention_is_not_said_to_attend(run, tmp_path, monkeypatch):
    titles = []
    monkeypatch.setattr(episode, "draw_episode", lambda *_, title, **__: titles.append(title))
    plain = SNAIL(SNAILConfig(**run.task.sizes(), **SMALL, attention=False)).eval()
    for model in (run.model, plain):
        view(dataclasses.replace(run, model=model), "3", tmp_path / "a.png", beam=None)
    assert titles == [
        "5-way 1-shot: what the query (?) attended to",
        "5-way 1-shot: a model without attention",
    ]


def test_what_cannot_be_shown_is_said(run, tmp_path):
    for text in ("x", "2000", "9" * 30):
        message = rf"^show: `TEXT` has '{text}'; expected the number of a test episode, 0 to 1999\.$"
        with pytest.raises(ConfigError, match=message):
            view(run, text, tmp_path / "a.png", beam=None)
    message = r"^show: `--out` has the ending '\.html'; expected \.png or \.svg for episodes\.$"
    with pytest.raises(ConfigError, match=message):
        view(run, None, tmp_path / "a.html", beam=None)
