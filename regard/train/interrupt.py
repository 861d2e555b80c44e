"""Ctrl-C and SIGTERM set a flag that the training loop reads between steps, instead of raising inside one."""

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
    """Training was stopped by a signal; `step` is that of the checkpoint from which it can resume."""

    def __init__(self, step: int, run: Path) -> None:
        super().__init__(f"stopped at step {step}; go on with: regard train --resume --run {run}")
        self.step = step
        self.run = run


class Interrupts:
    """Inside the block the first signal sets `requested`; a second one has its usual effect."""

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
        if is_main_process():  # only one of several processes prints
            name = signal.Signals(number).name
            with suppress(OSError):  # os.write, because print is not safe in a signal handler
                os.write(2, f"{name}: stopping after this batch; a second one stops at once.\n".encode())

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}
