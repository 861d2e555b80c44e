"""Ctrl-C and SIGTERM while training: a request that the loop reads between steps, no exception inside one."""

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, Self

from regard.train.launcher import is_main_process

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """Training was stopped from outside; `step` is the step of the checkpoint it can go on from."""

    def __init__(self, step: int, run: Path) -> None:
        super().__init__(f"stopped at step {step}; go on with: regard train --resume --run {run}")
        self.step = step
        self.run = run


class Interrupts:
    """Inside the block, the first signal sets `requested`; a second one acts as it would have without us."""

    def __init__(self) -> None:
        self.requested = False
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # Python allows handlers nowhere else
            self._previous = {number: signal.signal(number, self._request) for number in SIGNALS}
        return self

    def __exit__(self, *error: object) -> None:
        self._restore()

    def _request(self, number: int, frame: FrameType | None) -> None:
        self.requested = True
        self._restore()
        if is_main_process():  # of several, it speaks
            name = signal.Signals(number).name
            with suppress(OSError):  # by the descriptor: print is not safe inside a handler
                os.write(2, f"{name}: stopping after this batch; a second one stops at once.\n".encode())

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
