"""`regard show` on a machine with a tape."""

import pytest
import torch
from seeds import offset_seed

from regard.errors import ConfigError, DataError
from regard.models.lstm_sequence import LSTMSequence, LSTMSequenceConfig
from regard.models.ntm import NTM, NTMConfig
from regard.tasks.ntm import CopySettings, CopyTask, RepeatCopySettings, RepeatCopyTask
from regard.train.config import RunConfig
from regard.train.run import Run
from regard.views.tape import view


def run(tmp_path, model, task):
    config = RunConfig(model="ntm", model_settings={}, task=task.name, task_settings={})
    return Run(config, model, task, tmp_path, 1)


@pytest.fixture
def opened(tmp_path):
    task = CopyTask(CopySettings(bits=3, tested=(4, 2)))
    torch.manual_seed(offset_seed(1))
    return run(tmp_path, NTM(NTMConfig(**task.sizes(), hidden=8, rows=9, width=4)), task)


@pytest.mark.parametrize("ending", [".png", ".svg", ".html"])
def test_an_example_is_drawn_in_every_format(opened, tmp_path, ending):
    out = tmp_path / f"tape{ending}"
    line = view(opened, None, out, beam=None)
    assert line.startswith("copy, length 4: ")
    assert line.endswith(" of 12 bits wrong")
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_a_page_leaves_a_picture_of_the_same_name_alone(opened, tmp_path):
    (tmp_path / "tape.svg").write_text("mine")
    view(opened, None, tmp_path / "tape.HTML", beam=None)
    assert (tmp_path / "tape.svg").read_text() == "mine"
    assert "<!doctype html>" in (tmp_path / "tape.HTML").read_text()


def test_the_text_names_the_shape(opened, tmp_path):
    assert view(opened, "7", tmp_path / "tape.png", beam=None).startswith("copy, length 7: ")


def test_a_sequence_longer_than_the_tape_is_shown_with_a_word(opened, tmp_path):
    assert view(opened, "8", tmp_path / "tape.png", beam=None).endswith(" of 24 bits wrong")
    assert view(opened, "9", tmp_path / "tape.png", beam=None).endswith(
        " of 27 bits wrong; 10 vectors were read before the answer, but the tape has only 9 rows"
    )


@pytest.mark.parametrize("text", ["seven", "0", "3 4", ""])
def test_a_text_that_names_no_shape_is_refused(opened, tmp_path, text):
    with pytest.raises(ConfigError) as error:
        view(opened, text, tmp_path / "tape.png", beam=None)
    assert str(error.value) == f"show: `TEXT` has {text!r}; expected length as numbers from 1."


def test_two_numbers_for_two_units(tmp_path):
    task = RepeatCopyTask(RepeatCopySettings(bits=3))
    opened = run(tmp_path, NTM(NTMConfig(**task.sizes(), hidden=8, rows=9, width=4)), task)
    line = view(opened, "3 2", tmp_path / "tape.png", beam=None)
    assert line.startswith("repeat-copy, length 3, copies 2: ")


def test_a_model_without_a_tape_cannot_be_shown(tmp_path):
    task = CopyTask(CopySettings(bits=3))
    model = LSTMSequence(LSTMSequenceConfig(**task.sizes(), hidden=4))
    with pytest.raises(DataError, match="which has no tape; expected 'ntm'"):
        view(run(tmp_path, model, task), None, tmp_path / "tape.png", beam=None)
