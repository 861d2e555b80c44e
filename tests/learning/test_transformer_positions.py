"""The Transformer learns to write backwards, and does not without positions, or with its attention cut off.

Expected: 0.99 of the tokens right at every length it was trained on; 0.16 at the longest without.

A score that looks back needs no positions: where the queries before it attended tells each of them its place.
Expected, with eight symbols: 0.97 right at the longest of 5 with coverage and all with a location-aware
score; 0.3 if nothing is handed on from query to query.
"""

from dataclasses import replace

import pytest
import torch
from measures import at_least, at_most

from regard.attention.compose import Attention
from regard.attention.config import AttentionConfig
from regard.attention.history import History
from regard.attention.normalizers.mean import Mean
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from regard.models.transformer import Transformer, TransformerConfig
from regard.tasks.reverse import ReverseSettings, ReverseTask
from regard.train.config import RunConfig, TrainConfig
from regard.train.loop import fit
from regard.train.progress import Quiet

pytestmark = pytest.mark.slow
SHORTEST, LONGEST, TESTED = 3, 8, 128


def train(task, run, *, steps=350, batch=1000, lr=3e-3, **options):
    model = Transformer(TransformerConfig(**task.sizes(), size="tiny", tied="all", **options))
    settings = TrainConfig(
        seed=torch.initial_seed(),
        steps=steps,
        batch=batch,
        lr=lr,
        warmup=60,
        schedule="linear",
        evaluate_every=0,
        checkpoint_every=0,
    )
    config = RunConfig(
        model="transformer", model_settings={}, task="reverse", task_settings={}, train=settings
    )
    fit(model, task, config, run=run, progress=Quiet())
    return model.eval()


def examples(task, length):
    settings = replace(task.settings, shortest=length, longest=length, test=TESTED)
    test = ReverseTask(settings, task.source, task.target)
    return test.batch("test", range(TESTED))


def accuracy(model, task, length):
    """Share of right tokens, decoded greedily."""
    right, batch = 0, examples(task, length)
    for hypothesis, target in zip(greedy(model, batch, maximum=16), batch.target.tolist(), strict=True):
        right += sum(a == b for a, b in zip(hypothesis.tokens, target[:-1], strict=False))
    return right / (TESTED * length)


@pytest.fixture(scope="module")
def task():
    return ReverseTask.create(ReverseSettings(shortest=SHORTEST, longest=LONGEST, train=20_000, valid=64))


@pytest.fixture(scope="module")
def learnt(task, tmp_path_factory):
    return train(task, tmp_path_factory.mktemp("learnt") / "run", norm="pre")


@pytest.mark.parametrize("length", [4, 6, LONGEST])
def test_with_positions_it_writes_backwards(learnt, task, length):
    at_least(accuracy(learnt, task, length), 0.9, "accuracy", mean=0.9954, sd=0.0044)


def test_without_positions_the_same_budget_fails(task, tmp_path):
    model = train(task, tmp_path / "run", norm="pre", positions="none")
    at_most(accuracy(model, task, LONGEST), 0.4, "accuracy", mean=0.1766, sd=0.0134)


def test_cutting_the_attention_over_the_source_off_breaks_it(learnt, task):
    parts = [
        m for name, m in learnt.named_modules() if "source_attention" in name and isinstance(m, Attention)
    ]
    before = [part.normalizer for part in parts]
    for part in parts:
        part.normalizer = Mean()
    try:
        at_most(accuracy(learnt, task, LONGEST), 0.4, "accuracy", mean=0.1506, sd=0.0110)
    finally:
        for part, normalizer in zip(parts, before, strict=True):
            part.normalizer = normalizer


def test_some_head_looks_at_the_symbol_it_writes(learnt, task):
    batch = examples(task, LONGEST)
    mirror = torch.arange(LONGEST - 1, -1, -1)
    tracks = forced(learnt, batch)
    paths = [path for path in tracks[0].attention if "source_attention" in path]
    heads = torch.stack([torch.cat([track.attention[path] for path in paths]) for track in tracks])
    hits = heads[:, :, :LONGEST].argmax(-1) == mirror  # (tested, layers × heads, T)
    at_least(hits.float().mean((0, 2)).max(), 0.6, "the best head", mean=0.8635, sd=0.0393)


@pytest.mark.parametrize(("score", "steps"), [("coverage", 500), ("location-aware", 250)])
def test_a_score_that_looks_back_needs_no_positions(score, steps, tmp_path, monkeypatch):
    short = ReverseTask.create(ReverseSettings(symbols=8, shortest=3, longest=5, train=20_000, valid=64))
    sizes = {
        "layers": 1,
        "d_model": 32,
        "d_ff": 64,
        "norm": "pre",
        "attention": AttentionConfig(score, heads=2, width=5),
    }
    budget = {"steps": steps, "batch": 600, "lr": 1e-2}
    model = train(short, tmp_path / "run", positions="none", **sizes, **budget)
    at_least(accuracy(model, short, 5), 0.75, "accuracy", mean=0.9734, sd=0.0530)
    monkeypatch.setattr(History, "advance", lambda history, weights: history)
    at_most(accuracy(model, short, 5), 0.55, "accuracy, nothing handed on", mean=0.2840, sd=0.0508)
