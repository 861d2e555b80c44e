"""The numbers of a run, as JSON lines in metrics.jsonl and as TensorBoard events.

    {"step": 40, "loss": 3.1, "lr": 0.001, "tokens_per_second": 9120.0, "gradient_norm": 0.8, "seconds": 4.2}
    {"step": 200, "valid_loss": 2.7, "best_loss": 2.7, "seconds": 21.0}
    {"step": 207, "event": "non-finite", "loss": null, "gradient_norm": null, "skipped": 1}

`loss` is the mean since the previous line. A number that is not finite is null: JSON cannot express it.
"""

import json
import math
import os
from pathlib import Path
from typing import Any

from regard.errors import DataError
from regard.storage import sync

_TAGS = {
    "loss": "train/loss",
    "lr": "train/lr",
    "tokens_per_second": "train/tokens_per_second",
    "gradient_norm": "train/gradient_norm",
    "valid_loss": "valid/loss",
}


class Metrics:
    """Writes the numbers of a run, in its main process."""

    def __init__(self, run: Path, *, size: int = 0, step: int = 0) -> None:
        """Continue after the first `size` bytes; lines written after the checkpoint of `step` are cut off."""
        path = run / "metrics.jsonl"
        if path.is_symlink():
            raise DataError(f"{run}: metrics.jsonl is a symbolic link; expected a file of the run folder.")
        self._file = path.open("ab")
        self._file.truncate(min(size, self._file.seek(0, os.SEEK_END)))
        self._file.seek(0, os.SEEK_END)
        self._events = _event_writer(run / "tensorboard", step)

    @property
    def has_tensorboard(self) -> bool:
        return self._events is not None

    def write(self, record: dict[str, Any]) -> None:
        """Append one line and flush it."""
        plain = {name: _plain(value) for name, value in record.items()}
        self._file.write(json.dumps(plain, allow_nan=False).encode("utf-8") + b"\n")
        self._file.flush()
        if self._events is not None and "event" not in record:
            for name, tag in _TAGS.items():
                if plain.get(name) is not None:
                    self._events.add_scalar(tag, plain[name], plain["step"])

    def sync(self) -> int:
        """Sync the file to disk; its size."""
        sync(self._file)
        return self._file.tell()

    def close(self) -> None:
        self._file.close()
        if self._events is not None:
            self._events.close()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl, without a last line that is still being written."""
    path = run / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1] if path.exists() else []
    return [_parse(run, number, line) for number, line in enumerate(lines, 1)]


def _parse(run: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict) or "step" not in found:
        raise DataError(f"{run}: line {number} of metrics.jsonl cannot be read; expected a JSON object.")
    return found


def _event_writer(folder: Path, step: int) -> Any:
    """A TensorBoard writer; None if TensorBoard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    # events after the checkpoint's step are from before the run was resumed; TensorBoard hides purged ones
    return SummaryWriter(str(folder), purge_step=step + 1 if step else None, flush_secs=10)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
