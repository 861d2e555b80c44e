"""The table of choices says of every combination what the dispatcher says of it."""

from itertools import product

import pytest

from regard.bench.choices import COLUMNS, Asked, choices, joined, rows, shortened


@pytest.fixture(scope="module")
def every():
    return choices()


def spread(lines):
    """Every combination that the lines speak of, with its kernels and reason."""
    return {(*key, *line[5:]) for line in lines for key in product(*line[:5])}


def test_joined_lines_say_the_same_as_all_of_them(every):
    short = joined(every)
    assert len(short) < len(every) / 10
    assert spread(short) == spread(every)
    assert sum(len(list(product(*line[:5]))) for line in short) == len(every)  # none twice


def test_kernels_come_first_and_the_reference_has_a_reason(every):
    lines = joined(every)
    kinds = [line.kernel == "reference" for line in lines]
    assert kinds == sorted(kinds)
    assert all((line.reason != "") == (line.kernel == "reference") for line in lines)


def test_gradients_and_kept_weights_are_asked_for_too(every):
    found = {
        (line.score[0], line.normalizer[0], line.device[0], line.queries[0]): line
        for line in every
        if line.window == ("global",)
    }
    many = found["additive", "softmax", "cpu", "many"]
    assert (many.kernel, many.backward, many.weights) == ("additive-cpu", "additive-cpu", "additive-scores")
    few = found["additive", "softmax", "cpu", "one"]
    assert (few.kernel, few.backward) == ("additive-step-cpu", "additive-step-cpu")
    product = found["dot", "softmax", "cuda", "many"]
    assert (product.kernel, product.backward, product.weights) == ("sdpa", "sdpa", "reference")


def test_any_stands_for_all_values():
    def line(score, window, kernel):
        return Asked((score,), ("softmax",), (window,), ("cpu",), ("one",), kernel, kernel, "reference", "")

    lines = [line("dot", "near", "a"), line("dot", "far", "a"), line("cosine", "near", "a")]
    found = rows(joined([*lines, line("cosine", "far", "b")]))
    assert [dict(zip(COLUMNS, row, strict=True)) | {"why not another": ""} for row in found] == [
        dict(zip(COLUMNS, row, strict=True))
        for row in (
            ("dot", "softmax", "any", "cpu", "one", "a", "a", "reference", ""),
            ("cosine", "softmax", "near", "cpu", "one", "a", "a", "reference", ""),
            ("cosine", "softmax", "far", "cpu", "one", "b", "b", "reference", ""),
        )
    ]


def test_a_reason_leaves_out_what_kernels_for_others_say():
    others = "score is A, this kernel computes B; normalizer is Mean, this kernel computes Softmax"
    assert shortened(f"{others}; the query is on cpu, not cuda") == "no kernel computes this"
    assert (
        shortened(f"{others}; it runs only when asked for by name") == "it runs only when asked for by name"
    )
    assert shortened("the largest tensor has 64 numbers, fewer than 100, which fit") == (
        "the largest tensor has fewer numbers than 100, which fit"
    )
    assert shortened("") == ""
