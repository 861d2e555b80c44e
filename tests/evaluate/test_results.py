import json
import subprocess
from dataclasses import replace

import pytest
import torch

from regard.errors import DataError
from regard.evaluate.results import (
    Result,
    best_of_each_metric,
    commit,
    machine,
    read_results,
    write_result,
)

RESULT = Result(
    recipe="rnnsearch-grammar",
    metric="bleu",
    value=97.5,
    paper_value=None,
    paper_note="the paper has no such corpus",
    seconds=61.0,
    machine="a machine",
    date="2025-11-15",
    commit="abc",
    seeds=(1, 2),
    details={"width": 5, "nested": {"é": [1, 2]}},
)


def test_results_come_back_as_they_were(tmp_path):
    path = write_result(tmp_path / "results", RESULT)
    assert path == tmp_path / "results" / "rnnsearch-grammar.json"
    assert read_results(tmp_path / "results") == [RESULT]


def test_a_recipe_has_one_file_sorted_whatever_the_order_of_writing(tmp_path):
    several = [
        RESULT,
        replace(RESULT, metric="aer", value=0.1),
        replace(RESULT, date="2025-11-16"),
        replace(RESULT, recipe="copy", seeds=(3,), commit=None),
    ]
    for result in several:
        write_result(tmp_path / "a", result)
    for result in reversed(several):
        write_result(tmp_path / "b", result)
    assert read_results(tmp_path / "a") == [several[3], several[1], several[0], several[2]]
    for name in ("copy.json", "rnnsearch-grammar.json"):
        assert (tmp_path / "a" / name).read_text() == (tmp_path / "b" / name).read_text()
    assert len(list((tmp_path / "a").iterdir())) == 2  # nothing is left aside


def test_the_same_measurement_is_kept_once(tmp_path):
    write_result(tmp_path, RESULT)
    write_result(tmp_path, replace(RESULT, value=98.0))
    assert [r.value for r in read_results(tmp_path)] == [98.0]


def test_the_best_of_a_metric_is_the_most_or_the_least():
    values = {"BLEU": (20.0, 30.0, 25.0), "alignment error rate": (0.3, 0.1, 0.2), "perplexity": (90.0, 91.0)}
    several = [replace(RESULT, metric=metric, value=value) for metric in values for value in values[metric]]
    assert [result.value for result in best_of_each_metric(several)] == [30.0, 0.1, 90.0]


def test_a_folder_without_results_has_none(tmp_path):
    assert read_results(tmp_path) == []
    assert read_results(tmp_path / "nowhere") == []


@pytest.mark.parametrize("content", ["{", "[1]", json.dumps([{"recipe": "x"}]), json.dumps([{"unknown": 1}])])
def test_a_file_that_is_no_list_of_results_is_an_error(content, tmp_path):
    (tmp_path / "x.json").write_text(content)
    with pytest.raises(
        DataError, match=r"results: .*x\.json has no list of records; expected recipe, metric, value"
    ):
        read_results(tmp_path)


def test_a_recipe_that_is_a_path_is_an_error(tmp_path):
    for name in ("a/b", "..", ""):
        with pytest.raises(
            DataError, match=r"write_result: `recipe` has .*; expected a name without a folder"
        ):
            write_result(tmp_path, replace(RESULT, recipe=name))


def test_the_machine_is_described_in_one_line():
    assert machine().endswith(f"torch {torch.__version__}")
    assert " cores, " in machine()
    assert "\n" not in machine()


def git(folder, *arguments):
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_the_commit_is_that_of_the_repository_that_tracks_the_file(tmp_path):
    file, stranger = tmp_path / "file.py", tmp_path / "stranger.py"
    file.write_text("1")
    assert commit(file) is None
    git(tmp_path, "init")
    git(tmp_path, "add", "file.py")
    git(tmp_path, "commit", "--no-verify", "-m", "one")
    first = commit(file)
    assert first is not None
    assert len(first) == 12
    file.write_text("2")
    assert commit(file) == f"{first}-dirty"
    stranger.write_text("1")
    assert commit(stranger) is None
