"""What `regard compare` makes, read before, while and after it runs."""

import pytest

from regard.compare.comparison import plan
from regard.compare.trial import measure

SET = [
    *("model.hidden=8", "model.embedding=8", "task.train=64", "task.valid=8", "task.test=8"),
    *("train.steps=2", "train.log_every=1", "train.threads=1"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A comparison of three scores: one is trained and measured, one waits, one cannot be built."""
    made = tmp_path_factory.mktemp("comparisons")
    compared = plan("rnnsearch-reverse", scores=("additive", "dot", "general"), overrides=SET)
    (made / "scores" / "configs").mkdir(parents=True)
    for variant in compared.variants:
        variant.config.write(made / "scores" / "configs" / f"{variant.slug}-seed1.toml")
    measure(compared.variants[0].config, made / "scores" / "runs" / "additive-seed1")
    (made / "scores" / "runs" / "general-seed1").mkdir()
    (made / "scores" / "runs" / "general-seed1" / "impossible.json").write_text('{"reason": "odd sizes"}')
    (made / "other").mkdir()
    return made


def test_a_comparison_is_listed_by_how_far_it_is(made, folder):
    with made(comparisons=folder) as client:
        [found] = client.get("/v1/comparisons").json()
    assert (found["id"], found["trainings"], found["finished"], found["training"]) == ("scores", 3, 1, 0)


def test_each_training_has_its_state_its_curve_and_what_was_measured(made, folder):
    with made(comparisons=folder) as client:
        additive, dot, general = client.get("/v1/comparisons/scores").json()["runs"]
    assert (additive["variant"], additive["seed"], additive["status"]) == ("additive", 1, "finished")
    assert [step for step, _ in additive["curve"]["train"]] == [1, 2]
    assert additive["metric"]
    assert additive["value"] is not None
    assert (dot["variant"], dot["status"], dot["steps"]) == ("dot", "waiting", 2)
    assert dot["curve"] == {"train": [], "valid": []}
    assert (general["status"], general["reason"]) == ("impossible", "odd sizes")


def test_only_names_of_the_list_are_found(made, folder):
    with made(comparisons=folder) as client:
        for name in ("nobody", "..", "other", "%2e%2e", "..%2fscores"):
            assert client.get(f"/v1/comparisons/{name}").status_code == 404, name
