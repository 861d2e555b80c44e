"""Writing symbols backwards, on which several benchmarks train models: training, new sequences, the score."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.decode.greedy import greedy
from regard.tasks.reverse import ReverseTask
from regard.train.config import RunConfig
from regard.train.loop import Summary, fit
from regard.train.progress import Quiet

TESTED = 256  # new sequences of each length
EXAMPLE = 7  # which of them is drawn


def train(model: Any, task: ReverseTask, config: RunConfig) -> Summary:
    """Train in a folder that is removed afterwards; the model is then ready to be measured."""
    with tempfile.TemporaryDirectory() as folder:
        summary = fit(model, task, config, run=Path(folder) / "run", progress=Quiet())
    model.eval()
    return summary


def tested(task: ReverseTask, length: int) -> ReverseTask:
    """New sequences, all of one length."""
    settings = replace(task.settings, shortest=length, longest=length, test=TESTED)
    return ReverseTask(settings, task.source, task.target)


def share_right(model: Any, task: ReverseTask, length: int) -> float:
    """The share of right symbols in new sequences of one length, decoded greedily."""
    batch = tested(task, length).batch("test", range(TESTED))
    hypotheses = greedy(model, batch, maximum=length + 8)
    right = sum(
        a == b
        for hypothesis, target in zip(hypotheses, batch.target[:, :-1].tolist(), strict=True)
        for a, b in zip(hypothesis.tokens, target, strict=False)
    )
    return right / (TESTED * length)
