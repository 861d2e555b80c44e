"""Trainings side by side, in processes of their own."""

import io

import pytest
from forking import forks
from rich.console import Console

from regard.compare.jobs import Job, run_jobs, standing
from regard.errors import DataError

SMALL = ("task.train=120", "task.valid=8", "model.hidden=16", "train.log_every=1", "train.steps=3")


def job(tmp_path, name, **changes):
    fields = {
        "name": name,
        "recipe": "seq2seq-reverse",
        "run": tmp_path / name,
        "steps": 3,
        "overrides": SMALL,
    }
    return Job(**(fields | changes))


def test_two_trainings_end_with_their_run_folders(tmp_path):
    jobs = [job(tmp_path, "first"), job(tmp_path, "second", overrides=(*SMALL, "train.seed=2"))]
    with forks():
        run_jobs(jobs, workers=2, threads=1, console=Console(file=io.StringIO()))
    for each in jobs:
        assert (each.run / "checkpoints.json").exists()
        assert standing(each).step == 3
        assert standing(each).tokens_per_second > 0


def test_a_training_that_fails_says_why(tmp_path):
    wrong = job(tmp_path, "wrong", recipe="seq2seq-revers")
    sentence = "training 'wrong' failed: recipes: unknown recipe 'seq2seq-revers'; did you"
    with forks(), pytest.raises(DataError, match=sentence):
        run_jobs([wrong], workers=1, threads=1, console=Console(file=io.StringIO()))


def test_a_job_that_has_not_begun_is_preparing(tmp_path):
    assert standing(job(tmp_path, "new")) is None
