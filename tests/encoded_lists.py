"""Encoded pairs as the lists of ids that they were made from."""

from itertools import pairwise

from regard.data.encoded import EncodedPairs, Side


def lists(pairs: EncodedPairs) -> list[tuple[list[int], list[int]]]:
    """The ids of every pair."""
    return list(zip(_sentences(pairs.source), _sentences(pairs.target), strict=True))


def _sentences(side: Side) -> list[list[int]]:
    numbers = side.numbers.tolist()
    return [numbers[begin:end] for begin, end in pairwise(side.offsets.tolist())]
