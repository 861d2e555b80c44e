"""The pages of the comparisons: tables and pictures made of what was recorded."""

from pathlib import Path

from regard.bench.records import measured
from regard.evaluate.results import write_result

ROOT = Path(__file__).parents[1]


def record(folder, variant, order, value, by_length=()):
    details = {
        "comparison": "scores",
        "variant": variant,
        "order": order,
        "measures": [["BLEU", f"{value:.2f}"]],
        "values": {"1": value},
        "by_length": [dict(zip(("low", "high", "value"), one, strict=True)) for one in by_length],
        "valid_loss": 1.5,
        "parameters": 12000,
        "tokens_per_second": 345.6,
        "memory": 458_000_000,
        "split": "test",
        "steps": 8,
    }
    write_result(folder, measured("scores", f"BLEU, {variant}", value, seconds=7, details=details))


def test_the_table_of_a_comparison_has_quality_and_every_cost(tables, tmp_path):
    record(tmp_path, "dot", 0, 44.9)
    page = tables.filled("<!-- comparison: scores -->", tmp_path)
    header = "| variant | BLEU | valid loss | parameters | tokens/s | seconds | memory | seeds |"
    assert page.splitlines()[1] == header
    assert "| dot | 44.90 | 1.500 | 12 000 | 346 | 7 | 458 MB |" in page


def test_lengths_and_bars_of_a_page_are_drawn_from_the_records(tables, tmp_path):
    markdown = "<!-- lengths: scores -->\n\n<!-- bars: scores -->\n\n<!-- bars: unknown -->"
    assert tables.experiments.pictures(markdown, tmp_path) == {}
    assert tables.filled(markdown, tmp_path).count(tables.records.UNMEASURED) == 3
    record(tmp_path, "dot", 0, 44.9, [(0, 10, 50.0), (11, None, 40.0)])
    record(tmp_path, "none", 1, 29.9, [(0, 10, 35.0), (11, None, 12.0)])
    made = tables.experiments.pictures(markdown, tmp_path)
    assert set(made) == {"lengths-scores.svg", "bars-scores.svg"}
    assert all(b"<svg" in content for content in made.values())
    page = tables.filled(markdown, tmp_path)
    assert all(f"(../pictures/{name})" in page for name in made)
    assert page.count(tables.records.UNMEASURED) == 1


def test_the_recipes_of_a_corpus_stand_best_first_in_both_forms_with_their_signatures(tables, tmp_path):
    assert tables.filled("<!-- corpus: tiny-en-de -->", tmp_path) == tables.records.UNMEASURED
    moses = tables.experiments.MOSES
    signatures = ("case:mixed|tok:13a", "case:lc|tok:13a", "case:lc|moses:de")
    note = "\n".join(["12 sentences, beam 5", *(f"signature: {signature}" for signature in signatures)])
    for recipe, value in (("luong-tiny-en-de", 39.1), ("transformer-tiny-en-de", 41.3)):
        forms = [["BLEU", f"{value:.2f}"], [moses, f"{value + 0.4:.2f}"]]
        details = {"measures": forms, "note": note, "parameters": 7000}
        write_result(tmp_path, measured(recipe, "BLEU", value, seconds=60, details=details, seeds=(1, 2, 3)))
    published = measured("transformer-tiny-en-de", moses, 41.7, seconds=60, details={}, theory=41.02)
    write_result(tmp_path, published)
    lines = tables.filled("<!-- corpus: tiny-en-de -->", tmp_path).splitlines()
    assert lines[3] == "| `transformer-tiny-en-de` | 41.70 | 41.30 | 41.02 | 7 000 | 60 | 3 |"
    assert lines[4] == "| `luong-tiny-en-de` | 39.50 | 39.10 |  | 7 000 | 60 | 3 |"
    assert lines[-2:] == [
        f"| {moses} | `case:lc\\|moses:de` |",
        "| BLEU | `case:mixed\\|tok:13a` |",
    ]
