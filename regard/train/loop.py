"""The training loop. Accelerate provides device, precision and processes, as chosen by the launcher.

Between two updates (update.py) a run is a value: weights, optimizer, random states, the position in the data
and a few counters (session.py). A checkpoint holds that value, so resuming from one is the same as never
having stopped.
"""

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

from regard.tasks.base import Task
from regard.train import serialization
from regard.train.accelerator import build_accelerator
from regard.train.average import Snapshots
from regard.train.checkpoint import Checkpoint
from regard.train.config import RunConfig
from regard.train.interrupt import Interrupted, Interrupts
from regard.train.launcher import ends_with_launcher
from regard.train.progress import Progress
from regard.train.run_folder import RunFolder
from regard.train.session import Session, StepFunction
from regard.train.sharded import is_sharded
from regard.train.update import update


@dataclass(frozen=True)
class Summary:
    """How a training run ended."""

    steps: int
    seconds: float
    train_loss: float | None  # mean since the line of metrics before the last
    best_loss: float | None  # validation; None if nothing was evaluated
    best_step: int | None
    tokens_per_second: float
    stopped_early: bool
    skipped: int  # updates that were not finite


def fit(
    model: nn.Module,
    task: Task,
    config: RunConfig,
    *,
    run: Path,
    resume: bool = False,
    wait: float = 0.0,
    progress: Progress | None = None,
    step_function: StepFunction | None = None,
) -> Summary:
    """Train a model on a task, into the folder `run`.

    `resume` continues from the folder's last checkpoint. `wait`: seconds to wait while another process owns
    the folder. `step_function` replaces `task.loss` in training; validation still uses `task.loss`.
    Raises Interrupted on Ctrl-C and SIGTERM, after saving.
    """
    folder, threads = RunFolder(run), torch.get_num_threads()
    with Interrupts() as interrupts, ends_with_launcher(), ExitStack() as cleanup:
        cleanup.callback(torch.set_num_threads, threads)
        torch.set_num_threads(config.train.threads or threads)
        accelerator = build_accelerator(config.train, model, own_loss=step_function is not None)
        session = Session(task, config, folder, interrupts, step_function or task.loss, accelerator)
        try:
            session.open(model, cleanup, resume=resume, wait=wait, progress=progress)
            return _run(session)
        except Interrupted:
            raise
        except KeyboardInterrupt as error:  # a second Ctrl-C, inside a step, which is lost
            raise Interrupted(folder.last_step() or 0, folder.path) from error


def _run(run: Session) -> Summary:
    run.model.train()
    while not _between_updates(run):
        update(run)
    _average(run)
    return Summary(
        steps=run.state.step,
        seconds=run.state.seconds,
        train_loss=run.window_loss(),
        best_loss=run.state.best_loss,
        best_step=run.state.best_step,
        tokens_per_second=run.state.units / max(run.state.training_seconds, 1e-9),
        stopped_early=run.state.step < run.train.steps,
        skipped=run.state.skipped,
    )


def _between_updates(run: Session) -> bool:
    """What is due between two updates: evaluate, save, stop. Returns True when the run is over."""
    due = _evaluation_due(run)
    improved = due and _evaluate(run)
    if due:
        _keep_for_average(run)
    out_of_patience = 0 < run.train.patience <= run.state.stale
    finished = run.state.step >= run.train.steps or out_of_patience
    # no routine checkpoint while updates fail: a run resumed with a lower learning rate starts before them
    routine = _divides(run.train.checkpoint_every, run.state.step) and not run.state.skipped_in_row
    if improved or finished or routine:
        _save(run, best=improved)
    if not finished and (run.stop or (run.processes == 1 and run.interrupts.requested)):
        _interrupt(run)
    return finished


def _interrupt(run: Session) -> None:
    _save(run, best=False)
    raise Interrupted(run.state.step, run.folder.path)


def _evaluation_due(run: Session) -> bool:
    step = run.state.step
    if step == 0 or run.state.evaluated == step:
        return False
    return step >= run.train.steps or _divides(run.train.evaluate_every, step)


def _evaluate(run: Session) -> bool:
    """Record the validation loss; True if it is the best so far."""
    state = run.state
    random = serialization.random_state(run.device)
    loss = _validation_loss(run)
    if run.stop:
        # the resumed run evaluates again
        serialization.load_random_state(random, run.device)
        _interrupt(run)
    state.evaluated = state.step
    if loss is None:
        return False
    improved = math.isfinite(loss) and (state.best_loss is None or loss < state.best_loss)
    if improved:
        state.best_loss, state.best_step, state.stale = loss, state.step, 0
    else:
        state.stale += 1
    state.seconds = time.perf_counter() - run.began
    run.record(valid_loss=loss, best_loss=state.best_loss, seconds=state.seconds)
    return improved


def _validation_loss(run: Session) -> float | None:
    """The mean over the split on all processes; None if the split is empty, or if a signal arrived."""
    sums, sharded = run.zeros(2), is_sharded(run.plain)
    run.model.eval()
    with torch.no_grad():
        for rows in run.task.evaluation_plan("valid", batch=run.train.batch * run.processes):
            own = rows[run.accelerator.process_index :: run.processes]
            if _agree_to_stop(run):
                break
            if own or sharded:  # a sharded model needs every process, also those without rows
                batch = run.task.batch("valid", own or rows[:1]).to(run.device)
                loss = run.task.loss(run.plain, batch)
                sums[0] += loss.total if own else 0.0
                sums[1] += loss.count if own else 0.0
    run.model.train()
    total, count = run.accelerator.reduce(sums).tolist()
    _agree_to_stop(run)
    return total / count if count else None


def _agree_to_stop(run: Session) -> bool:
    """Whether any process has received a signal; all of them stop together."""
    if run.processes == 1:
        run.stop = run.stop or run.interrupts.requested
    else:
        flag = torch.tensor(float(run.interrupts.requested), device=run.device)
        run.stop = run.stop or bool(run.accelerator.reduce(flag) > 0)
    return run.stop


def _save(run: Session, *, best: bool) -> None:
    now = (run.state.step, run.state.evaluated)
    if run.saved == now:
        return
    run.state.seconds = time.perf_counter() - run.began
    random = _gather_random(run)
    sharded = is_sharded(run.plain)
    checkpoint = _checkpoint(run, random) if sharded or run.metrics is not None else None
    if run.metrics is not None and checkpoint is not None:
        if run.lock is not None:
            run.lock.require()
        with run.folder.disk_errors():
            run.state.metrics_size = run.metrics.sync()
        run.folder.save(checkpoint, best=best)
    run.accelerator.wait_for_everyone()
    run.saved = now


def _keep_for_average(run: Session) -> None:
    if not run.train.average:
        return
    main = run.accelerator.is_main_process
    weights = serialization.weights(run.plain) if main or is_sharded(run.plain) else {}
    if main:
        kept = Snapshots(run.folder.path, run.train.average)
        with run.folder.disk_errors():
            kept.keep(run.state.step, weights)


def _average(run: Session) -> None:
    """Save the mean of the last evaluations' weights, once the run is over."""
    if run.train.average and run.accelerator.is_main_process:
        mean = Snapshots(run.folder.path, run.train.average).mean(run.state.step)
        if mean is not None:
            run.folder.save_averaged(mean, run.state.step)
    run.accelerator.wait_for_everyone()


def _checkpoint(run: Session, random: serialization.Tensors) -> Checkpoint:
    tensors, numbers = serialization.optimizer_state(run.optimizer)
    scaler = run.accelerator.scaler
    return Checkpoint(
        state=run.state,
        model=serialization.weights(run.plain),
        optimizer=tensors,
        random=random,
        numbers={"optimizer": numbers, "scaler": scaler.state_dict() if scaler is not None else None},
    )


def _gather_random(run: Session) -> serialization.Tensors:
    """The random states of all processes, one row each."""
    own = serialization.random_state(run.device)
    return {name: run.accelerator.gather(t[None].to(run.device)).cpu() for name, t in own.items()}


def _divides(every: int, step: int) -> bool:
    return every > 0 and step > 0 and step % every == 0
