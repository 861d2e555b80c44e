"""One update: gradients of some batches on every process, and an optimizer step.

An update uses `accumulate` batches on each of P processes and follows the gradient of

    Σ total / Σ count            over all batches and processes of the update

not a mean of means: the gradients of the totals are summed, and the sum is divided by the summed count
before clipping. So two processes compute what one does with twice the batch.

If parts of the model learn in turn (`Model.players`, adversaries), an update makes such a step for each of
them, with its own batches and the gradient of that player's parameters only.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import ConfigError
from regard.models.base import Model, Player
from regard.train.accelerator import uses_all_parameters
from regard.train.capture import Rounding
from regard.train.progress import View
from regard.train.schedule import learning_rate
from regard.train.session import Session
from regard.train.sharded import whole

NONFINITE_IN_ROW = 10  # after this many skipped updates in a row, training is unlikely to recover


class _Turn(NamedTuple):
    """One optimizer step: whose it was, its summed loss and units, and the gradient norm."""

    player: Player | None
    total: float
    units: float
    norm: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.total) and math.isfinite(self.norm)


def update(run: Session) -> None:
    """Make one update, or skip it if it is not finite."""
    began = time.perf_counter()
    lr = learning_rate(run.state.step + 1, run.train)
    for group in run.optimizer.param_groups:
        group["lr"] = lr * group.get("rate", 1.0)
    turns = [_turn(run, player) for player in run.turns]
    run.state.step += 1
    broken = next((turn for turn in turns if not turn.finite), None)
    if broken is not None:
        _skip(run, broken.total, broken.norm)
        return
    if isinstance(run.plain, Model):
        run.plain.after_step(run.state.step)
    run.state.skipped_in_row = 0
    _count(run, turns, time.perf_counter() - began)
    _report(run, turns[0].norm, lr)


def _turn(run: Session, player: Player | None) -> _Turn:
    """One optimizer step for a player, or for the whole model; skipped if it is not finite."""
    with _freeze_others(run, player) if player is not None else nullcontext():
        sums = _accumulate(run, player)
        run.accelerator.unscale_gradients(run.optimizer)
        gradients = [p.grad for p in run.parameters if p.grad is not None]
        if run.processes > 1 and len(gradients) < len(run.parameters):
            _check_unused(run)
        norm = whole(nn.utils.get_total_norm(gradients)).to(sums)
        if run.device.type != "cpu" and not run.stream.waits:
            run.ahead = _next(run)  # made while the device works
        # read all numbers at once: each read waits for the device, which then waits for the host
        total, count, stop, size = torch.cat([run.accelerator.reduce(sums), norm[None]]).tolist()
        run.stop = stop > 0
        turn = _Turn(player, total, count, _scale(run, gradients, size, count))
        if turn.finite:
            run.optimizer.step()
        return turn


def _check_unused(run: Session) -> None:
    """Raise ConfigError if a model promises a gradient for every parameter and one has none."""
    if uses_all_parameters(run.plain) and run.loss == run.task.loss:
        left = [n for n, p in run.plain.named_parameters() if p.requires_grad and p.grad is None]
        raise ConfigError(
            f"train: `{type(run.plain).__name__}.uses_all_parameters` is True, and {left[0]} got no "
            "gradient; expected False, so that several processes look for such parameters."
        )


@contextmanager
def _freeze_others(run: Session, player: Player) -> Iterator[None]:
    """One player learns: the other parameters need no gradient, and their last gradients are set aside.

    They are restored afterwards as the same tensors, because a captured step writes to their memory.
    """
    own = {id(p) for p in run.plain.get_submodule(player.name).parameters()}
    others = [p for p in run.parameters if id(p) not in own]
    aside = [p.grad for p in others]
    for parameter in others:
        parameter.requires_grad_(False).grad = None
    try:
        yield
    finally:
        for parameter, gradient in zip(others, aside, strict=True):
            parameter.requires_grad_(True).grad = gradient


def _accumulate(run: Session, player: Player | None) -> Tensor:
    """Forward and backward of one turn's batches; (3,) summed loss, units, and whether a signal came."""
    model = run.plain
    phase = model.at_step(run.state.step + 1, run.train.steps) if isinstance(model, Model) else None
    if run.captured is None:
        run.optimizer.zero_grad()
    else:
        run.captured.clear_gradients()
    sums = run.zeros(3)
    for left in reversed(range(run.train.accumulate)):
        batch = _take(run)
        if run.captured is not None:
            loss = run.captured(batch.to(run.device), phase, player)
        else:
            with run.accelerator.no_sync(run.model) if left else nullcontext():
                loss = run.backward(batch.to(run.device), player)
        sums[0] += loss.total.detach()
        sums[1] += loss.count
    sums[2] += run.interrupts.requested
    return sums


def _take(run: Session) -> Any:
    """The next batch, which moves the place in the data."""
    epoch = run.state.epoch
    batch, run.state.epoch, run.state.position = run.ahead or _next(run)
    run.ahead, run.state.learnt = None, run.stream.learnt
    if run.state.epoch != epoch:
        run.state.epoch_total = run.state.epoch_count = 0.0
    return batch


def _next(run: Session) -> tuple[Any, int, int]:
    """The stream's next batch, and the place behind it."""
    count = run.state.epoch_count
    batch = run.task.batch("train", run.stream.next(run.state.epoch_total / count if count else math.nan))
    if run.captured is not None and isinstance(batch, Rounding):
        batch = batch.rounded()
    return batch, run.stream.epoch, run.stream.position


def _scale(run: Session, gradients: list[Tensor], size: float, count: float) -> float:
    """Scale the gradients to those of Σ total / Σ count and clip them; returns the norm before clipping."""
    scale = run.processes / count if count else math.nan  # Accelerate averages; we want the sum
    norm = size * scale
    if not math.isfinite(norm):
        return norm
    if run.train.clip:
        scale *= min(1.0, run.train.clip / (norm + 1e-6))
    torch._foreach_mul_(gradients, scale)
    return norm


def _count(run: Session, turns: list[_Turn], seconds: float) -> None:
    """Update the totals; the displayed loss is the first player's."""
    for player, total, count, _ in turns:
        if player is not None:
            before = run.state.window_players.get(player.name, (0.0, 0.0))
            run.state.window_players[player.name] = (before[0] + total, before[1] + count)
    first = [turn for turn in turns if turn.player is turns[0].player]
    total, count = sum(turn.total for turn in first), sum(turn.units for turn in first)
    run.state.units += count
    run.state.training_seconds += seconds
    run.state.epoch_total += total
    run.state.epoch_count += count
    run.state.window_total += total
    run.state.window_count += count
    run.state.window_seconds += seconds
    run.state.seconds = time.perf_counter() - run.began


def _report(run: Session, norm: float, lr: float) -> None:
    state, loss = run.state, run.window_loss()
    speed = state.window_count / max(state.window_seconds, 1e-9)
    left = (run.train.steps - state.step) * state.seconds / state.step
    run.progress.update(View(state.step, loss, speed, left, state.best_loss))
    if state.step % run.train.log_every and state.step != run.train.steps:
        return
    state.train_loss = loss
    losses = {f"loss_{name}": total / count for name, (total, count) in state.window_players.items()}
    run.record(loss=loss, lr=lr, tokens_per_second=speed, gradient_norm=norm, seconds=state.seconds, **losses)
    state.window_players = {}
    state.window_total = state.window_count = state.window_seconds = 0.0


def _skip(run: Session, total: float, norm: float) -> None:
    """Leave the parameters unchanged and report it; give up after too many skips in a row."""
    scaler = run.accelerator.scaler
    if scaler is not None:
        scaler.update()  # halves the scale: an occasional float16 overflow is how the scale is found
        if math.isfinite(total) and scaler.get_scale() >= 1.0:
            run.record(event="overflow", scale=scaler.get_scale())
            return
    run.state.skipped += 1
    run.state.skipped_in_row += 1
    what = "gradient" if math.isfinite(total) else "loss"
    run.record(event="non-finite", loss=total, gradient_norm=norm, skipped=run.state.skipped)
    so_far = f"the update was skipped ({run.state.skipped} so far)"
    run.progress.note(f"step {run.state.step}: the {what} is not finite; {so_far}.")
    if run.train.on_nonfinite == "stop" or run.state.skipped_in_row >= NONFINITE_IN_ROW:
        _give_up(run, what)


def _give_up(run: Session, what: str) -> None:
    row = run.state.skipped_in_row
    times = f", in {row} updates in a row" if row > 1 else ""
    where = f"the {what} is not finite at step {run.state.step}{times}"
    lower = f"regard train --resume --run {run.folder.path} --set train.lr={run.train.lr / 10:g}"
    hint = f"Lower train.lr or train.clip: {lower}; {run.folder.describe_last()}"
    raise ConfigError(f"{run.folder.path}: {where}; training stopped. {hint}.")
