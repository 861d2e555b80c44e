"""regard point, and evaluate and show on a run that points."""

import json

import pytest

SMALL = ["task.train=64", "task.valid=8", "task.test=4", "model.hidden=8", "train.steps=3", "train.batch=16"]
CROSS = "x,y\n0.5,0.1\n0.9,0.5\n0.5,0.9\n\n0.1,0.5\n0.5,0.5\n"


def train(tmp_path_factory, recipe):
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    folder = tmp_path_factory.mktemp(recipe) / "run"
    config = load_recipe(recipe, [*SMALL, "task.longest=5", "task.tests=[5]", "train.capture=false"])
    fit(*create(config), config, run=folder, progress=Quiet())
    return folder


@pytest.fixture(scope="module")
def hull(tmp_path_factory):
    return train(tmp_path_factory, "pointer-hull-5")


@pytest.fixture(scope="module")
def tour(tmp_path_factory):
    return train(tmp_path_factory, "pointer-tsp")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "points.csv"

    def write(text):
        path.write_text(text)
        return path

    return write


def test_a_tour_through_my_points(command, tour, file, tmp_path):
    out = tmp_path / "tour.png"
    outcome = command("point", tour, file(CROSS), "--out", out)
    assert outcome.status == 0
    assert sorted(map(int, outcome.out.split())) == [0, 1, 2, 3, 4]
    assert out.stat().st_size > 1000


def test_the_points_themselves_or_everything(command, tour, file):
    lines = command("point", tour, file(CROSS), "--form", "csv").out.split()
    assert sorted(lines) == ["0.1,0.5", "0.5,0.1", "0.5,0.5", "0.5,0.9", "0.9,0.5"]
    found = json.loads(command("point", tour, file(CROSS), "--form", "json", "--beam", "2").out)
    assert found["question"] == "tsp"
    assert sorted(found["order"]) == sorted(found["solver"]) == [0, 1, 2, 3, 4]
    assert found["finished"]


def test_an_answer_that_was_cut_is_said_to_be_so(command, hull, file, monkeypatch):
    from regard.decode.pointing import Pointed
    from regard.views import points

    cut = Pointed([3, 3, 3], -1.0, finished=False, weights=None)
    monkeypatch.setattr(points, "answer", lambda run, given, *, beam: cut)
    outcome = command("point", hull, file(CROSS))
    assert outcome.out.split() == ["3", "3", "3"]
    assert outcome.err == "regard: the model did not end its answer, which was cut off after 3 points.\n"


def test_points_come_from_standard_input_and_from_any_square(command, tour):
    outcome = command("point", tour, "-", stdin=b"100,100\n-300,0\n7,7\n")
    assert sorted(outcome.out.split()) == ["0", "1", "2"]
    assert outcome.err == "regard: 3 points; the model was trained on 5.\n"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0.5,0.5\n", "1 point; the model was trained on 5."),
        ("0.1,0.1\n0.4,0.2\n", "2 points; the model was trained on 5."),
        ("0,0\n1,1\n1,1\n0,1\n1,0\n", "1 point coincides with others; training sets have no duplicates."),
        ("0,0\n1,1\n.5,.5\n.2,.2\n.3,.3\n", "all points lie on one line; those of training sets never do."),
    ],
    ids=["one", "two", "coinciding", "line"],
)
def test_degenerate_points_are_answered_with_a_word_of_warning(command, hull, file, text, complaint):
    outcome = command("point", hull, file(text))
    assert outcome.status == 0
    assert complaint in outcome.err


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "`points` has no rows; expected one or more."),
        ("x,y\n", ", line 1: has 'x,y'; expected two numbers, x,y."),
        ("\0" * 99, ": line 1 has a zero byte, as binary files have; expected UTF-8 text."),
        ("x" * 200_000, f", line 1: has '{'x' * 60}…'; expected two numbers, x,y."),
        ("1,2\n" * 1001, "points.csv: has 1,001 points; expected 1 to 1000 for 'hull'."),
        ("0.1,0.2\n0.3,a\n", ", line 2: has '0.3,a'; expected two numbers, x,y."),
        ("0.l,0.2\n0.3,0.4\n", ", line 1: has '0.l,0.2'; expected two numbers, x,y."),
        ("-.1;.2\n.3;.4\n", ", line 1: has '-.1;.2'; expected two numbers, x,y."),
        ("0.1,0.2\n0.3\n", ", line 2: has 1 number; expected two numbers, x,y."),
        ("0.1,0.2\nnan,0.3\n", "point 1 has [nan, 0.3]; expected finite numbers."),
        ("0.1,0.2\n1,inf\n", "point 1 has [1.0, inf]; expected finite numbers."),
    ],
    ids=[
        "empty",
        "header-alone",
        "binary",
        "endless",
        "many",
        "word",
        "slip-in-the-first-line",
        "semicolons",
        "few",
        "nan",
        "inf",
    ],
)
def test_bad_input_is_a_sentence(command, hull, file, text, error):
    outcome = command("point", hull, file(text))
    assert outcome.status == 2
    assert outcome.err.endswith(f"{error}\n")
    assert outcome.out == ""


def test_a_missing_file_and_another_kind_of_run(command, hull, run, tmp_path):
    assert command("point", hull, tmp_path / "none.csv").err.endswith(
        "none.csv: no such file or directory.\n"
    )
    outcome = command("point", run, tmp_path / "none.csv")
    assert outcome.status == 2
    assert "task is 'reverse'; expected a pointing task" in outcome.err


def test_evaluate_and_show_a_run_that_points(command, hull, tmp_path):
    found = json.loads(command("evaluate", hull, "--json").out)
    assert found["by_size"]["5"]["sets"] == 4
    out = tmp_path / "hull.svg"
    outcome = command("show", hull, "7", "--out", out)
    assert outcome.status == 0
    assert out.read_text().startswith("<?xml")
    assert command("show", hull, "seven", "--out", out).err == (
        "regard: show: `TEXT` has 'seven'; expected a number of points, 1 to 1000.\n"
    )
    assert "expected .png or .svg for points" in command("show", hull, "--out", tmp_path / "a.html").err
