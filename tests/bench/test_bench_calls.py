"""A call beside the hand-written module: equal outputs first, then a ratio."""

from dataclasses import replace

import pytest
import torch

from regard.bench import calls
from regard.bench.calls import ON_CPU, ON_GPU, Contest, Cost, Sides, compare, records, rows

SMALL = {
    "additive": Contest("additive", (3, 2, 9, 64), calls.additive),
    "multi-head": Contest("multi-head", (2, 6, 6, 64), calls.multi_head),
    "with weights": Contest("with weights", (2, 6, 6, 64), calls.with_weights),
}


@pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])
@pytest.mark.parametrize("name", SMALL)
def test_both_sides_compute_the_same(name, training):
    contest = replace(SMALL[name], training=training)
    with torch.set_grad_enabled(training):
        cost = compare(contest, "cpu", budget=0.001)
    assert cost.broken == ""
    assert set(cost.ms) == {"ours", "by hand"}
    assert cost.ratio == cost.ms["ours"] / cost.ms["by hand"]


def test_a_call_that_computes_something_else_has_no_time():
    def make(contest, device):
        x = torch.randn(4)
        return Sides(lambda: (x,), lambda: (1.01 * x,), [x], "careless")

    cost = compare(Contest("wrong", (1, 1, 1, 1), make), "cpu", budget=0.001)
    assert "wrong result" in cost.broken
    assert cost.ms == {}
    assert records([cost], "cpu") == []
    assert rows([cost])[0][4] == cost.broken


def test_top_has_nobody_beside_it_and_is_recorded_in_microseconds():
    with torch.no_grad():
        cost = compare(Contest("top", (2, 12, 12, 64), calls.with_top), "cpu", budget=0.001)
    assert cost.ratio is None
    [record] = records([cost], "cpu")
    assert record.metric == "top, 2 × 12 × 12 × 64, forward, no gradients: microseconds"
    assert record.value == pytest.approx(1000 * cost.ms["ours"], abs=0.01)


def test_a_record_names_call_size_pass_and_both_times():
    cost = Cost(ON_CPU[0], "reference", {"ours": 0.06, "by hand": 0.03})
    [record] = records([cost], "cpu")
    assert record.recipe == "calls-cpu"
    assert record.value == 2.0
    assert record.details["microseconds"] == {"ours": 60.0, "by hand": 30.0}
    assert rows([cost])[0][5:] == ("30", "", "60", "2.00")


def test_the_ratio_is_to_the_faster_of_the_others():
    cost = Cost(ON_GPU[-1], "additive", {"ours": 0.06, "by hand": 0.3, "compiled": 0.12})
    assert cost.ratio == 0.5
    assert rows([cost])[0][5:] == ("300", "120", "60", "0.50")


def test_a_compiled_module_is_compared_too(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda module, **options: module)
    contest = Contest("additive", (2, 3, 5, 64), calls.additive, compiles=True)
    with torch.no_grad():
        cost = compare(contest, "cpu", budget=0.001)
    assert cost.broken == ""
    assert set(cost.ms) == {"ours", "by hand", "compiled"}


def test_every_call_of_the_lists_has_a_name_of_its_own():
    for contests in (ON_CPU, ON_GPU):
        assert len({(c.name, c.size, c.training) for c in contests}) == len(contests)
