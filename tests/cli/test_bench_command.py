"""regard bench, as somebody types it."""

import json

import pytest
import torch

from regard.evaluate.results import read_results

TINY = ("--quick", "--length", "24", "--lengths", "16,32", "--rivals", "none", "--device", "cpu")


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_it_measures_prints_records_and_draws(command, tmp_path, threads):
    done = command(
        "bench",
        "attention",
        *TINY,
        "--mechanisms",
        "general",
        "--out",
        tmp_path / "out",
        "--record",
        tmp_path,
    )
    assert done.status == 0, done.err
    header, *lines = [line.split("\t") for line in done.out.splitlines()]
    assert header[:5] == ["mechanism", "pass", "kernel", "ms", "× reference"]
    forward = next(line for line in lines if line[:3] == ["general", "forward", "sdpa"])
    assert float(forward[3]) > 0
    assert float(forward[4]) > 0
    assert any(line[:2] == ["general, local-predictive", "forward and backward"] for line in lines)
    assert "of the reference" not in done.err
    found = read_results(tmp_path)
    assert read_results(tmp_path / "out") == found
    assert {result.recipe for result in found} == {"attention-cpu-24"}, "its length is not the standard one"
    one = next(r for r in found if r.metric == "general: times as fast as the reference, forward")
    assert one.details["kernel"] == "sdpa"
    assert set(one.details["milliseconds"]) == {"reference", "fused", "SDPA"}
    assert one.details["versions"]["torch"] == torch.__version__.partition("+")[0] or one.details["versions"]
    growth = [r for r in found if "growth of" in r.details]
    assert {r.details["lengths"][-1] for r in growth} == {32}
    assert {path.name for path in (tmp_path / "out").glob("*.png")} == {
        "attention-ratios-cpu.png",
        "attention-time-cpu.png",
        "attention-memory-cpu.png",
    }


def test_forward_alone_is_forward_alone(command, tmp_path, threads):
    done = command("bench", *TINY, "--mechanisms", "cosine", "--forward", "--lengths", "", "--out", tmp_path)
    assert done.status == 0, done.err
    assert [line.split("\t")[1] for line in done.out.splitlines()[1:]] == ["forward"]
    [record] = json.loads((tmp_path / "attention-cpu-24.json").read_text())
    assert record["details"]["pass"] == "forward"


def test_explain_measures_nothing_and_names_kernels_and_reasons(command):
    done = command("bench", "--explain")
    assert done.status == 0, done.err
    attention, others = (part.splitlines() for part in done.out.split("\n\n"))
    assert others[0].split("\t")[:2] == ["place", "fused path"]
    assert {line.split("\t")[0] for line in others[1:]} >= {"ntm", "lstmn", "decoder-step", "cross-entropy"}
    lines = [line.split("\t") for line in attention]
    facts = ["score", "normalizer", "window", "device", "queries"]
    assert lines[0] == [*facts, "forward", "with gradients", "with weights kept", "why not another"]
    kernels = {line[5] for line in lines[1:]}
    assert {"sdpa", "additive-cpu", "reference"} <= kernels
    assert all(line[8] for line in lines[1:] if line[5] == "reference")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--mechanisms", "aditive"), "regard: bench: --mechanisms has 'aditive'; did you mean 'additive'?"),
        (
            ("--lengths", "12,x"),
            "regard: bench: --lengths has '12,x'; expected whole numbers, e.g. 512,1024,2048.",
        ),
        (
            ("--rivals", "jax"),
            "regard: bench: --rivals has 'jax'; expected some of by-hand, sorted, entmax, flex, compile, "
            "or none.",
        ),
        (
            ("training-steps", "--mechanisms", "additive"),
            "regard: bench: --mechanisms has 'additive'; expected no --mechanisms with training-steps.",
        ),
        (
            ("--explain", "--lengths", "8"),
            "regard: bench: --lengths has '8'; expected no --lengths with --explain, which measures nothing.",
        ),
    ],
)
def test_bad_input_is_answered_with_a_sentence(command, words, sentence, threads):
    done = command("bench", "--device", "cpu", *words)
    assert done.status == 2
    assert done.err.strip() == sentence


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said(command):
    done = command("bench", "--device", "cuda")
    assert done.status == 2
    assert done.err.strip() == (
        "regard: bench: --device has cuda; expected cpu, since torch finds no GPU here."
    )


def test_calls_are_measured_beside_modules_written_by_hand(command, tmp_path, threads, monkeypatch):
    from regard.bench import calls

    monkeypatch.setattr(calls, "ON_CPU", (calls.Contest("small", (1, 1, 5, 64), calls.additive),))
    done = command("bench", "calls", "--quick", "--device", "cpu", "--out", tmp_path)
    assert done.status == 0, done.err
    header, line = (line.split("\t") for line in done.out.splitlines())
    assert header[-3:] == ["µs compiled", "µs", "ratio"]
    assert line[:5] == ["small", "forward, no gradients", "1 × 1 × 5 × 64", "float32", "additive-step-cpu"]
    [record] = read_results(tmp_path)
    assert record.recipe == "calls-cpu"
    assert record.value == float(line[-1])


def test_calls_take_no_option_of_the_mechanisms(command):
    done = command("bench", "calls", "--lengths", "16")
    assert done.status == 2
    assert done.err.strip() == "regard: bench: --lengths has '16'; expected no --lengths with calls."
