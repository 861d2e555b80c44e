"""Text as glyph outlines: reads TrueType files and lays out words.

Pictures contain outlines, so they look the same everywhere and need no installed font.
"""

import importlib.util
import re
import struct
import unicodedata
import warnings
import zlib
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent / "fonts"
LATIN = FOLDER / "DejaVuSans.ttf"
BOLD = FOLDER / "DejaVuSans-Bold.ttf"
CHINESE = FOLDER / "NotoSansSC-Subset.ttf"  # simplified, punctuation and kana; made by tools/make_font.py
SHOWN = ("head", "hhea", "maxp", "OS/2", "hmtx", "cmap", "loca", "glyf", "name", "post")  # what browsers need

CJK = re.compile(
    "[\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)

Contour = list[tuple[float, float, bool]]  # a closed line of (x, y, on the curve?)


class Font:
    """A TrueType file: glyph ids of characters, advance widths, outlines."""

    def __init__(self, path: Path) -> None:
        data = path.read_bytes()
        [count] = struct.unpack_from(">H", data, 4)
        entries = struct.iter_unpack(">4s4xII", data[12 : 12 + 16 * count])
        self.tables = {tag.decode(): data[start : start + size] for tag, start, size in entries}
        self.unit, self._long = struct.unpack_from(">H30xH", self.tables["head"], 18)
        [self.count] = struct.unpack_from(">H", self.tables["maxp"], 4)
        [self._metrics] = struct.unpack_from(">H", self.tables["hhea"], 34)

    @cached_property
    def glyphs(self) -> dict[int, int]:
        """Glyph ids by code point."""
        table = self.tables["cmap"]
        [count] = struct.unpack_from(">H", table, 2)
        starts = [struct.unpack_from(">I", table, 8 + 8 * i)[0] for i in range(count)]
        kinds = {struct.unpack_from(">H", table, start)[0]: start for start in starts}
        if 12 in kinds:
            at = kinds[12]
            [groups] = struct.unpack_from(">I", table, at + 12)
            parts = struct.iter_unpack(">III", table[at + 16 : at + 16 + 12 * groups])
            return {code: first + code - low for low, high, first in parts for code in range(low, high + 1)}
        at = kinds[4]
        n = struct.unpack_from(">H", table, at + 6)[0] // 2
        highs, lows, shifts, places = (
            struct.unpack_from(f">{n}H", table, at + 14 + skip)
            for skip in (0, 2 + 2 * n, 2 + 4 * n, 2 + 6 * n)
        )
        found = {}
        for i, (low, high, shift, place) in enumerate(zip(lows, highs, shifts, places, strict=True)):
            for code in range(low, min(high, 0xFFFE) + 1):
                glyph = code
                if place:
                    where = at + 16 + 6 * n + 2 * i + place + 2 * (code - low)
                    [glyph] = struct.unpack_from(">H", table, where)
                if glyph:
                    found[code] = (glyph + shift) % 65536
        return found

    @cached_property
    def kerning(self) -> dict[tuple[int, int], int]:
        """Kerning of (left, right) glyph pairs, in font units."""
        if "kern" not in self.tables:
            return {}
        [count] = struct.unpack_from(">H", self.tables["kern"], 10)
        pairs = struct.iter_unpack(">HHh", self.tables["kern"][18 : 18 + 6 * count])
        return {(left, right): shift for left, right, shift in pairs}

    def advance(self, glyph: int) -> int:
        """The advance width of a glyph, in font units."""
        [found] = struct.unpack_from(">H", self.tables["hmtx"], 4 * min(glyph, self._metrics - 1))
        return int(found)

    @cached_property
    def places(self) -> list[int]:
        """Offsets of the glyphs in `glyf`, and the end of the last one."""
        kind, times = ("I", 1) if self._long else ("H", 2)
        return [times * place for place in struct.unpack(f">{self.count + 1}{kind}", self.tables["loca"])]

    def outline(self, glyph: int) -> str:
        """The outline of a glyph as an SVG path, in font units, y downwards."""
        return "".join(map(_trace, self._contours(glyph)))

    def _contours(self, glyph: int) -> list[Contour]:
        data = self.tables["glyf"][self.places[glyph] : self.places[glyph + 1]]
        if not data:
            return []
        [count] = struct.unpack_from(">h", data)
        return self._simple(data, count) if count >= 0 else self._composite(data)

    def _simple(self, data: bytes, count: int) -> list[Contour]:
        ends = struct.unpack_from(f">{count}H", data, 10)
        [hints] = struct.unpack_from(">H", data, 10 + 2 * count)
        at = 12 + 2 * count + hints
        flags: list[int] = []
        while len(flags) <= ends[-1]:
            flag, again = data[at], data[at + 1] if data[at] & 8 else 0
            flags += [flag] * (1 + again)
            at += 2 if flag & 8 else 1
        sides = []
        for short, same in ((2, 16), (4, 32)):  # flag bits for x, then for y
            value, side = 0, []
            for flag in flags:
                if flag & short:
                    value += data[at] if flag & same else -data[at]
                    at += 1
                elif not flag & same:
                    value += struct.unpack_from(">h", data, at)[0]
                    at += 2
                side.append(value)
            sides.append(side)
        points = [(x, y, bool(flag & 1)) for x, y, flag in zip(*sides, flags, strict=True)]
        return [points[a + 1 : b + 1] for a, b in pairwise((-1, *ends))]

    def _composite(self, data: bytes) -> list[Contour]:
        at, flags, found = 10, 32, []
        while flags & 32:  # more components follow
            flags, part = struct.unpack_from(">HH", data, at)
            dx, dy = struct.unpack_from(">hh" if flags & 1 else ">bb", data, at + 4)
            at += 8 if flags & 1 else 6
            size = 1 if flags & 8 else 2 if flags & 64 else 4 if flags & 128 else 0
            turn = [each / 2**14 for each in struct.unpack_from(f">{size}h", data, at)]
            at += 2 * size
            a, b, c, d = {0: [1, 0, 0, 1], 1: [*turn, 0, 0, *turn], 2: [*turn[:1], 0, 0, *turn[1:]]}.get(
                size, turn
            )
            found += [
                [(a * x + c * y + dx, b * x + d * y + dy, on) for x, y, on in contour]
                for contour in self._contours(part)
            ]
        return found

    def woff(self, text: str) -> bytes:
        """A WOFF font for web pages that contains only the letters of the text; glyph ids stay the same."""
        wanted = {ord(letter): self.glyphs[ord(letter)] for letter in set(text) if ord(letter) in self.glyphs}
        outlines, places, kept = b"", [0], {self._metrics - 1, *wanted.values()}
        metrics = bytearray(len(self.tables["hmtx"]))
        for glyph in range(self.count):
            if glyph in kept:
                outlines += self.tables["glyf"][self.places[glyph] : self.places[glyph + 1]]
                metrics[4 * glyph : 4 * glyph + 4] = self.tables["hmtx"][4 * glyph : 4 * glyph + 4]
            places.append(len(outlines))
        groups = b"".join(struct.pack(">III", code, code, wanted[code]) for code in sorted(wanted))
        head = bytearray(self.tables["head"])
        head[50:52] = b"\0\1"  # long offsets in `loca`
        changed = {
            "glyf": outlines,
            "loca": struct.pack(f">{len(places)}I", *places),
            "cmap": struct.pack(">4HI2H3I", 0, 1, 3, 10, 12, 12, 0, 16 + len(groups), 0, len(wanted))
            + groups,
            "head": bytes(head),
            "hmtx": bytes(metrics),
            "name": struct.pack(">HHH", 0, 0, 6),
            "post": struct.pack(">I28x", 0x30000),
        }
        return _woff({tag: changed.get(tag, self.tables[tag]) for tag in sorted(SHOWN)})


def _woff(tables: dict[str, bytes]) -> bytes:
    start = 44 + 20 * len(tables)
    entries, bodies, plain = b"", b"", 12 + 16 * len(tables)
    for tag, table in tables.items():
        padded = table + bytes(-len(table) % 4)
        packed = min(zlib.compress(table, 9), table, key=len)
        total = sum(struct.unpack(f">{len(padded) // 4}I", padded)) % 2**32
        entries += struct.pack(">4s4I", tag.encode(), start + len(bodies), len(packed), len(table), total)
        bodies += packed + bytes(-len(packed) % 4)
        plain += len(padded)
    sizes = (start + len(bodies), len(tables), 0, plain, 1, 0, 0, 0, 0, 0, 0)
    return struct.pack(">4sIIHHIHHIIIII", b"wOFF", 0x10000, *sizes) + entries + bodies


def _trace(contour: Contour) -> str:
    """A closed SVG path of lines and quadratic curves; between two off-curve points lies one on the curve."""
    full = []
    for (x, y, on), (u, v, next_on) in pairwise([*contour, contour[0]]):
        full.append((x, y, on))
        if not on and not next_on:
            full.append(((x + u) / 2, (y + v) / 2, True))
    first = next(i for i, (_, _, on) in enumerate(full) if on)
    (x, y, before), *rest = *full[first:], *full[: first + 1]
    path = f"M{x:g} {-y:g}"
    for x, y, on in rest:
        path += f"{'Q' if not on else 'L' if before else ' '}{x:g} {-y:g}"
        before = on
    return path + "Z"


font = cache(Font)  # of a path: each file is parsed once


@cache
def _whole_font() -> Path | None:
    """The font of the package zhplot for rare characters; not imported, since that changes user settings."""
    package = importlib.util.find_spec("zhplot")
    folders = package.submodule_search_locations if package else None
    return next((path for folder in folders or () for path in Path(folder).glob("fonts/*-Regular.ttf")), None)


def has_chinese(text: str) -> bool:
    """Whether the text has Chinese characters, kana or their punctuation."""
    return CJK.search(text) is not None


def is_rare(letter: str) -> bool:
    """Whether our fonts lack this character."""
    return not any(ord(letter) in font(path).glyphs for path in (LATIN, CHINESE))


def chinese_subset(text: str) -> bytes:
    """A WOFF font with the Chinese characters of the text only: a few hundred bytes per character."""
    letters = "".join(letter for letter in text if has_chinese(letter))
    whole = _whole_font() if any(map(is_rare, letters)) else None
    return font(whole or CHINESE).woff(letters)


class Glyph(NamedTuple):
    """A glyph in a line of text; `x` is in units of the font size."""

    file: Path
    number: int
    x: float

    @property
    def name(self) -> str:
        return f"{self.file.stem}-{self.number}"

    def path(self, unit: int) -> str:
        """An SVG `<path>` with the glyph's name as id, scaled to `unit` per em."""
        of = font(self.file)
        scale = f' transform="scale({unit / of.unit:g})"' if of.unit != unit else ""
        return f'<path id="{self.name}" d="{of.outline(self.number)}"{scale}/>'


@lru_cache(maxsize=2**14)
def lay(text: str, bold: bool = False) -> tuple[list[Glyph], float]:
    """The glyphs of a line and its width, in units of the font size."""
    placed: list[Glyph] = []
    x = 0.0
    for letter in unicodedata.normalize("NFC", text):
        file, number = _find(letter, bold)
        of = font(file)
        if placed and placed[-1].file == file:
            x += of.kerning.get((placed[-1].number, number), 0) / of.unit
        placed.append(Glyph(file, number, x))
        x += of.advance(number) / of.unit
    return placed, x


def _find(letter: str, bold: bool) -> tuple[Path, int]:
    """The first font that has this character, and its glyph; a box if none has."""
    for path in ((BOLD,) if bold else ()) + (LATIN, CHINESE, _whole_font()):
        if path is not None and ord(letter) in font(path).glyphs:
            return path, font(path).glyphs[ord(letter)]
    hint = '; more of them come with the extra "chinese"' if has_chinese(letter) and not _whole_font() else ""
    warnings.warn(f"No font has a glyph for {letter!r}: it is drawn as a box{hint}.", stacklevel=2)
    return LATIN, 0
