"""Word links in the Pharaoh format: `0-0 1-2` are sure links, `1p2` possible ones; one sentence per line."""

import re

from regard.errors import DataError

Links = tuple[tuple[int, int], ...]  # (source, target), from 0

_LINK = re.compile(r"(\d+)([-pP])(\d+)", re.ASCII)


def parse_links(line: str, number: int, first: int) -> tuple[Links, Links]:
    """The sure and the possible links of line `number`; `first` is the index of the first word."""
    sure: list[tuple[int, int]] = []
    possible: list[tuple[int, int]] = []
    for word in line.split():
        match = _LINK.fullmatch(word)
        if match is None:
            raise DataError(
                f"Pharaoh: line {number} has {word!r}; expected links such as 0-1 (sure) or 0p1 (possible)."
            )
        source, mark, target = int(match[1]), match[2], int(match[3])
        if min(source, target) < first:
            raise DataError(f"Pharaoh: line {number} has {word!r}; expected positions from {first}.")
        (sure if mark == "-" else possible).append((source - first, target - first))
    return tuple(sure), tuple(possible)
