"""The user's own runs: listed, followed while they train, found by name and never by path."""

import json
import os
import shutil
import time

import pytest

from regard.serve import runs
from regard.serve.problems import Problem
from regard.serve.runs import Runs, curve, read_lines, status
from regard.train.config import load_recipe
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import create, reopen

TINY = ["model.hidden=8", "model.embedding=8", "task.train=64", "task.valid=8", "train.log_every=1"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with one run of three steps, and things that are none."""
    made = tmp_path_factory.mktemp("runs")
    config = load_recipe("rnnsearch-reverse", [*TINY, "train.steps=3", "train.threads=1"])
    fit(*create(config), config, run=made / "reverse", progress=Quiet())
    (made / "notes.txt").write_text("no run")
    (made / "empty").mkdir()
    (made / "broken").mkdir()
    (made / "broken" / "config.toml").write_text("no toml")
    (made / "link").symlink_to(made / "reverse")
    return made


def test_runs_are_listed_with_status_and_losses(made, folder):
    with made(runs=folder) as client:
        [run] = client.get("/v1/runs").json()
    assert (run["id"], run["status"], run["model"], run["task"]) == (
        "reverse",
        "finished",
        "rnnsearch",
        "reverse",
    )
    assert run["step"] == run["steps"] == run["saved"] == 3
    assert run["loss"] > 0
    assert run["valid_loss"] > 0


def test_a_run_has_its_curve_and_its_latest_alignment(made, folder):
    with made(runs=folder) as client:
        found = client.get("/v1/runs/reverse").json()
        without = client.get("/v1/runs/reverse?alignment=false").json()
    assert [step for step, _ in found["curve"]["train"]] == [1, 2, 3]
    assert [step for step, _ in found["curve"]["valid"]] == [3]
    own = found["alignment"]
    assert own["step"] == 3
    assert own["alignment"]["shape"] == [len(own["target_words"]), len(own["source_words"])]
    assert without == found | {"alignment": None}


def test_a_run_is_a_model_beside_those_that_were_named(made, folder):
    ask = {"model": "reverse", "text": "a b c"}
    with made(runs=folder) as client:
        *named, own = client.get("/v1/models").json()
        assert [model["name"] for model in named] == ["stories"]
        assert (own["name"], own["kind"], own["step"]) == ("reverse", "translate", 3)
        [result] = client.post("/v1/translate", json=ask).json()["results"]
        assert result["alignment"]["shape"] == [len(result["target_words"]), len(result["source_words"])]
        assert client.post("/v1/point", json={"model": "reverse", "points": [[1]]}).status_code == 422


def test_a_run_that_trains_on_is_asked_with_its_latest_weights(made, tmp_path):
    short = load_recipe("rnnsearch-reverse", [*TINY, "train.steps=1", "train.threads=1"])
    fit(*create(short), short, run=tmp_path / "growing", progress=Quiet())
    ask = {"model": "growing", "text": "a b c", "target": "c b a"}
    with made(runs=tmp_path) as client:
        [first] = client.post("/v1/translate", json=ask).json()["results"]
        config, model, task = reopen(tmp_path / "growing", ["train.steps=4"])
        fit(model, task, config, run=tmp_path / "growing", progress=Quiet(), resume=True)
        [later] = client.post("/v1/translate", json=ask).json()["results"]
        assert client.get("/v1/models").json()[-1]["step"] == 4
    assert later["score"] != first["score"]


def test_only_names_of_the_list_are_found(made, folder):
    with made(runs=folder) as client:
        for name in ("nobody", "..", "link", "empty", "notes.txt", "%2e%2e", "..%2freverse", "reverse%00"):
            assert client.get(f"/v1/runs/{name}").status_code == 404, name
        assert client.get("/v1/runs/broken").json()["error"]["code"] == "unreadable"
    with pytest.raises(Problem):
        Runs(folder).find("../" + folder.name + "/reverse")


def test_without_a_folder_there_are_no_runs(made, tmp_path):
    with made(runs=tmp_path / "nowhere") as client:
        assert client.get("/v1/runs").json() == []


def test_the_events_of_a_run_end_when_it_does(made, folder):
    with made(runs=folder) as client:
        text = client.get("/v1/runs/reverse/events").text
    names = [line.removeprefix("event: ") for line in text.splitlines() if line.startswith("event")]
    assert names == ["run", "metrics"]


def test_a_run_that_trains_is_told_from_one_that_was_killed(tmp_path):
    owner = tmp_path / "owner.json"
    assert status(tmp_path, 5, 10) == "stopped"
    owner.write_text("{}")
    assert status(tmp_path, 5, 10) == "training"
    long_ago = time.time() - 100
    os.utime(owner, (long_ago, long_ago))
    assert status(tmp_path, 5, 10) == "interrupted"
    owner.write_text("")
    assert status(tmp_path, 10, 10) == "finished"


def test_lines_are_read_as_they_are_written(tmp_path):
    file = tmp_path / "metrics.jsonl"
    assert read_lines(tmp_path, 0) == ([], 0)
    file.write_text('{"step": 1, "loss": 3.0}\nnonsense\n{"step": 2, "lo')
    lines, offset = read_lines(tmp_path, 0)
    assert [line["step"] for line in lines] == [1]
    with file.open("a") as more:
        more.write('ss": 2.0}\n')
    lines, offset = read_lines(tmp_path, offset)
    assert lines == [{"step": 2, "loss": 2.0}]
    assert read_lines(tmp_path, offset) == ([], offset)
    file.write_text('{"step": 1, "loss": 4.0}\n')  # the run went on from an earlier checkpoint
    assert read_lines(tmp_path, offset)[0] == [{"step": 1, "loss": 4.0}]


def test_metrics_are_read_again_only_when_they_have_grown(folder, tmp_path, monkeypatch):
    shutil.copytree(folder / "reverse", tmp_path / "reverse")
    read = []
    real = runs.read_lines
    monkeypatch.setattr(
        runs, "read_lines", lambda folder, offset: read.append(folder) or real(folder, offset)
    )
    listed = Runs(tmp_path)
    assert listed.every() == listed.every()
    assert len(read) == 1
    with (tmp_path / "reverse" / "metrics.jsonl").open("a") as more:
        more.write('{"step": 7, "loss": 0.125}\n')
    assert [(about["step"], about["loss"]) for about in listed.every()] == [(7, 0.125)]
    assert len(read) == 2


def test_losses_that_are_not_finite_are_left_out(folder, tmp_path):
    shutil.copytree(folder / "reverse", tmp_path / "reverse")
    with (tmp_path / "reverse" / "metrics.jsonl").open("a") as more:
        more.write('{"step": 4, "loss": NaN, "valid_loss": Infinity, "seconds": NaN}\n')
    found = Runs(tmp_path).describe("reverse")
    assert found["step"] == 4
    assert [step for step, _ in found["curve"]["train"]] == [1, 2, 3]
    assert json.dumps(found, allow_nan=False)


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    lines = [{"step": n, "loss": 1.0 / n} for n in range(1, 10_000)]
    lines.append({"step": 10_000, "event": "non-finite", "loss": None})
    found = curve(lines)["train"]
    assert len(found) <= 2001
    assert found[0] == [1, 1.0]
    assert found[-1][0] == 9_999
    assert json.dumps(found)
