"""Neural Turing Machines: bits in, bits out, and the tape."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from regard.attention.memory.addressing import content_weights, interpolate, sharpen, shift
from regard.attention.memory.cells import MemoryState, write
from regard.attention.memory.heads import Controls
from regard.data.bits import BitBatch, join
from regard.decode.cancel import check_cancelled
from regard.errors import DataError, ShapeError, check_whole
from regard.models.ntm import NTM, Tape
from regard.systems.drawable import Drawable
from regard.systems.system import System, chunks, depth, same_length
from regard.tasks.bits import BitTask
from regard.tasks.ntm import AssociativeRecallTask, CopyTask
from regard.train.run import Run
from regard.views.tape import draw


class Stages(NamedTuple):
    """The stages of every head's addressing at each step, and the memory after it; read heads come first."""

    content: Tensor  # (T, H, N) content addressing, equations 5 and 6
    gated: Tensor  # (T, H, N) interpolated with the previous weights, equation 7
    shifted: Tensor  # (T, H, N) after the shift, equation 8
    sharpened: Tensor  # (T, H, N) the final weights, equation 9
    cells: Tensor  # (T, N, M)


@dataclass(frozen=True, eq=False, repr=False)
class MachineRun(Drawable):
    """A machine's output, and everything that it did on its tape."""

    inputs: Tensor  # (T, I)
    probabilities: Tensor  # (A, O) that a bit of the answer is 1
    right: Tensor  # (A, O) the target bits
    tape: Tape  # of a batch of one
    task: str
    title = "Neural Turing Machine"

    @property
    def bits(self) -> Tensor:
        """(A, O) the answer, 0 or 1."""
        return (self.probabilities > 0.5).long()

    @property
    def wrong(self) -> int:
        """The number of wrong bits in the answer."""
        return int((self.bits != self.right).sum())

    def __repr__(self) -> str:
        return f"<MachineRun {self._line()}>"

    def _line(self) -> str:
        said = f"{self.wrong} of {self.right.numel()} bits wrong"
        return f"{self.task}, {len(self.inputs)} steps: {said}"

    def draw(self, path: Path) -> None:
        A, T = len(self.right), len(self.inputs)
        outputs = torch.cat([torch.zeros(T - A, self.right.shape[1]), self.probabilities])
        draw(path, title=self._line(), inputs=self.inputs, outputs=outputs, tape=self.tape)

    draw_page = draw


class MachineSystem(System):
    """A Neural Turing Machine.

        copied = load("ntm-copy", device="cpu").run(torch.randint(0, 2, (20, 8)))
        copied.bits, copied.wrong
        copied.save("tape.png")

    The shipped models copy (`ntm-copy`) and recall (`ntm-recall`).
    """

    task: BitTask

    def __init__(self, run: Run, half: torch.dtype | None = None) -> None:
        super().__init__(run, half)
        if not isinstance(run.model, NTM):
            raise DataError(
                f"{run.folder}: model is {run.config.model!r}, which has no tape; expected 'ntm'."
            )
        self.model = run.model

    def run_on(self, batch: BitBatch) -> list[MachineRun]:
        """Run the machine on a batch of its task."""
        with torch.no_grad(), self.computing():
            tape = self.model.trace(self.place(batch).inputs)
        runs = []
        for b in range(batch.size):
            T = int(batch.counted[b].nonzero().max()) + 1  # shorter sequences are padded after their answer
            own = _row(tape, b, T)
            due = batch.counted[b, :T]
            probabilities = own.logits[0].sigmoid()[due]
            right = batch.targets[b, :T][due].long()
            runs.append(MachineRun(batch.inputs[b, :T], probabilities, right, own, self.task.name))
        return runs

    def run(self, bits: Any, ask: int | Sequence[int] = 0) -> MachineRun | list[MachineRun]:
        """Run the machine on a sequence of bit vectors, or on each of several.

        `copy` takes (L, 8) vectors; `associative-recall` takes (K, 3, 6) items, and `ask` is the index of the
        queried item. Other tasks only have examples.
        """
        task, axes = self.task, 3 if isinstance(self.task, AssociativeRecallTask) else 2
        single = not isinstance(bits, list | tuple) or (len(bits) > 0 and depth(bits) <= axes)
        sequences = [_tensor(each) for each in ([bits] if single else bits)]
        asked = [ask] * len(sequences) if isinstance(ask, int) else list(ask)
        same_length("run", bits=sequences, ask=asked)
        found = [self._pose(task, each, place, axes) for each, place in zip(sequences, asked, strict=True)]
        runs = [run for part in chunks(found) for run in self.run_on(join(part))]
        return runs[0] if single else runs

    def stages(self, run: MachineRun) -> Stages:
        """The four stages of addressing of every head at each step of a run, and the memory after it."""
        with torch.no_grad(), self.computing():
            memory = self.model.start(1).memory
            R, W, found = memory.read.shape[1], memory.write.shape[1], []
            for t in range(len(run.inputs)):
                check_cancelled()
                controls = Controls(*(part[:, t].to(self.device) for part in run.tape.controls))
                previous = torch.cat([memory.read, memory.write], 1)
                content = content_weights(memory.cells[:, None], controls.key, controls.strength)
                gated = interpolate(content, previous, controls.gate)
                shifted = shift(gated, controls.shifts)
                weights = sharpen(shifted, controls.gamma)
                at_read, at_write = torch.split(weights, [R, W], 1)
                cells = write(memory.cells, at_write, controls.erase, controls.add)
                memory = MemoryState(cells, at_read, at_write)
                found.append((content, gated, shifted, weights, cells))
        return Stages(*(torch.cat(parts).float().cpu() for parts in zip(*found, strict=True)))

    def example(self, *shape: int) -> MachineRun:
        """A random example of a given shape (`example(60)`), by default the task's first test shape."""
        shape, units = shape or self.task.shapes("test")[0], self.task.units
        same_length("example", units=units, shape=shape)
        check_whole("example", **dict(zip(units, shape, strict=True)))
        [run] = self.run_on(self.task.example(shape))
        return run

    def _pose(self, task: BitTask, given: Tensor, ask: int, axes: int) -> BitBatch:
        if not isinstance(task, CopyTask | AssociativeRecallTask):
            raise DataError(
                f"{self.name}: the task is {task.name!r}, which makes its own inputs; expected 'copy' or "
                "'associative-recall'. `example()` shows one."
            )
        width = task.settings.bits
        expected, least = f"(L, {width})", 1
        fits = given.ndim == axes and given.shape[-1] == width
        if axes == 3:
            expected, least = f"(K, {task.settings.item}, {width}) of two items or more", 2
            fits = fits and given.shape[1] == task.settings.item
        if not fits or len(given) < least:
            raise ShapeError(f"run: `bits` has shape {tuple(given.shape)}; expected {expected}.")
        if not bool(((given == 0) | (given == 1)).all()):
            raise DataError("run: `bits` has numbers other than 0 and 1; expected bits.")
        if isinstance(task, CopyTask):
            return task.pose(given[None])
        check_whole("run", least=0, ask=ask)
        if ask > len(given) - 2:
            raise DataError(f"run: `ask` has {ask}; expected 0 to {len(given) - 2}: an item with a next one.")
        return task.pose(given[None], torch.tensor([ask]))


def _row(tape: Tape, b: int, T: int) -> Tape:
    """The first T steps of one row of a batch, on the CPU."""

    def cut(x: Tensor) -> Tensor:
        return x[b : b + 1, :T].float().cpu()

    *parts, controls = tape
    return Tape(*map(cut, parts), type(controls)(*map(cut, controls)))  # type: ignore[arg-type, call-arg]


def _tensor(bits: Any) -> Tensor:
    try:
        return torch.as_tensor(bits).detach().cpu().float()
    except (TypeError, ValueError, RuntimeError):
        raise ShapeError(
            "run: `bits` cannot be read as rows of numbers, all of one length; expected vectors of bits."
        ) from None
