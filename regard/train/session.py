"""A training run in memory: model, optimizer, position in the data, progress and metrics."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import ConfigError, DataError
from regard.extras import needs
from regard.models.base import Model, Player
from regard.tasks.base import Loss, Task
from regard.train import serialization
from regard.train.batch_stream import Stream, moved_position
from regard.train.capture import CapturedStep
from regard.train.checkpoint import Checkpoint, State
from regard.train.compiling import compiled
from regard.train.config import RunConfig, TrainConfig
from regard.train.interrupt import Interrupts
from regard.train.lock import RunLock, own_run
from regard.train.metrics import Metrics
from regard.train.optimizers import build_optimizer
from regard.train.progress import Progress, Quiet, choose_progress
from regard.train.run_folder import RunFolder

needs("train", "accelerate")
from accelerate.utils import broadcast_object_list, set_seed  # noqa: E402

NEW_PROCESS = 1_000_003  # times the step: offset of the seed of a process that joins a resumed run

StepFunction = Callable[[Any, Any], Loss]  # (model, batch) -> what to minimize


class Session:
    """A run in memory, which `fit` opens, advances and saves."""

    model: nn.Module  # as wrapped by Accelerate
    plain: nn.Module  # the same without the distributed wrapper
    optimizer: Any
    parameters: list[nn.Parameter]
    turns: list[Player | None]  # who learns in an update, in order; None: the whole model
    stream: Stream
    progress: Progress
    metrics: Metrics | None = None  # in the main process only
    lock: RunLock | None = None  # in the main process only
    captured: CapturedStep | None = None  # if steps are captured in CUDA graphs

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
        self.stop = False  # the same on all processes, though a signal may have reached only some
        self.saved: tuple[int, int] | None = None
        self.ahead: tuple[Any, int, int] | None = None  # a batch prefetched for the next update
        self.notes: list[str] = []  # shown when training begins

    def open(
        self, model: nn.Module, cleanup: ExitStack, *, resume: bool, wait: float, progress: Progress | None
    ) -> None:
        """Set everything up, from scratch or from the last checkpoint."""
        if isinstance(model, Model) and model.players:
            _check_turns(model, self.train)
        checkpoint = self._open_folder(cleanup, resume=resume, wait=wait)
        if checkpoint is not None:
            self.folder.fill(model, checkpoint.model)
            self.state = checkpoint.state
            self.saved = (self.state.step, self.state.evaluated)
        self._prepare(model, cleanup)
        self._open_stream()
        self._open_views(cleanup, progress)
        if checkpoint is None:
            set_seed(self.train.seed + self.accelerator.process_index)
        else:
            self._restore(checkpoint)
        self.began = time.perf_counter() - self.state.seconds

    def _open_folder(self, cleanup: ExitStack, *, resume: bool, wait: float) -> Checkpoint | None:
        """Run the checks on all processes before the main one writes, so that all raise the same error."""
        if resume:
            self.folder.require_run()
        self._own_folder(cleanup, wait)
        if not resume:
            self.folder.require_new()
        changed = self.folder.require_same(self.config) if resume else {}
        checkpoint = self.folder.load() if resume else None
        if checkpoint is not None and changed.keys() & {"train.lr", "train.clip"}:
            checkpoint.state.skipped_in_row = 0  # the change may fix the failing updates
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process and resume:
            self.folder.update_config(self.config)
            if checkpoint is not None and checkpoint.state.processes != self.processes:
                self.folder.record_changes({"processes": (checkpoint.state.processes, self.processes)})
        elif self.accelerator.is_main_process:
            self.folder.create(self.config, self.task)
        self.accelerator.wait_for_everyone()
        return checkpoint

    def _own_folder(self, cleanup: ExitStack, wait: float) -> None:
        """The main process owns the folder until the end; if it cannot, all processes raise its error."""
        refusal: list[Any] = [None]
        if self.accelerator.is_main_process:
            try:
                with self.folder.disk_errors():
                    self.lock = cleanup.enter_context(own_run(self.folder.path, wait=wait))
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
            self.notes.append(
                f"'train.capture' works in one process only; the steps of {self.processes} are not captured."
            )
        elif self.train.capture and self.device.type == "cuda":
            self.captured = CapturedStep(self.backward, self.plain)

    def _build_optimizer(self, model: nn.Module, players: tuple[Player, ...]) -> torch.optim.Optimizer:
        """One optimizer; with players, a parameter group for each with its own learning rate."""
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
            self.notes.append(
                f"the run was saved by {were} process{'es' * (were > 1)} and goes on with {self.processes}: "
                f"from here on the result is that of {self.processes}."
            )
        self.stream = Stream(
            self.task,
            **how,
            position=self.state.position,
            learnt=self.state.learnt,
            processes=self.processes,
            process=self.accelerator.process_index,
        )

    def _open_views(self, cleanup: ExitStack, progress: Progress | None) -> None:
        if not self.accelerator.is_main_process:
            self.progress = Quiet()
            return
        self.progress = progress or choose_progress(self.train.log_every)
        with self.folder.disk_errors():
            self.metrics = Metrics(self.folder.path, size=self.state.metrics_size, step=self.state.step)
        cleanup.callback(self.metrics.close)
        cleanup.callback(self.progress.stop)
        self.progress.start(self.state.step, self.train.steps)
        if self.folder.fault:
            self.progress.note(self.folder.fault)
        if not self.metrics.has_tensorboard:
            self.progress.note("tensorboard is not installed; the metrics go to metrics.jsonl alone.")
        for note in self.notes:
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
        else:  # a process that was not in the run so far
            set_seed((self.train.seed + process + NEW_PROCESS * self.state.step) % 2**32)

    def backward(self, batch: Any, player: Player | None = None) -> Loss:
        """Add the gradient of one batch's total loss."""
        model = self.model if player is None else partial(self.model, player=player.name)
        loss = self.loss(model, batch)
        self.accelerator.backward(loss.total)
        return loss

    def record(self, **numbers: Any) -> None:
        if self.metrics is not None:
            with self.folder.disk_errors():
                self.metrics.write({"step": self.state.step, **numbers})

    def window_loss(self) -> float | None:
        window = self.state.window_count
        return self.state.window_total / window if window else self.state.train_loss

    def zeros(self, size: int) -> Tensor:
        exact = torch.float32 if self.device.type == "mps" else torch.float64  # sums of many losses
        return torch.zeros(size, dtype=exact, device=self.device)


def _check_turns(model: Model, train: TrainConfig) -> None:
    """Raise ConfigError for loss scaling: one scale cannot follow several losses."""
    if train.precision == "fp16":
        names = " and ".join(player.name for player in model.players)
        raise ConfigError(
            f"train: 'train.precision' is 'fp16'; expected 'no' or 'bf16' for {type(model).__name__}, whose "
            f"{names} learn in turn."
        )


def _remove_autocast(model: nn.Module) -> None:
    """Restore the caller's model: Accelerate shadows the class's `forward` on the instance."""
    for name in ("forward", "_original_forward"):
        vars(model).pop(name, None)


def _keep_half(model: nn.Module, task: Task, device: torch.device) -> None:
    """Drop Accelerate's conversion of outputs to float32; a task that `takes_half` converts them itself."""
    if getattr(task, "takes_half", False) and hasattr(model, "_original_forward"):
        plain = model._original_forward
        model.forward = torch.autocast(device.type, torch.bfloat16)(plain)
