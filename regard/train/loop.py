"""The only training loop. Accelerate gives device, precision and processes; the launcher decides them.

One update uses `accumulate` batches on each of P processes and follows the gradient of

    Σ total / Σ count            over all batches and processes of the update

and not a mean of means: every batch adds the gradient of its total, and their sum is divided by the summed
count before clipping. So two processes do what one does with twice the batch.

A model whose parts learn in turn (`Model.players`, adversaries) makes such a step for each of them in one
update, every turn with batches of its own and the gradient of that player's parameters alone.

Between two updates a run is a value: weights, optimizer, random states, a place in the data, a few counters.
That value is what a checkpoint holds, so going on from one equals never having stopped.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, DataError
from regard.extras import needs
from regard.models.base import Model, Player
from regard.tasks.base import Loss, Task
from regard.train import durable, serialization
from regard.train.accelerator import build_accelerator, uses_all_parameters
from regard.train.average import Snapshots
from regard.train.batch_stream import Stream, moved_position
from regard.train.capture import CapturedStep, Rounding
from regard.train.checkpoint import Checkpoint, RunFolder, State
from regard.train.compiling import compiled
from regard.train.config import RunConfig, TrainConfig
from regard.train.interrupt import Interrupted, Interrupts
from regard.train.launcher import ends_with_launcher
from regard.train.lock import RunLock, own_run
from regard.train.metrics import Metrics
from regard.train.optimizers import build_optimizer
from regard.train.progress import Progress, Quiet, View, choose_progress
from regard.train.schedule import learning_rate
from regard.train.sharded import is_sharded, total_norm

needs("train", "accelerate")
from accelerate.utils import broadcast_object_list, set_seed  # noqa: E402

NEW_PROCESS = 1_000_003  # times the step, in the seed of a process that joins a run there
NONFINITE_IN_ROW = 10  # so many skipped updates one after the other mean that nothing will change by itself

StepFunction = Callable[[Any, Any], Loss]  # (model, batch) -> what to minimise


@dataclass(frozen=True)
class Summary:
    """How a training run ended."""

    steps: int
    seconds: float
    train_loss: float | None  # mean since the line of metrics before the last
    best_loss: float | None  # validation; None where nothing was evaluated
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

    `resume` goes on from the folder's last checkpoint. `wait`: so many seconds the folder may still belong to
    another process. `step_function` replaces `task.loss` in training; the validation loss is the task's.
    Raises Interrupted on Ctrl-C and SIGTERM, after saving.
    """
    folder, threads = RunFolder(run), torch.get_num_threads()
    with Interrupts() as interrupts, ends_with_launcher(), ExitStack() as cleanup:
        cleanup.callback(torch.set_num_threads, threads)
        torch.set_num_threads(config.train.threads or threads)
        accelerator = build_accelerator(config.train, model, own_loss=step_function is not None)
        training = _Training(task, config, folder, interrupts, step_function or task.loss, accelerator)
        try:
            training.wait = wait
            training.open(model, cleanup, resume=resume, progress=progress)
            return training.run()
        except Interrupted:
            raise
        except KeyboardInterrupt as error:  # inside a step, which is then lost: the second Ctrl-C
            raise Interrupted(folder.last_step() or 0, folder.path) from error


class _Turn(NamedTuple):
    """What one step of the optimizer was made from."""

    player: Player | None
    total: float
    units: float
    norm: float

    @property
    def finite(self) -> bool:
        return math.isfinite(self.total) and math.isfinite(self.norm)


class _Training:
    """A run in memory: what `fit` opens, advances and saves."""

    model: nn.Module  # as Accelerate wrapped it
    plain: nn.Module  # the same, without the wrapper of several processes
    optimizer: Any
    parameters: list[nn.Parameter]
    turns: list[Player | None]  # who learns in an update, one after the other; None: the model as a whole
    stream: Stream
    progress: Progress
    metrics: Metrics | None = None  # the main process's
    lock: RunLock | None = None  # the main process's
    captured: CapturedStep | None = None  # where steps are recorded and replayed
    wait: float = 0.0  # seconds that the folder may belong to another process

    def __init__(
        self,
        task: Task,
        config: RunConfig,
        folder: RunFolder,
        interrupts: Interrupts,
        loss: StepFunction,
        accelerator: Any,
    ) -> None:
        self.task, self.config, self.train = task, config, config.train
        self.folder, self.interrupts, self.loss = folder, interrupts, loss
        self.accelerator = accelerator
        self.processes: int = self.accelerator.num_processes
        self.device: torch.device = self.accelerator.device
        self.state = State(processes=self.processes)
        self._stop = False  # all processes agree on this one; the signal may have reached only some
        self._saved: tuple[int, int] | None = None
        self._ahead: tuple[Any, int, int] | None = None  # a batch made before it is due
        self._notes: list[str] = []  # to be said when the training begins

    # opening

    def open(self, model: nn.Module, cleanup: ExitStack, *, resume: bool, progress: Progress | None) -> None:
        """Prepare everything, from the start or from the last checkpoint."""
        if isinstance(model, Model) and model.players:
            _check_turns(model, self.train)
        checkpoint = self._open_folder(cleanup, resume=resume)
        if checkpoint is not None:
            self.folder.fill(model, checkpoint.model)
            self.state = checkpoint.state
            self._saved = (self.state.step, self.state.evaluated)
        self._prepare(model, cleanup)
        self._open_stream()
        self._open_views(cleanup, progress)
        if checkpoint is None:
            set_seed(self.train.seed + self.accelerator.process_index)
        else:
            self._restore(checkpoint)
        self._began = time.perf_counter() - self.state.seconds

    def _open_folder(self, cleanup: ExitStack, *, resume: bool) -> Checkpoint | None:
        """Check on all processes before the main one writes, so that all stop with the same sentence."""
        if resume:
            self.folder.require_run()
        self._own_folder(cleanup)
        if not resume:
            self.folder.require_new()
        changed = self.folder.require_same(self.config) if resume else {}
        checkpoint = self.folder.load() if resume else None
        if checkpoint is not None and changed.keys() & {"train.lr", "train.clip"}:
            checkpoint.state.skipped_in_row = 0  # what made the updates fail may be mended
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process and resume:
            self.folder.update_config(self.config)
            if checkpoint is not None and checkpoint.state.processes != self.processes:
                self.folder.record_changes({"processes": (checkpoint.state.processes, self.processes)})
        elif self.accelerator.is_main_process:
            self.folder.create(self.config, self.task)
        self.accelerator.wait_for_everyone()
        return checkpoint

    def _own_folder(self, cleanup: ExitStack) -> None:
        """Let the main process own the folder until the end; where another does, all stop with its name."""
        refusal: list[Any] = [None]
        if self.accelerator.is_main_process:
            try:
                with durable.disk_errors(self.folder.path, self.folder.describe_last):
                    self.lock = cleanup.enter_context(own_run(self.folder.path, wait=self.wait))
            except DataError as error:
                refusal = [str(error)]
        if self.processes > 1:
            broadcast_object_list(refusal)
        if refusal[0] is not None:
            raise DataError(refusal[0])

    def _prepare(self, model: nn.Module, cleanup: ExitStack) -> None:
        players = model.players if isinstance(model, Model) else ()
        self.turns = [player for player in players for _ in range(player.turns)] or [None]
        optimizer = self._build_optimizer(model, players)
        if "forward" not in vars(model):
            cleanup.callback(_remove_autocast, model)
        self.model, self.optimizer = self.accelerator.prepare(model, optimizer)
        self.plain = self.accelerator.unwrap_model(self.model)
        self.parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        if self.accelerator.mixed_precision == "bf16" and self.loss == self.task.loss:
            _keep_half(self.plain, self.task, self.device)
        if self.train.compile and isinstance(self.plain, Model):
            cleanup.enter_context(compiled(self.plain))
        if self.train.capture and self.processes > 1:
            self._notes.append(
                f"'train.capture' is for one process; the steps of {self.processes} are not recorded."
            )
        elif self.train.capture and self.device.type == "cuda":
            self.captured = CapturedStep(self._backward, self.plain)

    def _build_optimizer(self, model: nn.Module, players: tuple[Player, ...]) -> torch.optim.Optimizer:
        """One optimizer; with players, a group of parameters for each, which learns at its own rate."""
        if not players:
            return build_optimizer(model.parameters(), self.train, self.device)
        first, *others = players
        optimizer = build_optimizer(model.get_submodule(first.name).parameters(), self.train, self.device)
        optimizer.param_groups[0]["rate"] = first.rate
        for player in others:
            learning = [p for p in model.get_submodule(player.name).parameters() if p.requires_grad]
            optimizer.add_param_group({"params": learning, "rate": player.rate})
        return optimizer

    def _open_stream(self) -> None:
        how: dict[str, int] = {"seed": self.train.seed, "batch": self.train.batch, "epoch": self.state.epoch}
        were, self.state.processes = self.state.processes, self.processes
        if were != self.processes:
            self.state.position = moved_position(
                self.task, **how, position=self.state.position, were=were, processes=self.processes
            )
            self._notes.append(
                f"the run was saved by {_processes(were)} and goes on with {self.processes}: "
                f"from here on the result is that of {self.processes}."
            )
        process = self.accelerator.process_index
        self.stream = Stream(
            self.task, **how, position=self.state.position, processes=self.processes, process=process
        )

    def _open_views(self, cleanup: ExitStack, progress: Progress | None) -> None:
        if not self.accelerator.is_main_process:
            self.progress = Quiet()
            return
        self.progress = progress or choose_progress(self.train.log_every)
        with durable.disk_errors(self.folder.path, self.folder.describe_last):
            self.metrics = Metrics(self.folder.path, size=self.state.metrics_size, step=self.state.step)
        cleanup.callback(self.metrics.close)
        cleanup.callback(self.progress.stop)
        self.progress.start(self.state.step, self.train.steps)
        if self.folder.fault:
            self.progress.note(self.folder.fault)
        if not self.metrics.has_tensorboard:
            self.progress.note("tensorboard is not installed; the metrics go to metrics.jsonl alone.")
        for note in self._notes:
            self.progress.note(note)

    def _restore(self, checkpoint: Checkpoint) -> None:
        serialization.load_optimizer(self.optimizer, checkpoint.optimizer, checkpoint.numbers["optimizer"])
        if self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(checkpoint.numbers["scaler"])
        process = self.accelerator.process_index
        if process < len(checkpoint.random["torch"]):
            serialization.load_random_state(
                {name: rows[process] for name, rows in checkpoint.random.items()}, self.device
            )
        else:  # one that the run did not have so far
            set_seed((self.train.seed + process + NEW_PROCESS * self.state.step) % 2**32)

    # the loop

    def run(self) -> Summary:
        self.model.train()
        while not self._settle():
            self._update()
        self._average()
        return Summary(
            steps=self.state.step,
            seconds=self.state.seconds,
            train_loss=self._window_loss(),
            best_loss=self.state.best_loss,
            best_step=self.state.best_step,
            tokens_per_second=self.state.units / max(self.state.training_seconds, 1e-9),
            stopped_early=self.state.step < self.train.steps,
            skipped=self.state.skipped,
        )

    def _settle(self) -> bool:
        """What is due between two updates: evaluate, save, stop. True when the run is over."""
        due = self._evaluation_due()
        improved = due and self._evaluate()
        if due:
            self._keep_for_average()
        out_of_patience = 0 < self.train.patience <= self.state.stale
        finished = self.state.step >= self.train.steps or out_of_patience
        # not among updates that fail: who then lowers the learning rate goes on from before them
        routine = _divides(self.train.checkpoint_every, self.state.step) and not self.state.skipped_in_row
        if improved or finished or routine:
            self._save(best=improved)
        if not finished and (self._stop or (self.processes == 1 and self.interrupts.requested)):
            self._interrupt()
        return finished

    def _interrupt(self) -> None:
        self._save(best=False)
        raise Interrupted(self.state.step, self.folder.path)

    # an update

    def _update(self) -> None:
        began = time.perf_counter()
        lr = learning_rate(self.state.step + 1, self.train)
        for group in self.optimizer.param_groups:
            group["lr"] = lr * group.get("rate", 1.0)
        turns = [self._turn(player) for player in self.turns]
        self.state.step += 1
        broken = next((turn for turn in turns if not turn.finite), None)
        if broken is not None:
            self._skip(broken.total, broken.norm)
            return
        if isinstance(self.plain, Model):
            self.plain.after_step(self.state.step)
        self.state.skipped_in_row = 0
        self._count(turns, time.perf_counter() - began)
        self._report(turns[0].norm, lr)

    def _turn(self, player: Player | None) -> _Turn:
        """A step of the optimizer for one player, or for the model as a whole; none if it is not finite."""
        with self._alone(player) if player is not None else nullcontext():
            sums = self._accumulate(player)
            self.accelerator.unscale_gradients(self.optimizer)
            gradients = [p.grad for p in self.parameters if p.grad is not None]
            if self.processes > 1 and len(gradients) < len(self.parameters):
                self._check_unused()
            norm = total_norm(gradients).to(sums)
            if self.device.type != "cpu":
                self._ahead = self._next()  # made while the device works
            # all numbers at once: each reading waits for the device, which then waits for us
            total, count, stop, size = torch.cat([self.accelerator.reduce(sums), norm[None]]).tolist()
            self._stop = stop > 0
            turn = _Turn(player, total, count, self._scale(gradients, size, count))
            if turn.finite:
                self.optimizer.step()
            return turn

    def _check_unused(self) -> None:
        """Refuse a model that promises a gradient for every parameter and gives one none."""
        if uses_all_parameters(self.plain) and self.loss == self.task.loss:
            left = [n for n, p in self.plain.named_parameters() if p.requires_grad and p.grad is None]
            raise ConfigError(
                f"train: `{type(self.plain).__name__}.uses_all_parameters` is True, and {left[0]} got no "
                "gradient; expected False, so that several processes look for such parameters."
            )

    @contextmanager
    def _alone(self, player: Player) -> Iterator[None]:
        """One player learns: the others' parameters get no gradient, and their last ones lie aside.

        A recorded step writes to the memory of its gradients, so they are put back where they were.
        """
        own = {id(p) for p in self.plain.get_submodule(player.name).parameters()}
        others = [p for p in self.parameters if id(p) not in own]
        aside = [p.grad for p in others]
        for parameter in others:
            parameter.requires_grad_(False).grad = None
        try:
            yield
        finally:
            for parameter, gradient in zip(others, aside, strict=True):
                parameter.requires_grad_(True).grad = gradient

    def _accumulate(self, player: Player | None) -> Tensor:
        """Forward and backward of one turn's batches; (3,) loss, units, and whether a signal came."""
        model = self.plain
        phase = model.at_step(self.state.step + 1, self.train.steps) if isinstance(model, Model) else None
        if self.captured is None:
            self.optimizer.zero_grad()
        else:
            self.captured.clear_gradients()
        sums = self._zeros(3)
        for left in reversed(range(self.train.accumulate)):
            batch = self._take()
            if self.captured is not None:
                loss = self.captured(batch.to(self.device), phase, player)
            else:
                with self.accelerator.no_sync(self.model) if left else nullcontext():
                    loss = self._backward(batch.to(self.device), player)
            sums[0] += loss.total.detach()
            sums[1] += loss.count
        sums[2] += self.interrupts.requested
        return sums

    def _take(self) -> Any:
        """The next batch, which moves the place in the data."""
        batch, self.state.epoch, self.state.position = self._ahead or self._next()
        self._ahead = None
        return batch

    def _next(self) -> tuple[Any, int, int]:
        """The stream's next batch, and the place behind it."""
        batch = self.task.batch("train", self.stream.next())
        if self.captured is not None and isinstance(batch, Rounding):
            batch = batch.rounded()
        return batch, self.stream.epoch, self.stream.position

    def _backward(self, batch: Any, player: Player | None = None) -> Loss:
        """Add the gradient of one batch's total."""
        model = self.model if player is None else partial(self.model, player=player.name)
        loss = self.loss(model, batch)
        self.accelerator.backward(loss.total)
        return loss

    def _scale(self, gradients: list[Tensor], size: float, count: float) -> float:
        """Make the gradients, of this norm, those of Σ total / Σ count, clipped; the norm before that."""
        scale = self.processes / count if count else math.nan  # processes average; the sum is wanted
        norm = size * scale
        if not math.isfinite(norm):
            return norm
        if self.train.clip:
            scale *= min(1.0, self.train.clip / (norm + 1e-6))
        torch._foreach_mul_(gradients, scale)
        return norm

    def _count(self, turns: list[_Turn], seconds: float) -> None:
        """Add up what was done; the loss that is shown is the first player's."""
        for player, total, count, _ in turns:
            if player is not None:
                before = self.state.window_players.get(player.name, (0.0, 0.0))
                self.state.window_players[player.name] = (before[0] + total, before[1] + count)
        first = [turn for turn in turns if turn.player is turns[0].player]
        total, count = sum(turn.total for turn in first), sum(turn.units for turn in first)
        self.state.units += count
        self.state.training_seconds += seconds
        self.state.window_total += total
        self.state.window_count += count
        self.state.window_seconds += seconds
        self.state.seconds = time.perf_counter() - self._began

    def _report(self, norm: float, lr: float) -> None:
        state, loss = self.state, self._window_loss()
        speed = state.window_count / max(state.window_seconds, 1e-9)
        left = (self.train.steps - state.step) * state.seconds / state.step
        self.progress.update(View(state.step, loss, speed, left, state.best_loss))
        if state.step % self.train.log_every and state.step != self.train.steps:
            return
        state.train_loss = loss
        losses = {f"loss_{name}": total / count for name, (total, count) in state.window_players.items()}
        self._record(
            loss=loss, lr=lr, tokens_per_second=speed, gradient_norm=norm, seconds=state.seconds, **losses
        )
        state.window_players = {}
        state.window_total = state.window_count = state.window_seconds = 0.0

    def _window_loss(self) -> float | None:
        window = self.state.window_count
        return self.state.window_total / window if window else self.state.train_loss

    def _skip(self, total: float, norm: float) -> None:
        """Leave the parameters as they are; say so; give up when it happens again and again."""
        scaler = self.accelerator.scaler
        if scaler is not None:
            scaler.update()  # halves the scale: float16 overflows now and then, so the scale is found
            if math.isfinite(total) and scaler.get_scale() >= 1.0:
                self._record(event="overflow", scale=scaler.get_scale())
                return
        self.state.skipped += 1
        self.state.skipped_in_row += 1
        what = "gradient" if math.isfinite(total) else "loss"
        self._record(event="non-finite", loss=total, gradient_norm=norm, skipped=self.state.skipped)
        so_far = f"the update was skipped ({self.state.skipped} so far)"
        self.progress.note(f"step {self.state.step}: the {what} is not finite; {so_far}.")
        if self.train.on_nonfinite == "stop" or self.state.skipped_in_row >= NONFINITE_IN_ROW:
            self._give_up(what)

    def _give_up(self, what: str) -> None:
        row = self.state.skipped_in_row
        times = f", in {row} updates in a row" if row > 1 else ""
        where = f"the {what} is not finite at step {self.state.step}{times}"
        lower = f"regard train --resume --run {self.folder.path} --set train.lr={self.train.lr / 10:g}"
        hint = f"Lower train.lr or train.clip: {lower}; {self.folder.describe_last()}"
        raise ConfigError(f"{self.folder.path}: {where}; training stopped. {hint}.")

    # evaluation

    def _evaluation_due(self) -> bool:
        step = self.state.step
        if step == 0 or self.state.evaluated == step:
            return False
        return step >= self.train.steps or _divides(self.train.evaluate_every, step)

    def _evaluate(self) -> bool:
        """The validation loss; True where it is the best so far."""
        state = self.state
        random = serialization.random_state(self.device)
        loss = self._validation_loss()
        if self._stop:
            # the evaluation is done again when the run goes on
            serialization.load_random_state(random, self.device)
            self._interrupt()
        state.evaluated = state.step
        if loss is None:
            return False
        improved = math.isfinite(loss) and (state.best_loss is None or loss < state.best_loss)
        if improved:
            state.best_loss, state.best_step, state.stale = loss, state.step, 0
        else:
            state.stale += 1
        state.seconds = time.perf_counter() - self._began
        self._record(valid_loss=loss, best_loss=state.best_loss, seconds=state.seconds)
        return improved

    def _validation_loss(self) -> float | None:
        """The mean over the split of all processes; None for an empty split, or where a signal came first."""
        sums, sharded = self._zeros(2), is_sharded(self.plain)
        self.model.eval()
        with torch.no_grad():
            for rows in self.task.evaluation_plan("valid", batch=self.train.batch * self.processes):
                own = rows[self.accelerator.process_index :: self.processes]
                if self._agree_to_stop():
                    break
                if own or sharded:  # with a part of the model, a process without rows must compute along
                    batch = self.task.batch("valid", own or rows[:1]).to(self.device)
                    loss = self.task.loss(self.plain, batch)
                    sums[0] += loss.total if own else 0.0
                    sums[1] += loss.count if own else 0.0
        self.model.train()
        total, count = self.accelerator.reduce(sums).tolist()
        self._agree_to_stop()
        return total / count if count else None

    def _agree_to_stop(self) -> bool:
        """Whether a signal reached any of the processes, which all go on or stop together."""
        if self.processes == 1:
            self._stop = self._stop or self.interrupts.requested
        else:
            flag = torch.tensor(float(self.interrupts.requested), device=self.device)
            self._stop = self._stop or bool(self.accelerator.reduce(flag) > 0)
        return self._stop

    # saving

    def _save(self, *, best: bool) -> None:
        now = (self.state.step, self.state.evaluated)
        if self._saved == now:
            return
        self.state.seconds = time.perf_counter() - self._began
        random = self._gather_random()
        sharded = is_sharded(self.plain)
        checkpoint = self._checkpoint(random) if sharded or self.metrics is not None else None
        if self.metrics is not None and checkpoint is not None:
            if self.lock is not None:
                self.lock.require()
            with durable.disk_errors(self.folder.path, self.folder.describe_last):
                self.state.metrics_size = self.metrics.sync()
            self.folder.save(checkpoint, best=best)
        self.accelerator.wait_for_everyone()
        self._saved = now

    def _keep_for_average(self) -> None:
        if not self.train.average:
            return
        main = self.accelerator.is_main_process
        weights = serialization.weights(self.plain) if main or is_sharded(self.plain) else {}
        if main:
            kept = Snapshots(self.folder.path, self.train.average)
            with durable.disk_errors(self.folder.path, self.folder.describe_last):
                kept.keep(self.state.step, weights)

    def _average(self) -> None:
        """The mean of the last evaluations' weights, beside the checkpoints of a run that is over."""
        if self.train.average and self.accelerator.is_main_process:
            mean = Snapshots(self.folder.path, self.train.average).mean(self.state.step)
            if mean is not None:
                self.folder.save_averaged(mean, self.state.step)
        self.accelerator.wait_for_everyone()

    def _checkpoint(self, random: serialization.Tensors) -> Checkpoint:
        tensors, numbers = serialization.optimizer_state(self.optimizer)
        scaler = self.accelerator.scaler
        return Checkpoint(
            state=self.state,
            model=serialization.weights(self.plain),
            optimizer=tensors,
            random=random,
            numbers={"optimizer": numbers, "scaler": scaler.state_dict() if scaler is not None else None},
        )

    def _gather_random(self) -> serialization.Tensors:
        """The random states of all processes, one row each."""
        own = serialization.random_state(self.device)
        return {name: self.accelerator.gather(t[None].to(self.device)).cpu() for name, t in own.items()}

    def _record(self, **numbers: Any) -> None:
        if self.metrics is not None:
            with durable.disk_errors(self.folder.path, self.folder.describe_last):
                self.metrics.write({"step": self.state.step, **numbers})

    def _zeros(self, size: int) -> Tensor:
        exact = torch.float32 if self.device.type == "mps" else torch.float64  # sums of many losses
        return torch.zeros(size, dtype=exact, device=self.device)


def _check_turns(model: Model, train: TrainConfig) -> None:
    """Refuse loss scaling: one scale cannot follow several losses."""
    if train.precision == "fp16":
        names = " and ".join(player.name for player in model.players)
        raise ConfigError(
            f"train: 'train.precision' is 'fp16'; expected 'no' or 'bf16' for {type(model).__name__}, whose "
            f"{names} learn in turn."
        )


def _remove_autocast(model: nn.Module) -> None:
    """Give the caller's model back as it was: Accelerate shadows the class's `forward` on the instance."""
    for name in ("forward", "_original_forward"):
        vars(model).pop(name, None)


def _keep_half(model: nn.Module, task: Task, device: torch.device) -> None:
    """Undo a copy: Accelerate makes outputs float32, which a task that `takes_half` does for itself."""
    if getattr(task, "takes_half", False) and hasattr(model, "_original_forward"):
        plain = model._original_forward
        model.forward = torch.autocast(device.type, torch.bfloat16)(plain)


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _divides(every: int, step: int) -> bool:
    return every > 0 and step > 0 and step % every == 0
