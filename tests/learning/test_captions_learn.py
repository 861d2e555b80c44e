"""Show, attend and tell learns to name what it looks at; with attention cut off it does not know the things.

The annotations are those of an encoder that knows every thing already: a vector for each of the nine cells,
with a one for the colour of what stands there and a one for its shape. What is left to learn is where to look
for each word: at the one coloured thing, and not at up to two grey ones. Expected after 250 steps: all
captions exact, and all the things looked at; with the scores of attention set to zero a third exact, about as
many as have no grey thing.

REINFORCE then teaches a new attention from nothing where to look, every place being sampled: no gradient but
its own reaches the scores. Expected after 200 steps: from a ninth of the things to all of them.

From pixels, its own convolutions learn to name the colour of the one coloured thing. Expected after 250
steps: all named, and looked at; a seventh with the convolutions as they were before.
"""

from copy import deepcopy

import pytest
import torch
from measures import at_least, at_most

from regard.attention.config import AttentionConfig
from regard.data.shapes import CELLS, COLOURS, SHAPES
from regard.evaluate.captions import evaluate_captions
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from regard.tasks.captions import Named, ShapesSettings, ShapesTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow
STEPS = 250
COLOUR, SHAPE = len(COLOURS) + 1, len(SHAPES)  # grey is no colour that is named


class Recognised(ShapesTask):
    """Scenes as annotations (B, 9, 12): colour and shape of the thing in each cell, zeros where none is."""

    def sources(self, split, numbers):
        scenes = self.scenes(split, numbers)
        N, B = scenes.cells.shape[1], len(numbers)
        colours = torch.where(torch.arange(N) < scenes.named[:, None], scenes.colours, COLOUR - 1)
        seen = torch.zeros(B, CELLS**2, COLOUR + SHAPE)
        b, n = (torch.arange(N) < scenes.count[:, None]).nonzero(as_tuple=True)
        seen[b, scenes.cells[b, n], colours[b, n]] = 1
        seen[b, scenes.cells[b, n], COLOUR + scenes.shapes[b, n]] = 1
        return seen


class Drawn(ShapesTask):
    """Scenes as pixels; what is said of one is the colour of its one coloured thing."""

    def references(self, split):
        scenes = self.scenes(split, range(self.count(split)))
        return [[things[0][0]] for things in scenes.things]

    def named(self, split, number, words):
        scene = self.scenes(split, [number])
        return [Named(range(1), scene.mask(0, 0) if words == [scene.things[0][0][0]] else None)]


SCENES = ShapesSettings(fewest=1, most=1, clutter=2, train=6400, valid=32, test=300)


@pytest.fixture(scope="module")
def task():
    return Recognised.create(SCENES)


def make(task, normalizer="softmax", **settings):
    attention = AttentionConfig("additive", normalizer=normalizer, hidden=32, kernel="reference")
    own = {"embedding": 32, "hidden": 64, "attention": attention, "features": COLOUR + SHAPE}
    sizes = own | {"dropout": 0.0, "coverage": 0.0} | settings
    return ShowAttendTell(ShowAttendTellConfig(**task.sizes(), **sizes))


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
    at_least(found.exact, 0.9, "exact", mean=1.0000, sd=0.0000)
    at_least(found.hits.rate, 0.9, "looked at", mean=1.0000, sd=0.0000)
    assert found.hits.chance < 0.2


def test_cutting_attention_off_breaks_it(model, task):
    """Without its scores attention is the same everywhere, and the words cannot depend on a place."""
    v = model.attention.score.v.weight
    learnt = v.detach().clone()
    try:
        with torch.no_grad():
            v.zero_()
        found = evaluate_captions(model, task)
        at_most(found.exact, 0.6, "exact", mean=0.2772, sd=0.0830)
        at_most(found.hits.rate, 0.3, "looked at", mean=0.0278, sd=0.0116)
    finally:
        with torch.no_grad():
            v.copy_(learnt)


def test_reinforce_teaches_where_to_look(model, task, tmp_path):
    hard = make(task, normalizer="hard", sampled=1.0, credit="word", compared="expected", entropy=0.01)
    told = {name: tensor for name, tensor in model.state_dict().items() if "attention" not in name}
    hard.load_state_dict(told, strict=False)
    torch.nn.init.zeros_(hard.attention.score.v.weight)  # all places are alike
    at_most(evaluate_captions(hard.eval(), task).hits.rate, 0.3, "looked at before", mean=0.1100, sd=0.0000)
    train(hard, task, tmp_path / "run", steps=200, lr=0.004)
    at_least(evaluate_captions(hard, task).hits.rate, 0.9, "looked at", mean=1.0000, sd=0.0000)
    with torch.no_grad():
        hard.attention.score.v.weight.zero_()
    cut = evaluate_captions(hard, task)
    at_most(cut.hits.rate, 0.3, "looked at, cut off", mean=0.1100, sd=0.0000)
    at_most(cut.exact, 0.6, "exact, cut off", mean=0.3210, sd=0.0728)


def test_its_own_encoder_learns_colours_from_pixels(tmp_path):
    task = Drawn.create(SCENES)
    model = make(task, features=0, channels=32, annotation=64)
    untrained = deepcopy(model.encoder.state_dict())
    train(model, task, tmp_path / "run", steps=STEPS, lr=0.004)
    found = evaluate_captions(model, task)
    at_least(found.exact, 0.9, "exact from pixels", mean=1.0000, sd=0.0000)
    at_least(found.hits.rate, 0.6, "looked at in pixels", mean=0.9737, sd=0.0447)
    model.encoder.load_state_dict(untrained)
    at_most(evaluate_captions(model, task).exact, 0.5, "exact, encoder untrained", mean=0.1417, sd=0.0360)
