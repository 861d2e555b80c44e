"""The tape is drawn completely, or refused with a reason."""

import numpy as np
import pytest
import torch
from pages import Page

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz.tape import draw_sequences, draw_tape

T = 9


def given(R=1, W=1, N=128, first=0):
    weights = torch.zeros(T, max(R, W), N)
    for t in range(T):
        weights[t, :, (first + t) % N] = 1.0
    return {
        "inputs": torch.rand(T, 5),
        "outputs": torch.rand(T, 4),
        "adds": torch.randn(T, W, 6),
        "reads": torch.randn(T, R, 6),
        "write_weights": weights[:, :W],
        "read_weights": weights[:, :R],
    }


def images(sheet):
    """Name of a panel -> its pixels and where they lie."""
    return Page(sheet).images()


def test_every_part_has_its_panel(sheets):
    draw_tape(**given(), path="tape.png")
    assert set(images(sheets[0])) == {
        "inputs",
        "outputs",
        "added",
        "read",
        "write weighting",
        "read weighting",
    }


def test_every_head_has_its_panels(sheets):
    draw_tape(**given(R=3, W=2), title="a machine", path="tape.png")
    names = set(images(sheets[0]))
    assert {f"read weighting, head {h}" for h in (1, 2, 3)} <= names
    assert {f"write weighting, head {h}" for h in (1, 2)} <= names
    assert "write weighting, head 3" not in names


def test_only_rows_that_are_used_are_drawn_and_keep_their_numbers(sheets):
    draw_tape(**given(first=40), path="tape.png")
    pixels, (left, top, right, bottom) = images(sheets[0])["write weighting"]
    across = [round(((t + 0.5) / T) * (right - left)) for t in range(T)]
    down = [round(((row + 0.5) / (T + 2)) * (bottom - top)) for row in range(T + 2)]
    cells = pixels[np.ix_(down, across)].astype(int).sum(-1)
    assert np.array_equal(cells.argmin(0), np.arange(1, T + 1))  # darkest where the head stands
    marks = {word.text: word.middle for word in Page(sheets[0]).words("x", "y") if word.middle[0] < right}
    for row in (40, 48):
        assert marks[str(row)][1] == pytest.approx(top + down[row - 39], abs=2)
    assert marks["5"][0] == pytest.approx(left + across[5], abs=2)


@pytest.mark.parametrize("N", [1, 3, 128])
def test_small_memories_and_unused_ones_are_drawn(sheets, N):
    parts = given(N=N) | {"read_weights": torch.full((T, 1, N), 1 / N)}
    draw_tape(**parts, path="tape.png")
    assert sheets


@pytest.mark.parametrize("ending", [".png", ".svg"])
def test_the_picture_is_written(tmp_path, ending):
    path = draw_tape(**given(), path=tmp_path / f"tape{ending}")
    assert path.stat().st_size > 1000


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(
        ShapeError, match=r"^draw_tape: `reads` has shape \(9, 6\); expected \(T=9, heads, …\)"
    ):
        draw_tape(**given() | {"reads": torch.zeros(T, 6)}, path="tape.png")
    with pytest.raises(ShapeError, match=r"^draw_tape: `outputs` has shape \(3, 4\); expected \(T=9, …\)"):
        draw_tape(**given() | {"outputs": torch.zeros(3, 4)}, path="tape.png")
    with pytest.raises(DataError, match=r"^draw_tape: `adds` has values that are not finite"):
        draw_tape(**given() | {"adds": torch.full((T, 1, 6), torch.nan)}, path="tape.png")
    with pytest.raises(DataError, match=r"^draw_tape: `weights` has -1 at"):
        draw_tape(**given() | {"read_weights": torch.full((T, 1, 6), -1.0)}, path="tape.png")
    with pytest.raises(ConfigError, match=r"expected \.png or \.svg"):
        draw_tape(**given(), path="tape.pdf")


def test_sequences_are_drawn_one_below_the_other(sheets):
    draw_sequences({"inputs": torch.rand(T, 5), "asked": torch.rand(T, 1)}, path="task.png")
    drawn = images(sheets[0])
    assert list(drawn) == ["inputs", "asked"]
    pixels, (left, _, right, _) = drawn["inputs"]
    assert pixels.shape[1] == right - left
    colours = pixels[:: len(pixels) // 5][:5, :: pixels.shape[1] // T][:, :T].reshape(-1, 3)
    assert len(np.unique(colours, axis=0)) > T  # of 5 × T random values


def test_sequences_of_different_lengths_are_refused():
    with pytest.raises(ShapeError, match=r"^draw_sequences: `asked` has shape \(3, 1\); expected \(T=9, …\)"):
        draw_sequences({"inputs": torch.rand(T, 5), "asked": torch.rand(3, 1)}, path="task.png")
    with pytest.raises(
        ConfigError, match=r"^draw_sequences: `panels` has length 0; expected at least one\.$"
    ):
        draw_sequences({}, path="task.png")
