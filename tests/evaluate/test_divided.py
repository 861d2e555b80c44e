"""Evaluations divided among processes: every one gets the numbers of one process, to the last bit."""

import importlib
from pathlib import Path

import pytest
import torch

from regard.decode.base import GREEDY
from regard.evaluate import divided
from regard.evaluate.base import evaluate
from regard.train.config import load_recipe
from regard.train.run import create

SMALL = ("task.train=40", "task.valid=15", "task.test=5")
RECIPES = {  # one for each evaluator
    "rnnsearch-reverse": SMALL,
    "lstm-sentences": ("task.text=text.txt",),
    "decomposable-toy": SMALL,
    "memn2n-stories": SMALL,
    "lstm-recall": SMALL,
    "pointer-sort": (*SMALL, "model.hidden=8"),
    "sat-shapes": SMALL,
    "ntm-copy": SMALL,
    "snail-strokes": SMALL,
}
MODULES = [
    "language",
    "classification",
    "questions",
    "recall",
    "pointing",
    "captions",
    "sequences",
    "fewshot",
]


class Gathered(Exception):
    """A process that would wait for the others ends here."""


class Processes:
    """Two processes one after the other: what each has at every meeting, then one that hears them all."""

    def __init__(self, monkeypatch):
        self.rank, self.meetings, self.shares = None, [], []
        for module in map(importlib.import_module, [divided.__name__, "regard.evaluate.translation"]):
            monkeypatch.setattr(module, "share", self.share)
            monkeypatch.setattr(module, "together", self.together)

    def share(self, items):
        return list(items if self.rank is None else items[self.rank :: 2])

    def together(self, own):
        if self.rank is None:
            return list(own)
        if self.number < len(self.meetings):
            self.number += 1
            return self.meetings[self.number - 1]
        self.parts.append(list(own))
        raise Gathered

    def run(self, compute):
        """The result of the first process, meeting by meeting until none is left."""
        while True:
            self.parts = []
            for self.rank in (1, 0):
                self.number = 0
                try:
                    found = compute()
                except Gathered:
                    continue
                self.rank = None
                return found
            second, first = self.parts
            merged = [None] * (len(first) + len(second))
            merged[0::2], merged[1::2] = first, second
            self.meetings.append(merged)
            self.shares.append((len(first), len(second)))


@pytest.mark.parametrize("recipe", RECIPES)
def test_two_processes_measure_what_one_does(recipe, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("".join(f"{'a b ' * (n % 3)}c d {n % 7}\n" for n in range(600)))
    settings = load_recipe(recipe, RECIPES[recipe])
    model, task = create(settings)
    model.eval()
    for name in MODULES:  # so that there are several batches
        monkeypatch.setattr(f"regard.evaluate.{name}.BATCH", 6)

    def measure():
        torch.manual_seed(1)
        found = evaluate(model, task, "valid", decoding=GREEDY)
        return {**found.summary(), "seconds": 0}, found.lines()

    processes = Processes(monkeypatch)
    expected = measure()
    assert processes.run(measure) == expected
    first, second = processes.shares[0]
    assert first >= second > 0
