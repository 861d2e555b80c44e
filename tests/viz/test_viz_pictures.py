"""Samples by class and where places look: any number is drawn, and `regard show` and `sample` say what."""

import numpy as np
import pytest
import torch
from pages import read
from seeds import offset_seed
from typer.testing import CliRunner

from regard.cli.main import app
from regard.errors import ConfigError, DataError, ShapeError
from regard.models.sagan import SAGAN, SAGANConfig
from regard.tasks.pictures import PairedShapesSettings, PairedShapesTask
from regard.train.config import RunConfig
from regard.train.run import Run
from regard.views.pictures import view
from regard.viz.pictures import Look, draw_samples

PICTURES = np.random.default_rng(offset_seed(0)).integers(0, 256, (2, 3, 8, 8, 3), dtype=np.uint8)


def look(weights):
    return Look(PICTURES[0, 0], [(0.5, 0.25)] * len(weights), weights, "circle")


@pytest.mark.parametrize("looks", [0, 1, 2])
@pytest.mark.parametrize("ending", ["png", "svg"])
def test_any_sheet_is_drawn(looks, ending, tmp_path):
    path = tmp_path / f"a.{ending}"
    chosen = [look(torch.rand(2, 16).softmax(-1))] * looks
    assert draw_samples(PICTURES, ["circle", "square"], chosen, title="run, step 5", path=path) == path
    assert path.stat().st_size > 1000


def test_a_place_that_is_looked_at_is_brighter(tmp_path):
    grey = np.full((8, 8, 3), 200, np.uint8)
    means = []
    for weights in (np.eye(4)[:1], np.full((1, 4), 0.25)):
        path = tmp_path / "a.png"
        draw_samples(PICTURES, ["a", "b"], [Look(grey, [(0.5, 0.5)], weights, "a")], path=path)
        means.append(read(path).mean())
    assert means[0] < means[1]


def test_what_does_not_fit_is_said(tmp_path):
    path = tmp_path / "a.png"
    with pytest.raises(
        ShapeError, match=r"^draw_samples: `pictures` has shape \(2, 3, 8, 8, 3\); expected \(K=1"
    ):
        draw_samples(PICTURES, ["circle"], path=path)
    with pytest.raises(
        ShapeError, match=r"^draw_samples: `weights` has shape \(1, 15\); expected \(Q=1, L\)"
    ):
        draw_samples(PICTURES, ["a", "b"], [look(torch.ones(1, 15))], path=path)
    with pytest.raises(DataError, match=r"^draw_samples"):
        draw_samples(PICTURES, ["a", "b"], [look(torch.full((1, 16), torch.nan))], path=path)


def build(tmp_path, **changes):
    sizes = {"classes": 5, "side": 8, "noise": 4, "generator": 8, "discriminator": 8, "attention": (8,)}
    model = SAGAN(SAGANConfig(**(sizes | changes))).eval()
    task = PairedShapesTask.create(PairedShapesSettings(side=8))
    return Run(RunConfig("sagan", {}, "paired-shapes", {}), model, task, tmp_path / "runs" / "mine", 7)


def test_show_draws_samples_and_looks(tmp_path):
    out = tmp_path / "a.png"
    assert view(build(tmp_path), None, out, beam=None) == "50 pictures of 5 classes"
    assert view(build(tmp_path), "cross", out, beam=None) == "50 pictures of 5 classes"
    without = build(tmp_path, attention=())
    assert view(without, None, out, beam=None).endswith("; the generator has no attention")
    with pytest.raises(ConfigError, match=r"^show: `TEXT` has 'dog'; expected a class: circle, square, "):
        view(build(tmp_path), "dog", out, beam=None)
    with pytest.raises(ConfigError, match=r"expected \.png or \.svg for pictures\.$"):
        view(build(tmp_path), None, tmp_path / "a.html", beam=None)


def test_sample_writes_a_sheet_of_the_classes_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.train.run.open_run", lambda folder, **_: build(tmp_path))
    out = tmp_path / "sheet.png"
    asked = ["sample", str(tmp_path), "--classes", "cross,circle", "--count", "3", "--scale", "2"]
    done = CliRunner().invoke(app, [*asked, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert read(out).shape[:2] == (2 * 8 * 2, 3 * 8 * 2)
    wrong = CliRunner().invoke(app, ["sample", str(tmp_path), "--classes", "dog"])
    assert wrong.exit_code == 2
    assert "sample: `--classes` has 'dog'; expected a class: circle, " in " ".join(wrong.stderr.split())
