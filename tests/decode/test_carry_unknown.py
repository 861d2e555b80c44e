import pytest
import torch

from regard.decode.unknown import carry_unknown
from regard.errors import ShapeError

PIECES_IN = ["Zorblax", "eats", "quince"]


def test_each_unknown_piece_becomes_the_source_piece_it_looks_at():
    weights = torch.tensor([[0.6, 0.1, 0.3], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]])
    assert carry_unknown(["<unk>", "mange", "<unk>"], PIECES_IN, weights) == ["Zorblax", "mange", "quince"]


def test_eos_may_be_counted_and_is_never_carried():
    weights = torch.tensor([[0.1, 0.0, 0.2, 0.7], [0.0, 0.0, 0.0, 1.0]])
    assert carry_unknown(["<unk>"], PIECES_IN, weights) == ["quince"]


def test_without_a_source_nothing_is_carried():
    assert carry_unknown(["<unk>"], [], torch.ones(2, 1)) == ["<unk>"]


def test_weights_of_another_sentence_are_an_error():
    with pytest.raises(
        ShapeError, match=r"`attention` has shape \(2, 5\); expected \(T=1, S=3\), or one more"
    ):
        carry_unknown(["<unk>"], PIECES_IN, torch.ones(2, 5))
