"""Fast subprocesses: inside `forks()`, `python -m MODULE ...` forks this process instead of a fresh start.

A training process spends three to four seconds on imports before its first step. What most tests check
(files, signals, ending with the parent) is the same for a fork, which starts at once.
"""

import contextlib
import os
import runpy
import signal
import subprocess
import sys
import warnings
import weakref
from importlib import import_module

import pytest
import torch
from accelerate.state import AcceleratorState

import regard.train.loop  # noqa: F401


@contextlib.contextmanager
def forks():
    """Fork instead of starting. Disabled beside other threads (OpenMP's, a GPU's), which a fork loses."""
    if not hasattr(os, "fork") or torch.get_num_threads() > 1 or torch.accelerator.is_available():
        yield
        return
    import_module("torch._dynamo")  # the first optimizer imports it; done here once for all forks
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", _Popen)
        yield


_living: weakref.WeakSet[subprocess.Popen] = weakref.WeakSet()


class _Popen(subprocess.Popen):
    def _execute_child(self, args, *how):
        modular = list(args)[:2] == [sys.executable, "-m"]
        return self._fork(args, *how) if modular else super()._execute_child(args, *how)

    def _fork(
        self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, startupinfo, creationflags, shell,
        p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, restore_signals, gid, gids, uid, umask,
        start_new_session, process_group,
    ):  # fmt: skip
        assert cwd is None
        sys.stdout.flush()
        sys.stderr.flush()
        _living.add(self)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python 3.12 warns about threads, which pytest-xdist has
            self.pid = os.fork()
        self._child_created = True
        if self.pid:
            return self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)
        status = 1
        try:
            for other in _living:  # a process ends when its stdin closes, so no fork may hold it open
                if other.stdin is not None:
                    other.stdin.close()
            for number, file in enumerate((p2cread, c2pwrite, errwrite)):
                if file != -1:
                    os.dup2(file, number)
            for file in {p2cread, c2pwrite, errwrite, c2pread, errread} - {-1, 0, 1, 2}:
                os.close(file)
            if start_new_session:
                os.setsid()
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if env is not None:
                os.environ.clear()
                os.environ.update(env)
            status = _run(*map(str, args[2:]))
        finally:
            os._exit(status)


def _run(module, *words):
    """Run `python -m module words` in this process; its exit status."""
    AcceleratorState._reset_state(reset_partial_state=True)  # reset the parent's state, if it has trained
    sys.argv = [module, *words]
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "rww"[n], closefd=False) for n in range(3))
    warnings.resetwarnings()
    warnings.simplefilter("ignore")  # about the module being imported already
    status = 0
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return status
