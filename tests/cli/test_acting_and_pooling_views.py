"""regard evaluate and show on policies and on classifiers that pool, each trained for two steps."""

import pytest

POLICY = ["model.hidden=4", "model.filters=4", "model.keys=4", "model.values=4", "train.batch=8"]
POOLED = ["train.batch=8", "task.train=32", "task.valid=8", "task.test=6"]
RECIPES = {
    "snail-bandit": [*POLICY, "task.pulls=6", "task.valid=8", "task.test=12"],
    "snail-mdp-small": [*POLICY, "task.valid=8", "task.test=12"],
    "pooling-attention-shapes": [*POOLED, "model.channels=[4,4]", "model.hidden=4"],
    "pooling-attention-sick": [*POOLED, "task.corpus=toy", "model.hidden=8", "model.embedding=8"],
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    folder = tmp_path_factory.mktemp("runs")
    for name, settings in RECIPES.items():
        config = load_recipe(name, [*settings, "train.steps=2"])
        fit(*create(config), config, run=folder / name, progress=Quiet())
    return folder


@pytest.mark.parametrize(
    ("recipe", "measure"),
    [
        ("snail-bandit", "total reward, Gittins"),
        ("snail-mdp-small", "share of optimal, PSRL"),
        ("pooling-attention-shapes", "accuracy"),
        ("pooling-attention-sick", "accuracy"),
    ],
)
def test_a_run_is_measured(command, runs, recipe, measure):
    outcome = command("evaluate", runs / recipe)
    assert outcome.status == 0
    assert measure in outcome.out


@pytest.mark.parametrize(
    ("recipe", "text", "said"),
    [
        ("snail-bandit", "3", "total reward"),
        ("snail-bandit", "regret", "regret"),
        ("snail-mdp-small", "0", "total reward"),
        ("pooling-attention-shapes", "5", "probability"),
        ("pooling-attention-sick", "a dog runs ||| no dog runs", "neutral"),
    ],
    ids=["pulls", "regret", "process", "picture", "sentences"],
)
def test_an_example_is_drawn(command, runs, tmp_path, recipe, text, said):
    out = tmp_path / "x.png"
    outcome = command("show", runs / recipe, text, "--out", out)
    assert outcome.status == 0
    assert said in outcome.out
    assert out.stat().st_size > 1000


def test_pooled_sentences_are_shown_on_a_page_too(command, runs, tmp_path):
    out = tmp_path / "x.html"
    assert command("show", runs / "pooling-attention-sick", "a dog runs ||| no dog", "--out", out).status == 0
    page = out.read_text(encoding="utf-8")
    assert "Attention pooling" in page
    assert "hypothesis" in page


@pytest.mark.parametrize(
    ("recipe", "text", "out", "message"),
    [
        ("snail-bandit", "x", "a.png", "expected the number of a test problem, 0 to 11, or for bandits"),
        (
            "snail-bandit",
            "9" * 30,
            "a.png",
            "the number of a test problem, 0 to 11, or for bandits 'regret'.",
        ),
        (
            "snail-bandit",
            "1",
            "a.html",
            "show: `--out` has the ending '.html'; expected .png or .svg for actions.",
        ),
        (
            "snail-mdp-small",
            "regret",
            "a.png",
            "show: `TEXT` has 'regret'; expected the number of a test problem",
        ),
        ("pooling-attention-shapes", "6", "a.png", "expected the number of a test picture, 0 to 5."),
        ("pooling-attention-shapes", "1", "a.html", "expected .png or .svg for pictures."),
    ],
    ids=["number", "far-number", "page", "regret", "too-far", "picture-page"],
)
def test_what_cannot_be_shown_is_a_sentence(command, runs, tmp_path, recipe, text, out, message):
    outcome = command("show", runs / recipe, text, "--out", tmp_path / out)
    assert outcome.status == 2
    assert message in " ".join(outcome.err.split())
