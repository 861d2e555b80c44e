"""`regard bench`: parity comes before speed, every mechanism is there, and what cannot run says why."""

import time
from dataclasses import replace
from operator import truediv

import pytest
import torch
from only_kernels import only
from oracles.sparsemax import sparsemax as oracle
from torch.testing import assert_close

from regard import catalog
from regard.attention import dispatch
from regard.bench import clock, rivals
from regard.bench import row as row_module
from regard.bench.attention import measure
from regard.bench.bench_plan import Plan, standard
from regard.bench.clock import CAPTURED, exponent, interleaved, peak
from regard.bench.growth import Growth, foreseen, grow, looks
from regard.bench.preparing import compiled_contests, in_parallel
from regard.bench.problems import MECHANISMS, Mechanism, Size, chosen, make
from regard.bench.row import compare, contests, measure_rival
from regard.errors import ConfigError

TINY = Plan(
    device="cpu",
    dtype=torch.float32,
    size=Size(2, 24, 8),
    lengths=(8, 16),
    growth=Size(1, 0, 8),
    rivals=(),
    budget=0.001,
)


class Careless(dispatch.Kernel):
    """A kernel that loses a thousandth of every context."""

    name = "careless"

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def refuses(self, call: dispatch.Call) -> str | None:
        return None

    def run(self, call: dispatch.Call) -> torch.Tensor:
        weights = call.score(call.query, call.source.keys).softmax(-1)
        return self.factor * (weights @ call.source.values)


def measure_rivals(plan, row, *, until):
    for rival in row_module.RIVALS:
        measure_rival(plan, row, rival, until=until)


def test_every_score_of_the_catalogue_is_measured():
    built_the_same = {"concat"}  # as additive is
    assert {m.score for m in MECHANISMS} == set(catalog.names("score")) - built_the_same
    assert {m.normalizer for m in MECHANISMS} <= set(catalog.names("normalizer"))
    assert {m.window for m in MECHANISMS} <= set(catalog.names("window"))
    assert len({m.name for m in MECHANISMS}) == len(MECHANISMS)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=lambda m: m.name)
def test_every_mechanism_can_be_measured_forward_and_backward(mechanism):
    row = compare(TINY, mechanism, training=True)
    assert row.missing == {}
    assert set(row.ms) == {"reference", "SDPA"} | ({"fused"} if row.kernel else set())
    assert all(value > 0 for value in (*row.ms.values(), *row.bytes.values()))
    assert row.kernel is not None or row.why


@pytest.mark.parametrize("training", [False, True])
def test_a_kernel_without_parity_gets_no_time(monkeypatch, training):
    only(monkeypatch, Careless(0.999))
    row = compare(TINY, Mechanism("scaled-dot"), training=training)
    assert row.kernel == "careless"
    assert row.ms == {}
    assert row.missing["fused"].startswith("no parity: ")
    assert "of its size, the reference by" in row.missing["fused"]


def test_the_same_kernel_without_its_mistake_gets_a_time(monkeypatch):
    only(monkeypatch, Careless(1.0))
    row = compare(TINY, Mechanism("scaled-dot"), training=True)
    assert row.missing == {}
    assert row.parity.largest < 2
    assert row.ms["fused"] > 0


def test_a_kernel_that_breaks_does_not_end_the_run(monkeypatch):
    class Broken(Careless):
        def run(self, call):
            raise RuntimeError("no such instruction")

    only(monkeypatch, Broken(1.0))
    row = compare(TINY, Mechanism("dot"), training=False)
    assert row.missing == {"fused": "failed: no such instruction"}


def test_growth_stops_where_the_next_length_would_not_fit():
    series = Growth(Mechanism("dot"), "reference", TINY.growth, True, [64], [100.0], [1_000_000])
    far = 1e12
    assert foreseen(TINY, series, 128, far) == ""
    small = replace(TINY, largest=3e6)
    assert foreseen(small, series, 128, far) == "128 positions would need about 0 GB"
    short = replace(TINY, longest=0.3)
    assert foreseen(short, series, 128, far) == "a call at 128 positions would take about 0 s"
    assert foreseen(TINY, series, 128, 0.0) == "the deadline has passed"


def test_growth_is_measured_for_the_reference_and_the_kernel():
    found = grow(TINY, Mechanism("scaled-dot"), until=1e12)
    assert [series.path for series in found] == ["reference", "sdpa"]
    assert all(series.lengths == [8, 16] for series in found)
    reference, fused = found
    assert reference.in_memory > fused.in_memory


def test_a_look_asks_a_fused_call_for_its_largest_weights():
    mechanism = Mechanism("scaled-dot")
    grown = grow(TINY, mechanism, until=1e12)
    [seen] = looks(TINY, mechanism, grown)
    assert (seen.kernel, seen.length, seen.whole) == ("sdpa", 16, 4 * 16 * 16)
    assert seen.bytes > 0
    assert seen.ms > 0
    grown[0].ms[-1] = 1e9  # a reference that would take for ever is not asked
    assert looks(TINY, mechanism, grown) == []


def test_an_exponent_is_the_power_of_the_length():
    lengths = [64, 128, 256, 512, 1024]
    assert exponent(lengths, [3 * n**2 for n in lengths]) == pytest.approx(2.0)
    assert exponent(lengths, [9, *(0.5 * n for n in lengths[1:])]) == pytest.approx(1.0)
    assert exponent([64], [1.0]) is None


def test_the_peak_is_what_a_call_holds_at_once():
    x = torch.zeros(1000)

    def call():
        first = x + 1  # 4000 bytes, given back before the third is made
        second = first * 2
        del first
        return torch.cat([second, second]).sum()

    assert 12_000 <= peak(call, "cpu") <= 12_100


def test_a_longer_call_takes_longer():
    x = torch.randn(300, 300)
    took = interleaved({"once": lambda: x @ x, "ten": lambda: [x @ x for _ in range(10)]}, "cpu", budget=0.02)
    assert took["ten"] > 4 * took["once"]


def test_mechanisms_are_chosen_by_score_normalizer_or_window():
    assert {m.name for m in chosen(("local-monotonic", "cosine"))} == {"general, local-monotonic", "cosine"}
    assert chosen(()) == MECHANISMS
    with pytest.raises(ConfigError, match=r"bench: --mechanisms has 'aditive'; did you mean 'additive'\?"):
        chosen(("aditive",))


def test_the_quick_plan_compiles_nothing():
    assert standard("cpu", quick=True).rivals == ("by-hand", "entmax")
    assert max(standard("cpu").lengths) == 16384


def test_captured_calls_are_timed_beside_plain_ones_and_what_cannot_be_captured_says_so(monkeypatch):
    def capture(run):
        if "yard" in run.__code__.co_freevars:
            raise RuntimeError("operation not permitted when stream is capturing")
        return lambda: [run() for _ in range(CAPTURED)]

    monkeypatch.setattr("regard.bench.row.captured", capture)
    plan = replace(TINY, capture=True, rivals=("by-hand",))
    row = compare(plan, Mechanism("scaled-dot"), training=False)
    assert row.missing == {"SDPA, captured": "failed: operation not permitted when stream is capturing"}
    assert set(row.captured) == {"reference", "fused"}
    assert set(row.captured_against) == {"reference"}
    assert 0.2 < row.captured["fused"] / row.ms["fused"] < 5  # of one call, not of all in the graph
    measure_rivals(plan, row, until=1e12)
    assert set(row.captured) == {"reference", "fused", "by-hand"}
    assert row.captured_against["by-hand"] > 0
    assert row.against["SDPA"] > 0


def test_rivals_that_are_compiled_come_last_and_so_do_rows_without_a_kernel():
    rows = [compare(TINY, Mechanism(score), training=False) for score in ("location", "dot")]
    order = [(row.mechanism.score, rival.name) for row, rival in contests(rows)]
    assert order[0] == ("dot", "by-hand")
    assert order[-4:] == [("dot", "flex"), ("dot", "compile"), ("location", "flex"), ("location", "compile")]
    assert len(order) == 2 * len(rivals.RIVALS)


def test_what_the_reference_alone_computes_waits_for_the_kernels_and_may_fall_to_the_deadline():
    mechanisms = (Mechanism("location"), Mechanism("dot"))
    plan = replace(TINY, mechanisms=mechanisms, lengths=(), passes=(False,))
    said = []
    report = measure(plan, said.append)
    assert [row.mechanism.score for row in report.rows] == ["location", "dot"]  # as the plan names them
    assert [line.split(",")[0] for line in said] == ["dot", "location"]
    late = measure(replace(plan, deadline=0.0), said.append)
    assert [row.mechanism.score for row in late.rows] == ["dot"]
    assert said[-1] == "location: the deadline has passed"


def test_the_order_of_competitors_changes_from_round_to_round(monkeypatch):
    timed = []
    monkeypatch.setattr(clock, "elapsed", lambda run, device, calls: timed.append(run()) or 1.0)
    interleaved({name: (lambda name=name: name) for name in "abc"}, "cpu", budget=10.0, rounds=6)
    rounds = ["".join(timed[i : i + 3]) for i in range(len(timed) - 18, len(timed), 3)]
    assert all(sorted(turn) == ["a", "b", "c"] for turn in rounds)
    assert len(set(rounds)) > 2


def test_a_first_call_that_compiles_does_not_leave_a_single_one_to_be_measured(monkeypatch):
    timed = []

    def elapsed(run, device, *, calls):
        timed.append(calls)
        run()
        return 20.0 if len(timed) == 1 else 0.001

    monkeypatch.setattr(clock, "elapsed", elapsed)
    assert interleaved({"one": lambda: None}, "cuda", budget=0.7, rounds=7)["one"] == pytest.approx(1.0)
    assert timed[:2] == [1, 1]
    assert len(timed) == 2 + 7
    assert min(timed[2:]) > 90


def test_a_gpu_is_measured_with_graphs_and_all_rivals_within_two_minutes_and_a_half(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (10**11, 10**11))
    plan = standard("cuda")
    assert plan.capture
    assert set(plan.rivals) == {rival.name for rival in rivals.RIVALS}
    assert plan.deadline == 150
    assert plan.processes >= 1
    assert not standard("cuda", quick=True).processes


# what is compiled beforehand --------------------------------------------------------------------------------


def test_jobs_of_other_processes_are_done_fail_or_come_too_late():
    assert in_parallel(truediv, [(1, 2), (1, 0)], workers=1, seconds=60.0) == [
        None,
        "failed: division by zero",
    ]
    assert in_parallel(time.sleep, [(60.0,)], workers=1, seconds=0.1) == ["not compiled within 0 s"]


def test_what_is_compiled_beforehand_is_each_rival_that_is_compiled_those_of_kernels_first():
    plan = replace(TINY, mechanisms=(Mechanism("location"), Mechanism("dot")), rivals=("flex", "compile"))
    assert [(m.score, training, name) for m, training, name in compiled_contests(plan)] == [
        ("dot", False, "flex"),
        ("dot", False, "compile"),
        ("dot", True, "compile"),  # FlexAttention has no gradient on a CPU
        ("location", False, "compile"),
        ("location", True, "compile"),
    ]


def test_a_rival_that_was_not_compiled_in_time_is_not_measured_and_says_so(monkeypatch):
    monkeypatch.setattr(rivals.torch, "compile", lambda *given, **named: pytest.fail("compiled again"))
    row = compare(TINY, Mechanism("dot"), training=False)
    plan = replace(TINY, rivals=("compile",))
    unready = {(row.mechanism, False, "compile"): "not compiled within 40 s"}
    assert not measure_rival(plan, row, rival("compile"), until=1e12, unready=unready)
    assert row.missing == {"compile": "not compiled within 40 s"}


def test_a_report_is_kept_before_what_may_take_longer_than_foreseen():
    plan = replace(TINY, mechanisms=(Mechanism("location"), Mechanism("dot")), lengths=(), passes=(False,))
    kept = []
    measure(plan, keep=lambda report: kept.append([row.mechanism.score for row in report.rows]))
    assert kept == [["dot"], ["dot", "location"]]


# rivals -----------------------------------------------------------------------------------------------------


def rival(name):
    return next(rival for rival in rivals.RIVALS if rival.name == name)


@pytest.mark.parametrize("score", ["dot", "scaled-dot", "general", "cosine", "feedforward"])
def test_flex_attention_gets_the_query_whose_product_is_the_score(score):
    problem = make(Mechanism(score), Size(2, 6, 8), "cpu", torch.float32)
    query = rivals.product_query(problem.parts.score, problem.query)
    expected = problem.parts.score(problem.query, problem.source.keys)
    assert_close(query @ problem.source.keys.mT, expected)


def test_additive_attention_is_unrolled_by_hand():
    problem = make(Mechanism("additive", hidden=5), Size(2, 6, 8), "cpu", torch.float32)
    score, keys = problem.parts.score, problem.source.keys
    modified = rivals.unrolled(score.W(problem.query)[:, None], keys[:, None], score.v.weight[0])
    expected = score(problem.query, keys)
    found = modified(torch.tensor(7.0), torch.tensor(1), torch.tensor(0), torch.tensor(4), torch.tensor(2))
    assert_close(found, expected[1, 4, 2])


def test_flex_attention_applies_to_softmax_over_one_query_and_one_key():
    def applies(mechanism):
        return rival("flex").applies(make(mechanism, Size(1, 6, 8), "cpu", torch.float32))

    assert applies(Mechanism("general", window="local-monotonic"))
    assert not applies(Mechanism("general", window="local-predictive"))  # multiplies after the softmax
    assert not applies(Mechanism("scaled-dot", "sparsemax"))
    assert not applies(Mechanism("location"))
    wide = make(Mechanism("additive", hidden=65), Size(1, 6, 8), "cpu", torch.float32)
    assert rival("flex").refuses(wide, False) == "65 features written out one by one take minutes to compile"


@pytest.mark.parametrize("score", ["dot", "scaled-dot", "general", "cosine", "feedforward"])
def test_a_product_by_hand_gives_the_same(score):
    problem = make(Mechanism(score), Size(2, 6, 8), "cpu", torch.float32)
    assert rival("by-hand").applies(problem)
    found = rival("by-hand").build(problem)()
    assert_close(found, problem.context(problem.attention("reference")), atol=1e-5, rtol=1e-5)


def test_sparsemax_by_sorting_has_the_weights_and_the_gradient_of_the_paper():
    assert not rival("by-hand").applies(
        make(Mechanism("scaled-dot", "sparsemax"), Size(1, 6, 8), "cpu", torch.float32)
    )
    scores = torch.randn(5, 9, dtype=torch.float64, requires_grad=True)
    weights = rivals.Sorted.apply(scores)
    assert_close(weights, torch.tensor([oracle(row) for row in scores.tolist()], dtype=torch.float64))
    torch.autograd.gradcheck(rivals.Sorted.apply, scores)


def test_entmax_is_left_out_where_it_is_not_installed(monkeypatch):
    problem = make(Mechanism("scaled-dot", "sparsemax"), Size(1, 6, 8), "cpu", torch.float32)
    assert rival("entmax").applies(problem)
    monkeypatch.setattr(rivals.importlib.util, "find_spec", lambda name: None)
    assert rival("entmax").refuses(problem, True) == "the package is not installed"


def test_a_rival_is_timed_by_turns_and_one_that_computes_something_else_is_not(monkeypatch):
    always = {"applies": lambda problem: True, "refuses": lambda problem, training: None}

    def right(problem):
        attention = problem.attention("reference")
        return lambda: problem.context(attention)

    def wrong(problem):
        return lambda: 2 * right(problem)()

    def broken(problem):
        raise RuntimeError("cannot be compiled")

    made = [
        rivals.Rival(name, build=build, **always)
        for name, build in {"right": right, "wrong": wrong, "broken": broken}.items()
    ]
    monkeypatch.setattr("regard.bench.row.RIVALS", made)
    plan = replace(TINY, rivals=("right", "wrong", "broken"))
    row = compare(plan, Mechanism("dot"), training=True)
    measure_rivals(plan, row, until=1e12)
    assert row.against["right"] > 0
    assert row.missing == {
        "wrong": "wrong result: 1e+02 % away from the reference",
        "broken": "failed: cannot be compiled",
    }
    assert row.captured == {}  # nobody asked
    late = compare(plan, Mechanism("dot"), training=True)
    measure_rivals(plan, late, until=0.0)
    assert set(late.missing.values()) == {"the deadline has passed"}
