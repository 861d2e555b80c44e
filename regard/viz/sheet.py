"""The canvas of all pictures: a page measured in inches, with text, shapes, shaded cells and a colour scale.

A page is an SVG whose unit is one pixel of the PNG, 1/200 inch; the PNG is rendered from the SVG.
"""

import base64
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from regard.tensor_bytes import as_bytes
from regard.viz import style
from regard.viz.files import check_ending, write
from regard.viz.letters import Glyph, lay
from regard.viz.weights import Array

Point = tuple[float, float]
Box = tuple[float, float, float, float]  # left, top, width, height

DPI = 200  # twice the resolution of a page at 100 %
TITLE, SMALL = 11.0, 8.0  # points
BAR = 0.09  # inches: width of a colour scale
DARK = 0.55  # shade from which text is white, by default
RISE = 0.36  # half the cap height in units of the font size; centres text vertically
UNIT = 2048  # units per font size in glyph paths
ANCHORS = {"left": 0.0, "center": 0.5, "right": 1.0}
DASHES = {"-": (), "--": (3.7, 1.6), ":": (1, 1.65), "-.": (6.4, 1.6, 1, 1.6)}  # in line widths
MARKERS: dict[str, Sequence[Point]] = {  # corners, for radius 1
    "o": (),  # a circle
    "s": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "^": ((0, -1), (1, 1), (-1, 1)),
    "v": ((0, 1), (-1, -1), (1, -1)),
    "D": ((0, -1.41), (1.41, 0), (0, 1.41), (-1.41, 0)),
    "P": tuple(
        (x * s / 3, y * s / 3)
        for s in (1, -1)
        for x, y in ((-1, -3), (1, -3), (1, -1), (3, -1), (3, 1), (1, 1))
    ),
    "X": tuple(
        (x * s / 2, y * s / 2)
        for s in (1, -1)
        for x, y in ((-1, -2), (0, -1), (1, -2), (2, -1), (1, 0), (2, 1))
    ),
}
UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # invalid in XML


class Sheet:
    """A page. Positions are inches from the top left corner; line widths and font sizes are points."""

    def __init__(self, width: float, height: float) -> None:
        # whole hundredths of an inch (two pixels), so that cells have equal sizes and sharp edges
        self.width, self.height = (math.ceil(round(side * 100, 6)) / 100 for side in (width, height))
        self._parts: list[str] = []
        self._glyphs: dict[str, Glyph] = {}

    def write(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: float,
        color: str = style.INK,
        ha: str = "left",
        middle: bool = False,
        turn: float = 0,
        bold: bool = False,
        kind: str | None = None,
    ) -> None:
        """Write text at baseline y (or centred on y), rotated by `turn` degrees; `kind` is its CSS class."""
        if not text:
            return
        glyphs, wide = lay(text, bold)
        scale, angle = size * DPI / 72, math.radians(turn)
        back, down = ANCHORS[ha] * wide * scale, RISE * scale if middle else 0.0
        left = x * DPI - back * math.cos(angle) + down * math.sin(angle)
        base = y * DPI + back * math.sin(angle) + down * math.cos(angle)
        turned = f" rotate({_number(-turn)})" if turn else ""
        place = f"translate({_number(left)} {_number(base)}){turned} scale({scale / UNIT:.6f})"
        self._glyphs |= {glyph.name: glyph for glyph in glyphs}
        inner = "".join(f'<use xlink:href="#{g.name}" x="{_number(g.x * UNIT)}"/>' for g in glyphs)
        said = escape(UNWRITABLE.sub("\ufffd", text))
        self._add("g", inner, fill=color, transform=place, class_=kind, aria_label=said)

    def draw(
        self,
        lines: Iterable[Sequence[Point]],
        *,
        edge: str | None = None,
        line: float = 0.0,
        fill: str = "none",
        opacity: float | None = None,
        closed: bool = False,
        dash: str = "-",
        cap: str = "butt",
        kind: str | None = None,
    ) -> None:
        """Draw polylines or polygons; if all sides are horizontal or vertical, they are snapped to pixels."""
        lines, thick = list(lines), line * DPI / 72 if edge else 0.0
        sharp = all(a == c or b == d for each in lines for (a, b), (c, d) in pairwise(each))
        thick = max(1, round(thick)) if sharp and edge else thick
        half = thick % 2 / 2
        ends = ([(round(c * DPI) + half if sharp else c * DPI for c in at) for at in each] for each in lines)
        path = "".join(
            "M" + "L".join(" ".join(map(_number, at)) for at in each) + "Z" * closed for each in ends
        )
        crisp = "crispEdges" if sharp and not edge else None  # avoids seams between neighbours when scaled
        look: dict[str, Any] = {"d": path, "fill": fill, "fill_opacity": opacity, "shape_rendering": crisp}
        if edge:
            dashes = " ".join(_number(each * thick) for each in DASHES[dash]) or None
            look |= {"stroke": edge, "stroke_width": thick, "stroke_dasharray": dashes}
            look |= {
                "stroke_linecap": "butt" if dashes else cap,
                "stroke_linejoin": "miter" if sharp else "round",
            }
        self._add("path", class_=kind, **look)

    def rect(
        self,
        box: Box,
        *,
        edge: str | None = None,
        line: float = 0.0,
        fill: str = "none",
        kind: str | None = None,
    ) -> None:
        """Draw a rectangle; its edge is centred on its sides."""
        self.draw([corners(box)], edge=edge, line=line, fill=fill, closed=True, kind=kind)

    def dot(self, at: Point, size: float, fill: str, *, edge: str, line: float, marker: str = "o") -> None:
        """Draw a marker `size` points wide."""
        (x, y), radius = at, size / 144
        if marker == "o":
            look: dict[str, Any] = {"fill": fill, "stroke": edge, "stroke_width": line * DPI / 72}
            self._add("circle", cx=x * DPI, cy=y * DPI, r=radius * DPI, **look, class_="dot")
        else:
            shape = [(x + u * radius, y + v * radius) for u, v in MARKERS[marker]]
            self.draw([shape], edge=edge, line=line, fill=fill, closed=True, kind="dot")

    def image(self, picture: Image.Image, box: Box, *, smooth: bool = False, kind: str | None = None) -> None:
        """Embed an image, resampled to the pixels of the page, so that every viewer shows the same."""
        left, top, right, bottom = (round(c * DPI) for at in corners(box)[::2] for c in at)
        how = Image.Resampling.BILINEAR if smooth else Image.Resampling.NEAREST
        file = BytesIO()
        picture.resize((max(1, right - left), max(1, bottom - top)), how).save(file, "png", optimize=True)
        data = f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
        look: dict[str, Any] = {"xlink:href": data, "image-rendering": "optimizeSpeed", "class": kind}
        self._add("image", x=left, y=top, width=right - left, height=bottom - top, **look)

    def shades(
        self,
        values: Array,
        box: Box,
        top: float,
        *,
        least: float = 0.0,
        shades: style.Shades = style.WEIGHTS,
        kind: str | None = None,
    ) -> None:
        """Draw a matrix in colours from `least` to `top`."""
        levels = ((values - least) / (top - least) * 256).clamp(0, 255).byte()
        picture = Image.frombytes("P", (levels.shape[1], levels.shape[0]), as_bytes(levels))
        picture.putpalette(bytes.fromhex("".join(shades).replace("#", "")))
        self.image(picture, box, kind=kind)

    def _add(self, tag: str, inner: str = "", **given: Any) -> None:
        look = {
            name.rstrip("_").replace("_", "-"): value for name, value in given.items() if value is not None
        }
        texts = (f'{name}="{_number(v) if isinstance(v, float) else v}"' for name, v in look.items())
        self._parts.append(f"<{tag} {' '.join(texts)}" + (f">{inner}</{tag}>" if inner else "/>"))

    def svg(self) -> str:
        """The page as SVG, with its physical size."""
        wide, high = round(self.width * DPI), round(self.height * DPI)
        names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        size = f'width="{self.width * 72:g}pt" height="{self.height * 72:g}pt" viewBox="0 0 {wide} {high}"'
        letters = "".join(self._glyphs[name].path(UNIT) for name in sorted(self._glyphs))
        first = ['<?xml version="1.0" encoding="utf-8"?>', f"<svg {names} {size}>", f"<defs>{letters}</defs>"]
        return "\n".join(
            [*first, f'<path fill="#ffffff" d="M0 0H{wide}V{high}H0Z"/>', *self._parts, "</svg>", ""]
        )

    def png(self) -> bytes:
        """The page as PNG."""
        import resvg_py

        drawn = resvg_py.svg_to_bytes(svg_string=self.svg(), dpi=DPI, skip_system_fonts=True)
        file = BytesIO()
        Image.open(BytesIO(bytes(drawn))).convert("RGB").save(file, "png", dpi=(DPI, DPI))
        return file.getvalue()

    def save(self, owner: str, path: str | Path) -> Path:
        """Write the page as PNG or SVG; `owner` names the caller in errors. Equal pages give equal bytes."""
        path = check_ending(owner, path)
        return write(path, self.png() if path.suffix.lower() == ".png" else self.svg().encode())


def _number(value: float) -> str:
    """Format with up to two decimals (a hundredth of a pixel)."""
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def corners(box: Box) -> list[Point]:
    """The corners of a box, clockwise from the top left."""
    x, y, wide, high = box
    return [(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)]


class Title(NamedTuple):
    """A wrapped title, `margin` inches from the left and top edges."""

    lines: list[str]
    margin: float
    leading: float  # line height in units of the font size

    @classmethod
    def fit(cls, text: str, limit: float, margin: float, leading: float = 1.3) -> "Title":
        """Wrap the title to lines of at most `limit` inches."""
        return cls(style.wrap(text, TITLE, limit), margin, leading)

    @property
    def height(self) -> float:
        return len(self.lines) * TITLE * self.leading / 72

    @property
    def width(self) -> float:
        return style.width(self.lines, TITLE)

    def write(self, sheet: Sheet) -> None:
        for number, line in enumerate(self.lines):
            sheet.write(
                self.margin, self.margin + (number + 0.8) * TITLE * self.leading / 72, line, size=TITLE
            )


def draw_cell(sheet: Sheet, box: Box, shade: float, *, line: float = 0.5, dark: float = DARK) -> str:
    """Fill a cell by its shade (0..1); returns the text colour for it, white from `dark` on."""
    sheet.rect(box, fill=style.WEIGHTS.at(shade), edge=style.GRID, line=line, kind="cell")
    return "#ffffff" if shade >= dark else style.INK


def draw_scale(
    sheet: Sheet, x: float, y: float, height: float, top: float, parts: Sequence[float], digits: int
) -> None:
    """Draw a framed colour scale from `top` down to 0, with numbers at these fractions of it."""
    sheet.shades(torch.linspace(1, 0, 256)[:, None], (x, y, BAR, height), 1.0, kind="scale")
    sheet.rect((x, y, BAR, height), edge=style.RULE, line=0.6)
    for part in parts:
        text, level = f"{part * top:.{digits}g}", y + height * (1 - part)
        sheet.write(x + BAR + 0.06, level, text, size=SMALL, color=style.QUIET, middle=True, kind="scale")
