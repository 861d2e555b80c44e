import pytest
import torch
from pages import Page, read

from regard.errors import ConfigError, DataError, ShapeError
from regard.viz.hops import draw_hops

SENTENCES = ["Anna took the lamp.", "Omar went to the attic.", "Anna ran to the garden."]
WEIGHTS = torch.tensor([[0.9, 0.05, 0.05], [0.1, 0.0, 0.9]])


def draw(path, weights=WEIGHTS, **options):
    words = {"question": "Where is the lamp?", "answer": "garden"} | options
    return draw_hops(weights, SENTENCES, path=path, **words)


def test_each_hop_has_a_column_and_each_sentence_a_row(tmp_path):
    text = draw(tmp_path / "a.svg", supports=(0, 2)).read_text()
    page = Page(text)
    assert [word.text for word in page.words("sentence")] == SENTENCES
    assert [word.text for word in page.words("answer")] == ["garden"]
    assert [shape.edge for shape in page.shapes("support")] == ["#d55e00"] * 2  # those with the answer
    assert len(page.shapes("cell")) == 2 * 3
    assert text != draw(tmp_path / "b.svg").read_text()


def test_the_strongest_cell_is_the_darkest(tmp_path):
    sharp = read(draw(tmp_path / "a.png", weights=torch.tensor([[1.0, 0.0, 0.0]])))
    even = read(draw(tmp_path / "b.png", weights=torch.tensor([[0.3, 0.3, 0.4]])))
    assert (sharp.mean(-1) < 0.2).mean() > (even.mean(-1) < 0.2).mean()


def test_equal_pictures_have_equal_bytes(tmp_path):
    assert draw(tmp_path / "a.png").read_bytes() == draw(tmp_path / "b.png").read_bytes()


def test_what_cannot_be_drawn_is_told(tmp_path):
    with pytest.raises(
        ShapeError, match=r"^draw_hops: `weights` has shape \(2, 2\); expected \(K, S=3\), a row for each"
    ):
        draw(tmp_path / "a.png", weights=WEIGHTS[:, :2])
    with pytest.raises(DataError, match=r"^draw_hops: `weights` has -1 at \(0, 0\)"):
        draw(tmp_path / "a.png", weights=-torch.ones(1, 3))
    with pytest.raises(
        ConfigError, match=r"^draw_hops: `supports` has \(3,\); expected positions below 3\.$"
    ):
        draw(tmp_path / "a.png", supports=(3,))
    with pytest.raises(ConfigError, match=r"^draw_hops: `path` has the ending '\.gif'"):
        draw(tmp_path / "a.gif")
