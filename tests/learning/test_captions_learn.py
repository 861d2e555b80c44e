"""Show, attend and tell learns to name what it looks at; with attention cut off it does not know the things.

Expected after 500 steps on two things a scene: above 0.5 of the captions exact and above 0.8 of the named
things looked at; below 0.3 exact with the scores of attention set to zero.

REINFORCE then teaches a new attention from nothing where to look, every place being sampled: no gradient but
its own reaches the scores. Expected after 250 steps: from below 0.3 to above 0.6 of the named things.
"""

import pytest
import torch
from measures import at_least, at_most

from regard.evaluate.captions import evaluate_captions
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from regard.tasks.captions import ShapesSettings, ShapesTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow
STEPS = 500


@pytest.fixture(scope="module")
def task():
    return ShapesTask.create(ShapesSettings(fewest=1, most=1, clutter=2, train=16_000, valid=32, test=300))


def make(task, **settings):
    sizes = {"embedding": 48, "hidden": 96, "alignment": 48, "annotation": 48, "channels": 16}
    return ShowAttendTell(
        ShowAttendTellConfig(**task.sizes(), **sizes, dropout=0.0, coverage=0.0, **settings)
    )


def train(model, task, run, *, steps, lr):
    settings = TrainConfig(
        seed=torch.initial_seed(),
        steps=steps,
        batch=32,
        lr=lr,
        clip=2.0,
        schedule="cosine",
        warmup=50,
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(
        model="show-attend-tell", model_settings={}, task="shapes", task_settings={}, train=settings
    )
    fit(model, task, config, run=run, progress=Quiet())
    return model.eval()


@pytest.fixture(scope="module")
def model(task, tmp_path_factory):
    return train(make(task), task, tmp_path_factory.mktemp("sat") / "run", steps=STEPS, lr=0.004)


def test_it_names_what_it_looks_at(model, task):
    found = evaluate_captions(model, task)
    at_least(found.exact, 0.5, "exact")
    at_least(found.hits.rate, 0.8, "looked at")
    assert found.hits.chance < 0.2


def test_cutting_attention_off_breaks_it(model, task):
    """Without its scores attention is the same everywhere, and the words cannot depend on a place."""
    v = model.attention.score.v.weight
    learnt = v.detach().clone()
    try:
        with torch.no_grad():
            v.zero_()
        found = evaluate_captions(model, task)
        at_most(found.exact, 0.3, "exact")
        at_most(found.hits.rate, 0.5, "looked at")
    finally:
        with torch.no_grad():
            v.copy_(learnt)


def test_reinforce_teaches_where_to_look(model, task, tmp_path):
    hard = make(task, normalizer="hard", sampled=1.0, credit="word", compared="expected", entropy=0.01)
    told = {name: tensor for name, tensor in model.state_dict().items() if "attention" not in name}
    hard.load_state_dict(told, strict=False)
    at_most(evaluate_captions(hard.eval(), task).hits.rate, 0.3, "looked at before")
    train(hard, task, tmp_path / "run", steps=250, lr=0.004)
    at_least(evaluate_captions(hard, task).hits.rate, 0.6, "looked at")
    with torch.no_grad():
        hard.attention.score.v.weight.zero_()
    cut = evaluate_captions(hard, task)
    at_most(cut.hits.rate, 0.3, "looked at, cut off")
    at_most(cut.exact, 0.3, "exact, cut off")
