"""The tables of the kernel page and of the README are made of what was measured and of what the code does."""

from pathlib import Path

from regard.bench.choices import choices, joined, rows
from regard.bench.records import measured
from regard.evaluate.results import write_result

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "kernels.md").read_text(encoding="utf-8")


def mechanism(folder, name, what, kernel="additive-cuda", details=None, **times):
    details = (details or {}) | {
        "order": 0,
        "threads": 1,
        "mechanism": name,
        "pass": what,
        "kernel": kernel,
        "query": [8, 1024, 128],
        "length": 1024,
        "dtype": "bfloat16",
        "milliseconds": {"fused": 0.5, "reference": 10.0, "SDPA": 0.1},
        "times as fast": times,
        "megabytes": {"fused": 4.0, "reference": 8600.0},
        "share of the ceiling": 0.7512,
    }
    metric = f"{name}: times as fast as the reference, {what}"
    write_result(folder, measured("attention-cuda", metric, 20.0, seconds=1, details=details))


def test_the_kernel_page_says_of_every_combination_what_the_dispatcher_says(tables, tmp_path):
    assert PAGE.count("<!-- choices: any -->") == 1
    page = tables.filled(PAGE, tmp_path)
    for row in rows(joined(choices())):
        assert f"| {' | '.join(row)} |" in page


def test_what_is_not_measured_yet_is_said(tables, tmp_path):
    page = tables.filled(PAGE, tmp_path)
    assert "<!--" not in page
    assert page.count(tables.records.UNMEASURED) == 9
    assert tables.readme.speed_table(tmp_path, 0).count("\n") == 1  # a header without rows


def test_the_table_of_mechanisms_shows_what_was_compared(tables, tmp_path):
    mechanism(tmp_path, "additive", "forward", reference=20.0, compile=8.04)
    mechanism(tmp_path, "location", "forward", kernel="reference")
    table = tables.costs.attention_table(tmp_path, "cuda")
    _, header, _, line, _, made = table.splitlines()
    assert header == (
        "| mechanism | pass | kernel | ms | × reference | × compile | of SDPA's time | MB | "
        "MB of the reference | of the ceiling |"
    )
    assert line == "| additive | forward | `additive-cuda` | 0.5 | 20.0 | 8.0 | 5.00 | 4 | 8,600 | 75 % |"
    assert made.endswith("The reference runs: location.")


def test_captured_times_stand_below_those_as_called(tables, tmp_path):
    graphs = {
        "captured milliseconds": {"fused": 0.022, "SDPA": 0.02, "reference": 0.2, "flex": 0.044},
        "captured times as fast": {"reference": 9.1, "SDPA": 0.91, "flex": 2.0},
    }
    mechanism(tmp_path, "dot", "forward", kernel="sdpa", reference=3.0, details=graphs)
    lines = tables.costs.attention_table(tmp_path, "cuda").splitlines()
    lines = [line for line in lines if line != "{.translation-optional}"]
    header, _, line, _, said, _, other, _, below, *_ = lines
    assert header.endswith("| ms | × reference | of SDPA's time | MB | MB of the reference |")
    assert line.endswith("| 0.5 | 3.0 | 5.00 | 4 | 8,600 |")
    assert said == "The same as graphs, without the host:"
    assert other.endswith("| ms | × reference | × flex | of SDPA's time | of the ceiling |")
    assert below.startswith("| dot | forward | `sdpa` | 0.022 | 9.1 | 2.0 | 1.10 |")


def test_the_table_of_calls_shows_both_sides_and_their_ratio(tables, tmp_path):
    of = {
        "device": "cpu",
        "threads": 1,
        "pass": "forward, no gradients",
        "dtype": "float32",
        "kernel": "sdpa",
    }
    for order, (call, us) in enumerate(
        (("multi-head", {"by hand": 50.0, "ours": 60.0}), ("top", {"ours": 70.0}))
    ):
        details = {**of, "order": order, "call": call, "size": [1, 20, 20, 64], "microseconds": us}
        write_result(tmp_path, measured("calls-cpu", call, 1.2, seconds=0.1, details=details))
    lines = tables.costs.calls_table(tmp_path, "cpu").splitlines()
    assert lines[3] == "| multi-head | forward, no gradients | 1 × 20 × 20 × 64 | `sdpa` | 50 | 60 | 1.20 |"
    assert lines[4] == "| top | forward, no gradients | 1 × 20 × 20 × 64 | `sdpa` |  | 70 |  |"
    assert lines[-1].startswith("float32, ")


def test_the_readme_names_the_hardest_rival(tables, tmp_path):
    graphs = {"captured times as fast": {"reference": 9.0, "compile": 7.51, "SDPA": 0.1}}
    mechanism(tmp_path, "additive", "forward and backward", details=graphs, reference=20.0, compile=8.04)
    mechanism(tmp_path, "cosine", "forward and backward", reference=2.0)  # not among those that are shown
    _, _, line = tables.readme.speed_table(tmp_path, 0).splitlines()
    assert line.startswith("| additive attention, forward and backward | ")
    assert line.endswith(" | torch.compile | 7.5 |")


def test_the_readme_has_six_rows(tables):
    assert len(tables.readme.speed_table(ROOT / "results", 0).splitlines()) == 2 + 6
