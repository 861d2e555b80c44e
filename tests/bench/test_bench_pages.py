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
    assert page.count(tables.records.UNMEASURED) == 7
    assert tables.readme.performance_table(tmp_path).count("\n") == 1  # a header without rows


def test_the_table_of_mechanisms_shows_what_was_compared(tables, tmp_path):
    mechanism(tmp_path, "additive", "forward", reference=20.0, compile=8.04)
    mechanism(tmp_path, "location", "forward", kernel="reference")
    table = tables.costs.attention_table(tmp_path, "cuda")
    header, _, line, _, made = table.splitlines()
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
    header, _, line, _, said, _, other, _, below, *_ = lines
    assert header.endswith("| ms | × reference | of SDPA's time | MB | MB of the reference |")
    assert line.endswith("| 0.5 | 3.0 | 5.00 | 4 | 8,600 |")
    assert said == "The same as graphs, without the host:"
    assert other.endswith("| ms | × reference | × flex | of SDPA's time | of the ceiling |")
    assert below.startswith("| dot | forward | `sdpa` | 0.022 | 9.1 | 2.0 | 1.10 |")


def test_the_readme_has_a_row_for_what_matters(tables, tmp_path):
    mechanism(tmp_path, "additive", "forward", reference=20.0, compile=8.04)
    mechanism(tmp_path, "cosine", "forward", reference=2.0)  # not among those that are shown
    look = {"order": 0, "look at": "additive", "kernel": "additive-cuda", "length": 16384}
    write_result(tmp_path, measured("attention-cuda", "additive: on demand", 5.0, seconds=1, details=look))
    details = {
        "order": 0,
        "way": "captured",
        "model": "RNNsearch",
        "milliseconds": {"fused": 1, "reference": 2},
    }
    step = measured("training-steps-cuda", "RNNsearch: captured", 2.0, seconds=1, details=details)
    write_result(tmp_path, step)
    _, _, *lines = tables.readme.performance_table(tmp_path).splitlines()
    assert [line.split(" | ")[0] for line in lines] == [
        "| additive, forward, 8 × 1024 positions, bfloat16",
        "| captured training step with fused attention: RNNsearch",
    ]
    assert (
        "20.0 times as fast as the formula in plain PyTorch; 8.0 times torch.compile; 4 MB where the formula "
        "needs 8.6 GB; 75 % of the arithmetic's ceiling" in lines[0]
    )


def test_the_readme_has_at_most_fourteen_rows(tables):
    assert 3 <= len(tables.readme.performance_table(ROOT / "results").splitlines()) <= 2 + 14
