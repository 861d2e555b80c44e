import io
from pathlib import Path

import pytest
from rich.console import Console
from train_support import build, make_config

from regard.train import progress
from regard.train.loop import fit
from regard.train.progress import Bar, Lines, View, choose_progress, clock, describe

VIEW = View(step=40, loss=2.31449, tokens_per_second=9120.4, seconds_left=185.2, best_loss=2.287)


def test_a_view_says_loss_speed_time_left_and_best() -> None:
    assert describe(VIEW) == "loss 2.314  9120 tokens/s  3:05 left  best 2.287"
    assert describe(View(1, None, 5.0, 1.0, None)) == "5 tokens/s  0:01 left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(7, "0:07"), (59.7, "1:00"), (750, "12:30"), (3723, "1:02:03")]
)
def test_the_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_terminal_gets_a_bar() -> None:
    stream = io.StringIO()
    view = choose_progress(10, Console(file=stream, force_terminal=True, width=120, color_system=None))
    assert isinstance(view, Bar)
    view.start(0, 100)
    view.update(VIEW)
    view.note("step 3: [odd] brackets are no markup")
    view.stop()
    assert "step 40/100" in stream.getvalue()
    assert "loss 2.314  9120 tokens/s  3:05 left  best 2.287" in stream.getvalue()
    assert "step 3: [odd] brackets are no markup" in stream.getvalue()


def test_without_a_terminal_there_are_plain_lines() -> None:
    stream = io.StringIO()
    view = choose_progress(20, Console(file=stream))
    assert isinstance(view, Lines)
    view.start(0, 100)
    for step in (19, 20, 21, 100):
        view.update(View(step, 1.5, 10.0, 0.0, None))
    lines = stream.getvalue().splitlines()
    assert lines == [f"step {step}/100  loss 1.5  10 tokens/s  0:00 left" for step in (20, 100)]


def test_slow_steps_are_shown_before_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    view = Lines(1000, stream)
    view.start(0, 100)
    for step in range(1, 10):
        now[0] = 4.0 * step
        view.update(View(step, 1.0, 1.0, 0.0, None))
    assert [line.split()[1] for line in stream.getvalue().splitlines()] == ["3/100", "6/100", "9/100"]


def test_training_writes_lines_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = make_config({"log_every": 4})
    model, task = build(config)
    fit(model, task, config, run=tmp_path / "run")
    shown = capsys.readouterr()
    assert shown.out == ""
    assert [line.split()[1] for line in shown.err.splitlines()] == ["4/12", "8/12", "12/12"]
    assert "best" in shown.err.splitlines()[-1]
