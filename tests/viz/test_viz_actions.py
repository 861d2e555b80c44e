"""What a policy did, drawn: marks for the steps, shades for what they attended to."""

import numpy as np
import pytest
import torch
from pages import read

from regard.errors import ShapeError
from regard.viz.actions import draw_actions

ACTIONS, REWARDS = [0, 0, 1, 1, 2, 1], [0.0, 0.0, 1.0, 1.0, 0.0, 1.0]


def test_a_full_mark_stands_where_a_step_gained(tmp_path):
    weights = torch.tril(torch.ones(6, 6)) / 6
    path = draw_actions(
        ACTIONS, REWARDS, weights, tmp_path / "a.png", names=["A", "B", "C"], title="six steps"
    )
    gained = read(path)
    nothing = read(
        draw_actions(
            ACTIONS, [0.0] * 6, weights, tmp_path / "b.png", names=["A", "B", "C"], title="six steps"
        )
    )
    assert gained.shape == nothing.shape
    assert gained.sum() < nothing.sum()  # full marks are darker than empty ones
    assert np.abs(gained - nothing).max() > 0.5


def test_a_problem_in_which_every_pull_paid_has_full_marks_alone(tmp_path):
    def darkness(rewards, **how):
        path = draw_actions(ACTIONS, rewards, torch.eye(6), tmp_path / "c.png", names=["A", "B", "C"], **how)
        return -read(path).sum()

    paid, unpaid = [1.0] * 6, [0.0] * 6
    assert darkness(paid, usual=0.0) > darkness(REWARDS, usual=0.0) > darkness(unpaid, usual=0.0)
    assert darkness(paid) == darkness(unpaid)  # beside their mean they are all alike


def test_without_attention_only_the_steps_are_drawn(tmp_path):
    whole = draw_actions(ACTIONS, REWARDS, torch.eye(6), tmp_path / "a.png", names=["A", "B", "C"])
    steps = draw_actions(ACTIONS, REWARDS, torch.zeros(0, 0), tmp_path / "b.svg", names=["A", "B", "C"])
    assert whole.stat().st_size > 1000
    assert steps.read_text(encoding="utf-8").startswith("<?xml")


def test_rewards_and_weights_must_fit_the_actions(tmp_path):
    with pytest.raises(
        ShapeError, match=r"^draw_actions: `rewards` has length 5; expected T=6 of 1 or more\.$"
    ):
        draw_actions(ACTIONS, REWARDS[:5], torch.eye(6), tmp_path / "a.png", names=["A", "B", "C"])
    message = r"^draw_actions: `weights` has shape \(5, 6\); expected \(T=6, T=6\)\.$"
    with pytest.raises(ShapeError, match=message):
        draw_actions(ACTIONS, REWARDS, torch.zeros(5, 6), tmp_path / "a.png", names=["A", "B", "C"])
