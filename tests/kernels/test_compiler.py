"""Compiled loops are kept in the cache, checked, and never the end of a call that could do without them."""

import ctypes
import logging
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from kernels.sparsemax_cases import check, rows_of

from regard.kernels import compiler
from regard.kernels.sparsemax import sparsemax_cpu

CODE = 'extern "C" int seven() { return 7; }\n'  # compiled in a tenth of the time of real loops
pytestmark = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache and an empty folder for temporary files; no library is loaded yet."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    forget()
    yield tmp_path / "cache" / "loops"
    forget()


def forget():
    sparsemax_cpu.compiled.cache_clear()


@pytest.fixture
def compilations(monkeypatch):
    """The commands that were run to compile."""
    commands, run = [], compiler._compile

    def counted(command):
        commands.append(command)
        run(command)

    monkeypatch.setattr(compiler, "_compile", counted)
    return commands


def again():
    """The library, asked for as another process would."""
    source = Path(tempfile.gettempdir()).parent / "seven.cpp"
    source.write_text(CODE)
    found = compiler.library(str(source), "nothing runs")
    assert found is None or found.seven() == 7
    return found


def test_what_was_compiled_once_is_loaded_by_the_next_process(cache, compilations):
    assert again() is not None
    [kept] = cache.iterdir()
    assert again() is not None
    assert len(compilations) == 1
    assert list(cache.iterdir()) == [kept]


def test_a_damaged_library_is_not_loaded_but_made_again(cache, compilations):
    again()
    [kept] = cache.iterdir()
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.unlink()  # it is mapped into this process
    kept.write_bytes(content)
    assert again() is not None
    assert len(compilations) == 2
    [kept] = cache.iterdir()
    assert kept.read_bytes() != content


@pytest.mark.parametrize("what", ["processor", "flags", "compiler"])
def test_another_machine_never_loads_this_ones_code(cache, compilations, monkeypatch, tmp_path, what):
    again()
    if what == "processor":
        monkeypatch.setattr(compiler, "_processor", lambda: "x86_64\nflags\t: avx2")
    elif what == "flags":
        monkeypatch.setattr(compiler, "FLAGS", (*compiler.FLAGS, "-g0"))
    else:
        script = tmp_path / "c++"
        script.write_text('#!/bin/sh\nexec g++ "$@"\n')
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    again()
    assert len(compilations) == 2
    assert len(list(cache.iterdir())) == 2


def test_the_processor_is_told_by_its_instruction_sets_and_not_by_its_clock():
    if not Path("/proc/cpuinfo").exists():
        pytest.skip("no /proc/cpuinfo")
    assert "MHz" not in compiler._processor()
    assert "lags\t" in compiler._processor() or "Features" in compiler._processor()


def test_code_of_another_user_is_not_run(cache, compilations, monkeypatch):
    again()
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert again() is not None  # from a temporary folder
    assert len(compilations) == 2


def test_many_writers_at_once_leave_one_whole_library(cache, tmp_path):
    built = tmp_path / "loops-key.so"
    built.write_bytes(bytes(range(256)) * 4096)
    with ThreadPoolExecutor(8) as writers:
        kept = set(writers.map(lambda _: compiler._keep(built, cache), range(32)))
        found = set(writers.map(lambda _: compiler._find(cache, "loops-key"), range(32)))
    assert kept == found == set(cache.iterdir())
    assert len(kept) == 1


def test_what_a_killed_compilation_left_is_removed(cache):
    cache.mkdir(parents=True)
    old = cache / ".loops.1234"
    old.write_bytes(b"half")
    os.utime(old, (time.time() - 1e6,) * 2)
    again()
    assert [path.suffix for path in cache.iterdir()] == [".so"]


def unwritable(cache):
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_text("a file where the cache should be")


def test_a_cache_that_cannot_be_written_is_done_without(cache, caplog):
    unwritable(cache)
    assert again() is not None
    assert caplog.messages == []
    assert list((cache.parent.parent / "temporary").iterdir()) == []


def test_without_a_home_folder_there_is_no_cache(cache, monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(compiler.storage, "cache_folder", homeless)
    assert again() is not None


def noexec(monkeypatch, *folders):
    """As the linker answers for files below these folders, if they are mounted noexec."""
    load = ctypes.CDLL

    def refuse(name, *rest):
        if any(Path(name).is_relative_to(folder) for folder in folders):
            raise OSError(f"{name}: failed to map segment from shared object")
        return load(name, *rest)

    monkeypatch.setattr(ctypes, "CDLL", refuse)


def test_a_temporary_folder_that_is_noexec_does_not_matter(cache, monkeypatch, caplog):
    noexec(monkeypatch, cache.parent.parent / "temporary")
    assert again() is not None
    assert again() is not None
    assert caplog.messages == []


def test_a_cache_that_is_noexec_is_done_without(cache, monkeypatch, caplog):
    noexec(monkeypatch, cache)
    assert again() is not None
    assert again() is not None
    assert caplog.messages == []


def test_sparsemax_runs_where_nothing_can_be_loaded_and_says_so_once(cache, monkeypatch, caplog):
    monkeypatch.setattr(compiler, "_compile", lambda command: Path(command[-2]).write_bytes(b"loops"))
    noexec(monkeypatch, cache.parent.parent)
    with caplog.at_level(logging.WARNING, logger="regard"):
        for label, scores in rows_of(9).items():
            check(torch.ops.regard.sparsemax, scores, label)
    [message] = caplog.messages
    assert message.startswith(
        "sparsemax sorts its rows, several times slower than compiled: the compiled loops cannot be loaded ("
    )
    assert "failed to map segment" in message


def test_a_compiler_that_hangs_is_ended_with_its_children(cache, tmp_path, monkeypatch, caplog):
    script = tmp_path / "c++"
    script.write_text(f"#!/bin/sh\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(compiler, "LIMIT", 0.5)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, logger="regard"):
        assert again() is None
    assert time.monotonic() - began < 20
    assert caplog.messages == [f"nothing runs: {script} took more than 0 s."]
    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    if Path("/proc/self/stat").exists():
        end = time.monotonic() + 10
        while child.exists() and child.read_text().split()[2] != "Z" and time.monotonic() < end:
            time.sleep(0.01)
        assert not child.exists() or child.read_text().split()[2] == "Z"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounting asks for root")
def test_on_a_real_noexec_mount_the_loops_come_from_the_cache(cache, tmp_path, caplog):
    temporary = tmp_path / "temporary"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "noexec", "tmpfs", str(temporary)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this system lets nobody mount")
    try:
        assert again() is not None
        shutil.rmtree(cache)
        unwritable_cache = cache.parent
        shutil.rmtree(unwritable_cache)
        unwritable(cache)
        with caplog.at_level(logging.WARNING, logger="regard"):
            assert again() is None
        [message] = caplog.messages
        assert "failed to map segment" in message
    finally:
        subprocess.run(["umount", "--lazy", str(temporary)], check=True)
