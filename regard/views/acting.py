"""One problem of an acting task: actions, rewards and what the policy attended to; or its regret."""

from pathlib import Path

import torch

from regard.attention.record import record_any
from regard.decode.base import evaluating
from regard.evaluate.acting import DRAWN, evaluate_bandits
from regard.tasks.acting import ActingTask
from regard.tasks.bandit import BanditTask
from regard.train.run import Run
from regard.views.shared import example_number, letter, require_picture
from regard.viz.actions import draw_actions
from regard.viz.curves import draw_training

NOTHING = 0.0  # the reward of an arm that does not pay


def view(run: Run, text: str | None, out: Path, *, beam: int | None) -> str:
    """Draw a test problem: `text` is its number, default 0; or "regret", for bandits."""
    task = run.task
    assert isinstance(task, ActingTask)
    require_picture(out, "actions")
    if text == "regret" and isinstance(task, BanditTask):
        return _regret(run, task, out)
    number = example_number(text, task.settings.test, "problem", ", or for bandits 'regret'")
    model = run.model
    problems = task.batch("test", [number]).to(next(model.parameters()).device)
    with evaluating(model), record_any(model) as trace:
        rollout = model(problems)
        found = [result.weights[0].float().cpu() for results in trace.values() for result in results]
    # the last call read all steps at once; those before it took one each
    weights = found[-1] if found else torch.zeros(0, 0)
    actions, rewards = rollout.actions[0].tolist(), rollout.rewards[0].tolist()
    draw_actions(
        actions,
        rewards,
        weights,
        out,
        names=[letter(action) for action in range(problems.actions)],
        title=f"Problem {number}: actions" + (", and what they attended to" if found else ""),
        usual=NOTHING if isinstance(task, BanditTask) else None,
    )
    return f"{' '.join(map(letter, actions))}, total reward {sum(rewards):.2f}"


def _regret(run: Run, task: BanditTask, out: Path) -> str:
    """The mean regret up to each pull, of the policy and of the rules."""
    found = evaluate_bandits(run.model, task)
    pulls = list(range(1, task.settings.pulls + 1))
    draw_training(
        {s.name: (pulls, list(s.curve)) for s in found.scores},
        out,
        title=f"Regret on bandits of {task.settings.arms} arms, mean of {found.problems:,} problems",
        xlabel="pull",
        ylabel="regret so far",
    )
    score = next(s for s in found.scores if s.name == DRAWN)
    return f"total reward {score.value:.2f}, regret {score.curve[-1]:.2f}"
