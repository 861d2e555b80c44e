"""Every test has its own seed, which an offset shifts; order and selection change nothing.

Tests for a GPU are collected without optional packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
HERE = Path(__file__).parent
PLUGINS = ("-p", "no:cacheprovider", "-p", "no:schemathesis")  # the second takes a second to import

DRAWING = """
    import random
    import numpy as np
    import pytest
    import torch

    @pytest.fixture(scope="module")
    def shared():
        return torch.rand(1).item()

    @pytest.mark.parametrize("i", range(5))
    def test_draws(i, shared):
        print("drew", i, shared, torch.rand(1).item(), random.random(), np.random.rand())
"""


@pytest.fixture
def suite(pytester, monkeypatch):
    """Run a file of tests under this suite's conftest; returns what it printed."""
    pytester.makeconftest((HERE / "conftest.py").read_text())

    def run(text, *words, **variables):
        pytester.makepyfile(test_it=text)
        for name in ("REGARD_SEED_OFFSET", "REGARD_TEST_ORDER", "REGARD_TEST_THREADS"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))
        return pytester.runpytest_inprocess("-qs", *PLUGINS, *words)

    return run


def drawn(result):
    return [line.split("drew ")[1] for line in result.outlines if "drew " in line]


def test_draws_are_the_same_in_any_order_and_selection_and_others_with_another_offset(suite):
    plain = drawn(suite(DRAWING))
    assert len(plain) == len(set(plain)) == 5
    shuffled = drawn(suite(DRAWING, REGARD_TEST_ORDER=3))
    assert shuffled != plain
    assert sorted(shuffled) == plain
    assert drawn(suite(DRAWING, "-k", "4")) == plain[4:]
    offset_seed = drawn(suite(DRAWING, REGARD_SEED_OFFSET=1))
    for one, other in zip(plain, offset_seed, strict=True):
        assert not set(one.split()[1:]) & set(other.split()[1:])


def test_what_hypothesis_draws_is_shifted_too(suite):
    pytest.importorskip("hypothesis")
    text = """
        from hypothesis import given, settings, strategies as st

        @settings(max_examples=3)
        @given(st.integers(0, 10**9))
        def test_draws(i):
            print("drew", i)
    """
    first, again, offset_seed = (drawn(suite(text, REGARD_SEED_OFFSET=k)) for k in (0, 0, 1))
    assert first == again != offset_seed


def test_a_failing_test_says_offset_and_seed(suite):
    result = suite("def test_fails(): assert False", REGARD_SEED_OFFSET=7)
    result.stdout.re_match_lines([r"REGARD_SEED_OFFSET=7: torch\.manual_seed\(\d+\)"])


@pytest.mark.parametrize("draw", ["torch.rand(1)", "np.random.rand()", "torch.nn.Linear(2, 2)"])
def test_a_file_that_draws_at_import_is_refused(suite, draw):
    text = f"import numpy as np\nimport torch\nX = {draw}\ndef test_nothing(): pass"
    result = suite(text)
    result.stdout.fnmatch_lines(["test_it.py draws from a global generator at import; *"])
    assert result.ret != 0


def test_tests_for_a_gpu_are_collected_without_optional_packages():
    missing = ["ctranslate2", "onnx", "onnxruntime", "onnxscript", "hypothesis", "xdist", "sacremoses"]
    command = (
        f"import sys\nsys.modules |= dict.fromkeys({missing})\nimport pytest\n"
        f"sys.exit(pytest.main(['-m', 'gpu', '--collect-only', '-qp', 'no:cacheprovider', {str(HERE)!r}]))"
    )
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""}
    done = subprocess.run([sys.executable, "-c", command], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "tests/kernels/test_kernels_on_gpu.py::" in done.stdout
    assert "tests/train/test_compile.py::" in done.stdout
