"""Comparisons: what is planned, what one training leaves, what runs side by side, what is written."""

import csv
import io
import json
import math
import signal
import time
from dataclasses import replace

import pytest
from forking import forks
from rich.console import Console
from tiny import TINY

from regard.compare import comparison as compare
from regard.compare import report as compare_report
from regard.compare import table as compare_table
from regard.compare import trial as measured
from regard.compare.comparison import Comparison, plan, split_values
from regard.compare.trial import TEST, Asked, MeasuredJob, measure, read_training
from regard.data.workers import THREADS
from regard.errors import ConfigError, DataError
from regard.evaluate.results import read_results
from regard.train.interrupt import Interrupted
from regard.train.run import open_run, reopen
from regard.train.run_folder import RunFolder


def quiet():
    return Console(file=io.StringIO())


def names(comparison):
    return [variant.name for variant in comparison.variants]


# planning


def test_every_combination_is_a_variant_under_the_settings_of_the_base():
    comparison = plan(
        "rnnsearch-reverse",
        scores=("general", "additive"),
        windows=("global", "local-predictive"),
        vary=("model.dropout=0.0,0.1",),
        overrides=TINY,
        seeds=(1, 2),
    )
    assert names(comparison)[:3] == [
        "general, global, dropout 0.0",
        "general, global, dropout 0.1",
        "general, local-predictive, dropout 0.0",
    ]
    assert len(comparison.variants) == 8
    last = comparison.variants[-1]
    assert last.changes == (("score", "additive"), ("window", "local-predictive"), ("dropout", "0.1"))
    assert last.config.model_settings["attention"].score == "additive"
    assert last.config.model_settings["attention"].window == "local-predictive"
    assert last.config.model_settings["dropout"] == 0.1
    assert {variant.config.train.steps for variant in comparison.variants} == {6}


def test_one_change_at_a_time_begins_with_the_base():
    comparison = plan(
        "rnnsearch-reverse",
        scores=("general",),
        vary=("model.attention.heads=2,4", "train.lr=0.1"),
        each=True,
    )
    assert names(comparison) == ["rnnsearch-reverse", "general", "heads 2", "heads 4", "lr 0.1"]
    assert comparison.variants[2].config.model_settings["attention"].score == "additive"
    assert comparison.seeds == (1,)


def test_whole_recipes_keep_their_own_settings():
    comparison = plan(recipes=("rnnsearch-reverse", "seq2seq-reverse"), overrides=["train.steps=5"])
    assert names(comparison) == ["rnnsearch-reverse", "seq2seq-reverse"]
    assert [variant.config.model for variant in comparison.variants] == ["rnnsearch", "seq2seq"]
    assert {variant.config.train.steps for variant in comparison.variants} == {5}


def test_a_recipe_of_your_own_is_named_by_its_file(tmp_path):
    for name in ("wide", "deep"):
        (tmp_path / f"{name}.toml").write_text('[model]\nname = "rnnsearch"\n[task]\nname = "reverse"\n')
    comparison = plan(recipes=[str(tmp_path / f"{name}.toml") for name in ("wide", "deep")])
    assert names(comparison) == ["wide", "deep"]


def test_two_recipes_of_one_name_are_refused(tmp_path):
    mine = tmp_path / "rnnsearch-reverse.toml"
    mine.write_text('[model]\nname = "rnnsearch"\n[task]\nname = "reverse"\n')
    with pytest.raises(ConfigError, match="several --recipes are named 'rnnsearch-reverse'; expected names"):
        plan(recipes=["rnnsearch-reverse", str(mine)])


def test_another_model_takes_its_settings_from_its_own_recipe_and_the_budget_from_the_base():
    comparison = plan(
        "reverse", models=("rnnsearch", "seq2seq"), overrides=["train.steps=7", "model.embedding=9"]
    )
    search, plain = (variant.config for variant in comparison.variants)
    assert (plain.model, plain.model_settings["hidden"], plain.model_settings["cell"]) == (
        "seq2seq",
        80,
        "gru",
    )
    assert plain.model_settings["embedding"] == search.model_settings["embedding"] == 9
    assert plain.train == search.train
    assert plain.train.steps == 7


def test_a_model_without_the_option_is_impossible_and_says_so():
    comparison = plan("reverse", models=("rnnsearch", "seq2seq"), scores=("general",))
    possible, impossible = comparison.variants
    assert possible.config is not None
    assert impossible.config is None
    assert impossible.reason == "the model seq2seq has no setting model.attention.score."


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "compare: TASK and --recipes have neither; expected one of the two."),
        (
            {"base": "rnnsearch-reverse", "recipes": ["seq2seq-reverse"]},
            "compare: TASK and --recipes have both; expected one of the two.",
        ),
        (
            {"recipes": ["seq2seq-reverse"], "models": ["seq2seq"]},
            "compare: --models and --recipes are both given; a recipe has its model already.",
        ),
        (
            {"base": "rnnsearch-revers"},
            "unknown recipe 'rnnsearch-revers'; did you mean 'rnnsearch-reverse'?",
        ),
        (
            {"base": "rnnsearch-reverse", "scores": ["dott"]},
            "catalog: unknown score 'dott'; did you mean 'dot'?",
        ),
        ({"base": "rnnsearch-reverse", "models": ["seq"]}, "catalog: unknown model 'seq'"),
        ({"base": "rnnsearch-reverse", "overrides": ["model.hiden=3"]}, "did you mean 'model.hidden'?"),
        (
            {"base": "rnnsearch-reverse", "vary": ["heads=1,2"]},
            "compare: --vary has 'heads=1,2'; expected table.key=value,value, e.g. model.dropout=0.0,0.1.",
        ),
        (
            {"base": "rnnsearch-reverse", "vary": ["train.seed=1,2"]},
            "compare: --vary has 'train.seed'; seeds are given with --seeds.",
        ),
        (
            {"base": "rnnsearch-reverse", "scores": ["general"], "vary": ["model.attention.score=dot"]},
            "compare: model.attention.score is varied twice; expected each setting once.",
        ),
        (
            {"base": "seq2seq-reverse", "scores": ["general"]},
            "compare: nothing can be compared: the model seq2seq has no setting model.attention.score.",
        ),
        (
            {"base": "rnnsearch-reverse", "vary": ["model.attention.model=x"]},
            "compare: nothing can be compared: the model rnnsearch has no setting model.attention.model.",
        ),
        ({"base": "reverse"}, "compare: the task 'reverse' has several recipes: "),
        (
            {"base": "rnnsearch-reverse", "seeds": [1, 1]},
            "compare: `seeds` has '1' twice; expected each seed once, at least one.",
        ),
    ],
)
def test_a_plan_that_cannot_be_meant_is_one_sentence(arguments, message):
    with pytest.raises(ConfigError) as error:
        plan(arguments.pop("base", None), **arguments)
    assert message in str(error.value)


def test_commas_inside_brackets_and_quotes_belong_to_the_value():
    assert split_values("1, 2,3") == ("1", "2", "3")
    assert split_values("[0.9, 0.98],[0.9,0.999]") == ("[0.9, 0.98]", "[0.9,0.999]")
    assert split_values('"a,b",c') == ('"a,b"', "c")


# one training


def config_of(*overrides, seed=1):
    [variant] = plan("rnnsearch-reverse", overrides=(*TINY, *overrides)).variants
    return replace(variant.config, train=replace(variant.config.train, seed=seed))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """General and additive, seeds 1 and 2, one after the other in this process."""
    folder = tmp_path_factory.mktemp("alone")
    found = {}
    for score, seed in (("general", 1), ("additive", 1), ("additive", 2)):
        run = folder / f"{score}-{seed}"
        found[score, seed] = run, measure(config_of(f"model.attention.score={score}", seed=seed), run)
    return found


def test_a_finished_training_keeps_its_weights_and_no_more(alone):
    run, found = alone["additive", 1]
    [checkpoint] = (run / "checkpoints").iterdir()
    assert sorted(path.name for path in checkpoint.iterdir()) == [
        "digests.json",
        "model.safetensors",
        "state.json",
    ]
    assert open_run(run).step == read_training(run).best_step
    assert found.metric == "BLEU"
    assert dict(found.measures).keys() >= {"BLEU", "alignment error rate"}


def test_a_run_whose_weights_alone_were_kept_cannot_go_on_and_says_so(alone):
    run, _ = alone["additive", 1]
    with pytest.raises(
        DataError, match="the run is finished and only its weights were kept; it cannot be continued"
    ):
        RunFolder(run).load()


def test_costs_are_recorded(alone):
    run, _ = alone["additive", 1]
    training = read_training(run)
    _, model, _ = reopen(run)
    assert training.parameters == sum(p.numel() for p in model.parameters())
    assert training.steps == 6
    assert training.tokens > 0
    assert training.tokens_per_second > 0
    assert training.memory > 50e6  # at least what torch itself takes
    assert training.device == "cpu"


def test_what_is_measured_is_not_trained_or_evaluated_again(alone, monkeypatch):
    run, found = alone["additive", 1]
    for name in ("fit", "evaluate"):
        monkeypatch.setattr(measured, name, None)  # calling it would raise
    assert measure(config_of("model.attention.score=additive"), run) == found


def test_another_split_is_measured_with_the_same_weights(alone, monkeypatch):
    run, found = alone["additive", 2]
    monkeypatch.setattr(measured, "fit", None)
    other = measure(config_of("model.attention.score=additive", seed=2), run, Asked("valid"))
    assert other.split == "valid"
    assert measured.read_measured(run) == found
    assert measured.read_measured(run, Asked("valid")) == other


def test_a_training_stopped_by_a_signal_goes_on_and_measures_the_same(alone, tmp_path, monkeypatch):
    from regard.tasks.reverse import ReverseTask

    config, batch = config_of("model.attention.score=additive"), ReverseTask.batch
    calls = []

    def interrupting(self, split, rows):
        calls.append(split)
        if calls.count("train") == 4:
            signal.raise_signal(signal.SIGTERM)
        return batch(self, split, rows)

    with monkeypatch.context() as patch:
        patch.setattr(ReverseTask, "batch", interrupting)
        with pytest.raises(Interrupted):
            measure(config, tmp_path / "run")
    assert RunFolder(tmp_path / "run").last_step() == 4
    assert measured.read_measured(tmp_path / "run") is None
    assert numbers(measure(config, tmp_path / "run")) == numbers(alone["additive", 1][1])


def test_a_model_that_cannot_be_built_leaves_its_reason(tmp_path):
    assert measure(config_of("model.attention.score=dot"), tmp_path / "run") is None
    reason = measured.read_impossible(tmp_path / "run")
    assert reason.startswith("dot: `query` has size 16 and `keys` 32; expected equal sizes.")
    job = MeasuredJob(
        name="x",
        recipe="x.toml",
        run=tmp_path / "other",
        steps=1,
        twins=(tmp_path / "run", tmp_path / "other"),
    )
    assert not job.is_needed()
    (tmp_path / "run" / measured.IMPOSSIBLE).unlink()
    assert job.is_needed()


def test_every_library_is_told_how_many_threads_it_has(tmp_path, monkeypatch):
    from regard.compare import jobs

    seen = {}
    monkeypatch.setattr(jobs.subprocess, "Popen", lambda words, **options: seen.update(options, words=words))
    MeasuredJob(name="x", recipe="x.toml", run=tmp_path / "run", steps=1).start(3)
    assert {seen["env"][name] for name in THREADS} == {"3"}
    assert "--threads=3" in seen["words"]
    assert seen["start_new_session"]


def numbers(found):
    """What does not depend on a clock."""
    return found.metric, found.value, found.measures, {**found.summary, "seconds": 0}


# side by side


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """Three scores, one of them impossible, two processes at a time; with one variant that has no config."""
    folder = tmp_path_factory.mktemp("compared")
    comparison = plan(
        "rnnsearch-reverse", scores=("dot", "general", "additive"), overrides=TINY, name="scores"
    )
    extra = compare.Variant("none", (("score", "none"),), None, "there is no such thing", "rnnsearch-reverse")
    comparison = replace(comparison, variants=(*comparison.variants, extra))
    with forks():
        return comparison, folder, compare.run(comparison, folder, console=quiet(), workers=2)


def test_side_by_side_equals_one_after_the_other(compared, alone):
    _, _, outcomes = compared
    assert numbers(outcomes[1].measured) == numbers(alone["general", 1][1])
    assert numbers(outcomes[2].measured) == numbers(alone["additive", 1][1])
    assert outcomes[2].training.valid_loss == read_training(alone["additive", 1][0]).valid_loss


def test_impossible_combinations_have_their_reason_and_stop_nothing(compared):
    _, _, outcomes = compared
    assert [outcome.state for outcome in outcomes] == ["impossible", "finished", "finished", "impossible"]
    assert "expected equal sizes" in outcomes[0].reason
    assert outcomes[3].reason == "there is no such thing"


def test_a_comparison_that_is_finished_starts_nothing(compared, monkeypatch):
    comparison, folder, outcomes = compared
    started = []
    monkeypatch.setattr(compare, "run_jobs", lambda jobs, **_: started.extend(jobs))
    again = compare.run(comparison, folder, console=quiet())
    assert [job.name for job in started] == ["dot, seed 1"]  # what was impossible is tried again
    assert again[1:] == outcomes[1:]


def test_a_folder_goes_on_only_with_the_budget_it_was_begun_with(compared):
    _, folder, _ = compared
    other = plan("rnnsearch-reverse", scores=("general",), overrides=(*TINY, "train.steps=9"))
    with pytest.raises(
        ConfigError, match=r"'train.steps' is 9; the run was started with 6. Use another folder"
    ):
        compare.run(other, folder, console=quiet())
    other = plan("rnnsearch-reverse", scores=("general",), overrides=(*TINY, "train.lr=0.5"))
    with pytest.raises(ConfigError, match=r"'train.lr' is 0.5; the run was started with 0.003"):
        compare.run(other, folder, console=quiet())


def test_a_job_that_fails_is_an_outcome_with_its_last_sentence(tmp_path, monkeypatch):
    def failing(jobs, *, failed, **_):
        for job in jobs:
            failed(job, "out of memory")

    monkeypatch.setattr(compare, "run_jobs", failing)
    comparison = plan("rnnsearch-reverse", overrides=TINY)
    [outcome] = compare.run(comparison, tmp_path, console=quiet())
    assert (outcome.state, outcome.reason) == ("failed", "out of memory")


def test_the_deadline_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "RESERVE", 10.0)
    overrides = [text for text in TINY if "steps" not in text]
    comparison = plan("rnnsearch-reverse", overrides=[*overrides, "train.steps=1000000"], seeds=(1, 2))
    started = time.monotonic()
    with forks():
        first, second = compare.run(comparison, tmp_path, console=quiet(), deadline=8.0)
    assert time.monotonic() - started < 8.0
    assert first.state == second.state == "unfinished"
    assert first.reason == "not begun" or first.reason.startswith("stopped at step ")
    assert second.reason == "not begun"
    assert not (tmp_path / "runs" / "rnnsearch-reverse-seed2").exists()


# what is written


@pytest.fixture(scope="module")
def written(compared):
    comparison, folder, outcomes = compared
    compare_report.write(comparison, outcomes, folder)
    return folder


def test_the_table_has_a_row_for_each_variant_and_the_reasons(written):
    lines = (written / "table.md").read_text().splitlines()
    assert lines[0].startswith("| variant | BLEU | ")
    assert "| alignment error rate | alignment error rate, of the word read | valid loss |" in lines[0]
    assert "| valid loss | parameters | steps | tokens/s | seconds | memory |" in lines[0]
    assert [line.split(" | ")[0] for line in lines[2:6]] == ["| dot", "| general", "| additive", "| none"]
    assert "impossible: dot: `query` has size 16" in lines[2]
    assert "4 variants, seed 1, measured on the test split. Every training has 6 updates" in lines[-1]


def test_the_csv_has_a_line_for_each_training(written):
    found = list(csv.DictReader(io.StringIO((written / "table.csv").read_text())))
    assert [(line["score"], line["state"]) for line in found] == [
        ("dot", "impossible"),
        ("general", "finished"),
        ("additive", "finished"),
        ("none", "impossible"),
    ]
    assert float(found[1]["measured.alignment.error_rate"]) <= 1
    assert int(found[1]["parameters"]) > 0


def test_plots_and_page_are_there(written):
    for name in ("quality.png", "alignment.png", "training.png", "lengths.png"):
        assert (written / name).read_bytes().startswith(b"\x89PNG")
    page = (written / "report.html").read_text()
    assert page.count("data:image/png") == 4
    assert "expected equal sizes" in page


def test_values_of_several_seeds_are_averaged_and_kept(alone, tmp_path):
    comparison = plan("rnnsearch-reverse", scores=("additive",), overrides=TINY, seeds=(1, 2), name="two")
    outcomes = [
        compare.Outcome("additive", seed, "finished", "", read_training(run), found)
        for seed, (run, found) in ((seed, alone["additive", seed]) for seed in (1, 2))
    ]
    values = [outcome.measured.value for outcome in outcomes]
    table = compare_table.summarize(comparison, outcomes)
    [row] = table["variants"]
    assert row["mean"] == pytest.approx(sum(values) / 2)
    assert row["std"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
    assert (row["min"], row["max"]) == (min(values), max(values))
    assert row["values"] == {"1": values[0], "2": values[1]}
    json.dumps(table)
    [path] = compare_table.record(table, tmp_path, paper={"additive": (28.45, "another corpus")})
    [result] = read_results(tmp_path)
    assert path.name == "two.json"
    assert (result.metric, result.seeds, result.paper_value) == ("additive: BLEU", (1, 2), 28.45)
    assert result.value == round(row["mean"], 4)
    assert result.details["values"] == {seed: round(value, 4) for seed, value in row["values"].items()}
    assert result.details["headline"] is False


def test_a_value_that_is_not_finite_stands_in_the_table_and_in_no_plot(alone, tmp_path, monkeypatch):
    run, found = alone["additive", 1]
    comparison = plan("rnnsearch-reverse", scores=("additive", "general"), seeds=(1, 2))
    values = {"additive": (math.inf, 3.0), "general": (math.nan, math.inf)}
    outcomes = [
        compare.Outcome(name, seed, "finished", "", read_training(run), replace(found, value=value))
        for name, seeds in values.items()
        for seed, value in enumerate(seeds, 1)
    ]
    drawn, draw = {}, compare_report.draw_bars

    def drawing(bars, path, **how):
        drawn[path.name] = bars
        return draw(bars, path, **how)

    monkeypatch.setattr(compare_report, "draw_bars", drawing)
    written = compare_report.write(comparison, outcomes, tmp_path)
    assert drawn["quality.png"] == {"additive": [3.0]}
    assert (tmp_path / "report.html") in written
    first, second = json.loads((tmp_path / "table.json").read_text())["variants"]
    assert first["values"] == {"1": math.inf, "2": 3.0}
    assert (first["std"], second["std"]) == (None, None)


def test_whole_recipes_are_recorded_under_their_own_names(alone, tmp_path):
    run, found = alone["additive", 1]
    comparison = plan(recipes=("rnnsearch-reverse", "seq2seq-reverse"), seeds=(1,))
    outcomes = [
        compare.Outcome("rnnsearch-reverse", 1, "finished", "", read_training(run), found),
        compare.Outcome("seq2seq-reverse", 1, "unfinished", "not begun"),
    ]
    compare_table.record(compare_table.summarize(comparison, outcomes), tmp_path)
    [result] = read_results(tmp_path)
    assert (result.recipe, result.metric) == ("rnnsearch-reverse", "BLEU")
    assert result.details["catalogue"] == ["model:rnnsearch"]
    assert result.details["headline"] is True


def recorded(alone, tmp_path, asked=TEST, recipes=("rnnsearch-reverse",), **options):
    """Record one finished training under the name of each recipe."""
    run, found = alone["additive", 1]
    training = replace(read_training(run), commit=None)
    outcomes = [compare.Outcome(recipe, 1, "finished", "", training, found) for recipe in recipes]
    table = compare_table.summarize(plan(recipes=recipes, seeds=(1,), asked=asked), outcomes)
    compare_table.record(table, tmp_path, **options)
    return {result.metric: result for result in read_results(tmp_path)}


def test_another_corpus_split_or_beam_takes_no_records_place(alone, tmp_path):
    for asked in (TEST, Asked(on="hansards"), Asked("valid", 1)):
        found = recorded(alone, tmp_path, asked)
    assert sorted(found) == ["BLEU", "BLEU on hansards", "BLEU on the valid split, beam 1"]
    assert [result.metric for result in found.values() if result.details["headline"]] == ["BLEU"]


def test_one_recipe_of_a_model_has_a_line_in_the_readme(alone, tmp_path):
    recorded(alone, tmp_path, recipes=("rnnsearch-en-fr",))
    recorded(alone, tmp_path, recipes=("rnnsearch-reverse", "rnnsearch-en-fr", "rnnsearch-en-zh"))
    shown = {result.recipe for result in read_results(tmp_path) if result.details["headline"]}
    assert shown == {"rnnsearch-en-fr"}
    recorded(alone, tmp_path, summaries={"rnnsearch-reverse": "writes backwards"})
    said = {result.recipe: result.details.get("summary") for result in read_results(tmp_path)}
    assert said["rnnsearch-reverse"] == "writes backwards"
    assert {r.recipe for r in read_results(tmp_path) if r.details["headline"]} == shown | {
        "rnnsearch-reverse"
    }


def test_a_commit_can_be_named_where_the_machine_knew_none(alone, tmp_path):
    assert recorded(alone, tmp_path, commit="39ac4b37a4c4")["BLEU"].commit == "39ac4b37a4c4"


def test_the_median_of_the_seeds_can_be_recorded(alone, tmp_path):
    run, found = alone["additive", 1]
    outcomes = [
        compare.Outcome(
            "rnnsearch-reverse", seed, "finished", "", read_training(run), replace(found, value=v)
        )
        for seed, v in ((1, 3.0), (2, 40.0), (3, 5.0))
    ]
    comparison = Comparison("x", plan("rnnsearch-reverse").variants, (1, 2, 3))
    table = compare_table.summarize(comparison, outcomes)
    compare_table.record(table, tmp_path, median=True)
    [result] = read_results(tmp_path)
    assert (result.metric, result.value) == ("rnnsearch-reverse: BLEU, median of 3 seeds", 5.0)


def test_shown_values_are_averaged_with_their_decimals_and_unit():
    together = compare_table._together
    assert together(["37.20", "37.40"]) == "37.30 ± 0.14"
    assert together(["76.5 %", "77.5 %"]) == "77.0 ± 0.7 %"
    assert together(["0.168"]) == "0.168"
    assert together(["yes", "yes"]) == "yes"
    assert together(["yes", "no"]) == "yes / no"
    # what the texts are rounded from, where it is known and meant in the same unit
    assert together(["0.610", "0.613", "0.620"]) == "0.614 ± 0.005"
    assert together(["0.610", "0.613", "0.620"], [0.6105, 0.6133, 0.6201]) == "0.615 ± 0.005"
    assert together(["61.0 %", "62.0 %"], [0.61, 0.62]) == "61.5 ± 0.7 %"


def test_a_measure_that_only_some_seeds_have_is_no_mean(alone):
    run, found = alone["additive", 1]
    more = replace(found, measures=(*found.measures, ("BLEU, unknown words left", "3.00")))
    comparison = Comparison("x", plan("rnnsearch-reverse").variants, (1, 2))
    outcomes = [
        compare.Outcome("rnnsearch-reverse", seed, "finished", "", read_training(run), each)
        for seed, each in ((1, more), (2, found))
    ]
    [row] = compare_table.summarize(comparison, outcomes)["variants"]
    assert list(row["measures"]) == [name for name, _ in found.measures]


def test_a_paper_value_for_an_unknown_variant_is_an_error(tmp_path):
    table = compare_table.summarize(Comparison("x", plan("rnnsearch-reverse").variants, (1,)), [])
    with pytest.raises(DataError, match="record: `paper` has 'dott'; expected the name of a variant"):
        compare_table.record(table, tmp_path, paper={"dott": (1.0, "")})
    with pytest.raises(DataError, match="record: `summaries` has 'dott'; expected the name of a variant"):
        compare_table.record(table, tmp_path, summaries={"dott": "good"})


def test_a_folder_that_is_no_comparison_says_so(tmp_path):
    with pytest.raises(DataError, match=r"not a comparison: table.json is missing"):
        compare_table.read_table(tmp_path)
