import os
import signal
import time
from pathlib import Path

import pytest

from regard.errors import DataError
from regard.train import launcher, lock
from regard.train.launcher import ends_with_launcher
from regard.train.lock import RunLock, own_run


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks processes")
@pytest.mark.parametrize("stuck", [False, True])
def test_a_process_ends_when_its_launcher_was_killed(monkeypatch: pytest.MonkeyPatch, stuck: bool) -> None:
    """A signal first; a process that does not heed it, in a step that never ends, ends nevertheless."""
    monkeypatch.setattr(launcher, "LOOK", 0.01)
    monkeypatch.setattr(launcher, "GRACE", 0.05 if stuck else 60.0)
    monkeypatch.setenv("WORLD_SIZE", "2")
    came, told = os.pipe()
    child = os.fork()
    if not child:
        if not os.fork():
            got: list[int] = []
            signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
            with ends_with_launcher():
                os.write(told, b"ready ")
                while stuck or not got:
                    time.sleep(0.01)
            os.write(told, b"saved ")
        else:
            os.close(told)
            time.sleep(60)
        os._exit(0)
    os.close(told)
    assert os.read(came, 6) == b"ready "
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert os.read(came, 6) == (b"" if stuck else b"saved ")  # nothing: the pipe ended with the process
    os.close(came)


def test_a_single_process_needs_no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.setattr(launcher, "_watch", None)
    with ends_with_launcher():
        pass


def test_a_training_within_a_comparison_is_watched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parents: list[int] = []

    class Watch:
        def __init__(self, *, args: tuple[int, object], **_: object) -> None:
            parents.append(args[0])

        def start(self) -> None: ...

    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(launcher.threading, "Thread", Watch)
    for _ in range(2):
        with ends_with_launcher(), ends_with_launcher():
            pass
    assert parents == [os.getppid()] * 2


def test_a_folder_that_another_process_owns_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = RunLock(tmp_path)
    other.__enter__()
    tries = []

    def sleep(seconds: float) -> None:
        tries.append(seconds)
        if len(tries) == 3:
            other.__exit__(None, None, None)

    monkeypatch.setattr(lock.time, "sleep", sleep)
    with own_run(tmp_path, wait=1000.0) as owned:
        owned.require()
    assert len(tries) == 3
    with RunLock(tmp_path), pytest.raises(DataError, match="it is in use by a training"), own_run(tmp_path):
        pass
