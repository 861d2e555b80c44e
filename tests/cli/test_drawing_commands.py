"""regard evaluate, show and sample on a generator of pictures that was trained for two steps."""

import json

import pytest

from regard.tasks.pictures import PairedShapesTask, Referee

SMALL = ["model.generator=8", "model.discriminator=8", "model.noise=4", "train.batch=8", "train.steps=2"]


@pytest.fixture(scope="module")
def drawing(tmp_path_factory):
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    folder = tmp_path_factory.mktemp("drawing") / "run"
    config = load_recipe("sagan-shapes", [*SMALL, "task.train=32", "task.valid=16", "task.test=20"])
    fit(*create(config), config, run=folder, progress=Quiet())
    return folder


def test_the_first_evaluation_says_that_it_trains_a_classifier_and_the_second_does_not(
    command, drawing, tmp_path, monkeypatch
):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr(PairedShapesTask, "referee", Referee(width=4, steps=4, batch=16, lr=0.05))
    first, second = (command("evaluate", drawing, "--json") for _ in range(2))
    assert first.err.splitlines()[0].startswith("training the classifier that compares pictures; saving it")
    assert first.err.count("training the classifier") == 1
    assert "training the classifier" not in second.err
    assert json.loads(first.out)["distance_of_noise"] == json.loads(second.out)["distance_of_noise"]


def test_samples_and_where_they_look_are_drawn(command, drawing, tmp_path):
    for words, said in (((), "50 pictures of 5 classes"), (("cross",), "50 pictures of 5 classes")):
        outcome = command("show", drawing, *words, "--out", tmp_path / "a.png")
        assert (outcome.status, outcome.out.strip()) == (0, said)
    assert command("show", drawing, "dog", "--out", tmp_path / "a.png").err == (
        "regard: show: `TEXT` has 'dog'; expected a class: circle, square, triangle, cross, diamond.\n"
    )
    outcome = command(
        "sample", drawing, "--classes", "circle,cross", "--count", 3, "--out", tmp_path / "b.png"
    )
    assert outcome.status == 0
    assert (tmp_path / "b.png").stat().st_size > 100
