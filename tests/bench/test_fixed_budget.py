"""benchmarks/fixed_budget.py gives every translator the same parameters, sentences and processor seconds."""

import pytest
from documentation import benchmark

from regard.evaluate.results import read_results
from regard.train.config import override
from regard.train.run import build_model, create_task

VOCABULARIES = {"source_vocab": 461, "target_vocab": 685}  # those of the embedded corpus


@pytest.fixture(scope="module")
def fixed():
    return benchmark("fixed_budget")


@pytest.fixture(scope="module")
def configs(fixed):
    return {name: fixed.config_of(name, 1) for name in fixed.MODELS}


class Corpus:
    def sizes(self):
        return VOCABULARIES


def test_all_have_as_many_parameters_within_five_percent(fixed, configs):
    sizes = {
        name: sum(p.numel() for p in build_model(config, Corpus()).parameters())
        for name, config in configs.items()
    }
    assert sizes["RNNsearch with coverage"] == fixed.PARAMETERS
    assert max(abs(size / fixed.PARAMETERS - 1) for size in sizes.values()) < fixed.WITHIN


def test_all_learn_from_the_same_sentences_and_write_with_the_same_beam(configs):
    first, *others = configs.values()
    for config in others:
        assert (config.task, config.task_settings) == (first.task, first.task_settings)
        assert config.decode.beam == first.decode.beam


def test_a_training_uses_the_processor_seconds_that_it_is_given(fixed, configs):
    small = ["model.embedding=8", "model.hidden=16", "train.batch=100"]
    small += ["task.train=100", "task.valid=6", "task.test=12"]
    config = override(configs["no attention"], small)
    found = fixed.measure(config, create_task(config), 2.0, "valid")
    assert 1.0 < found["seconds"] < 3.0
    assert found["steps"] > fixed.TRIED
    assert found["split"] == "valid"


def found(model, seed, bleu, aligned):
    rates = {"error_rate": 0.25, "precision": 0.8, "recall": 0.7} if aligned else None
    return {
        "model": model,
        "seed": seed,
        "budget": 100.0,
        "steps": 900 + seed,
        "seconds": 99.0,
        "translating": 7.0,
        "parameters": 577_581,
        "split": "test",
        "bleu": bleu,
        "chrf": 90.0,
        "exact": 0.5,
        "by_length": [{"low": 0, "high": 10, "bleu": 99.0}, {"low": 51, "high": None, "bleu": bleu - 5}],
        "alignment": rates,
        "alignment_read": rates,
        "signature": "nrefs:1",
        "commit": "abc",
        "machine": "a machine, 2 cores",
        "date": "2026-01-01",
    }


def test_the_table_has_means_and_spreads_over_the_seeds(fixed, tables, tmp_path):
    every = [found("RNNsearch with coverage", seed, 90.0 + seed, True) for seed in (1, 2, 3)]
    every += [found("no attention", seed, 40.0, False) for seed in (1, 2, 3)]
    fixed.record(tmp_path, every)
    assert {(one.seeds, one.commit) for one in read_results(tmp_path)} == {((1, 2, 3), "abc")}
    lines = tables.filled("<!-- budget: fixed-budget -->", tmp_path).splitlines()
    assert lines[3] == (
        "| no attention | 40.0 ± 0.0 | 35.0 ± 0.0 | 90.0 ± 0.0 |  |  | 577 581 | 902 | 99 | 7 |"
    )
    assert lines[4].startswith("| RNNsearch with coverage | 92.0 ± 1.0 | 87.0 ± 1.0 | 90.0 ± 0.0 | ")
    assert "0.25 ± 0.00" in lines[4]
    assert "| 100 processor seconds | test | 3 | 2026-01-01 | a machine, 2 cores |" in lines
