import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data.hansards import parse_links
from regard.errors import DataError, ShapeError
from regard.evaluate.alignment import (
    AlignmentCounts,
    Gold,
    Link,
    argmax_links,
    count_links,
    score_alignment,
    write_pharaoh,
)

LINKS = st.frozensets(st.builds(Link, st.integers(0, 9), st.integers(0, 9)), max_size=12)


def links(*pairs):
    return frozenset(Link(*pair) for pair in pairs)


def read_pharaoh(lines):
    parsed = [parse_links(line, number) for number, line in enumerate(lines, start=1)]
    return [Gold(*(links(*found) for found in line)) for line in parsed]


def test_the_error_rate_of_a_sentence_worked_by_hand():
    gold = Gold(sure=links((0, 0), (1, 1)), possible=links((2, 1)))
    counts = count_links(links((0, 0), (2, 1), (3, 3)), gold)
    # A = 3, S = 2, A ∩ S = 1, A ∩ P = 2
    assert counts.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert counts.precision == pytest.approx(2 / 3)
    assert counts.recall == pytest.approx(1 / 2)


def test_a_corpus_is_the_sum_of_its_sentences_not_the_mean_of_their_rates():
    gold = [Gold(links((0, 0)), links()), Gold(links(*((n, n) for n in range(9))), links())]
    found = [links((5, 5)), gold[1].sure]
    whole = score_alignment(found, gold)
    assert whole.error_rate == pytest.approx(1 - 18 / 20)
    assert whole == count_links(found[0], gold[0]) + count_links(found[1], gold[1])


@given(LINKS, LINKS, LINKS)
def test_rates_lie_between_0_and_1_and_sure_links_alone_are_perfect(found, sure, possible):
    gold = Gold(sure, possible)
    counts = count_links(found, gold)
    for rate in (counts.error_rate, counts.precision, counts.recall):
        assert 0 <= rate <= 1
    assert count_links(sure, gold).error_rate == 0
    assert gold.sure <= gold.possible


def test_nothing_to_find_and_nothing_found_is_no_error():
    assert AlignmentCounts().error_rate == 0
    assert AlignmentCounts().precision == AlignmentCounts().recall == 1


def test_links_from_weights():
    weights = torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.4, 0.1], [0.1, 0.35, 0.55], [0.2, 0.6, 0.2]])  # (T, S)
    assert argmax_links(weights) == links((0, 0), (0, 1), (2, 2), (1, 3))


def test_weights_without_rows_or_columns_have_no_links():
    assert argmax_links(torch.zeros(0, 3)) == frozenset()
    assert argmax_links(torch.zeros(3, 0)) == frozenset()


def test_weights_with_heads_are_an_error():
    with pytest.raises(ShapeError, match=r"links: `weights` has shape \(2, 3, 4\); expected \(T, S\)"):
        argmax_links(torch.zeros(2, 3, 4))


def test_pharaoh_lines_are_read_with_their_possible_links():
    gold = read_pharaoh(["1-1 2p3 3-2", "", " 4P1 \n"])
    assert gold[0] == Gold(links((0, 0), (2, 1)), links((1, 2)))
    assert gold[1] == Gold(links(), links())
    assert gold[2] == Gold(links(), links((3, 0)))


@given(LINKS)
def test_what_is_written_is_read_again(sure):
    counted_from_1 = frozenset(Link(link.source + 1, link.target + 1) for link in sure)
    assert read_pharaoh([write_pharaoh(counted_from_1)]) == [Gold(sure, links())]


def test_links_are_written_sorted():
    assert write_pharaoh(links((10, 0), (2, 1), (2, 0))) == "2-0 2-1 10-0"
    assert write_pharaoh(links()) == ""


@pytest.mark.parametrize("word", ["1:2", "1-", "-1", "a-b", "1-2-3", "1 - 2", "١-٢"])
def test_malformed_links_are_errors_that_name_the_line(word):
    with pytest.raises(DataError, match=r"Pharaoh: line 2 has '.*'; expected links such as 1-2"):
        read_pharaoh(["1-1", f"1-1 {word}"])


def test_a_position_before_the_first_is_an_error_that_names_the_line():
    with pytest.raises(DataError, match="Pharaoh: line 1 has '0-1'; expected positions from 1"):
        read_pharaoh(["0-1"])


def test_unequal_corpora_are_an_error():
    with pytest.raises(DataError, match="score_alignment: `gold` has 0 sentences; expected 1, as `found`"):
        score_alignment([links()], [])
