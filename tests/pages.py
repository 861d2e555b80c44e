"""Parses a drawn page for tests: words with positions, shapes with colours."""

import base64
import io
import math
import re
from dataclasses import dataclass
from xml.etree import ElementTree

import numpy as np
from PIL import Image

from regard.viz.sheet import Sheet

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
Box = tuple[float, float, float, float]  # left, top, right, bottom, in pixels


@dataclass
class Word:
    """A text on a page."""

    text: str
    kind: str | None
    color: str
    x: float  # start of the baseline
    y: float
    turn: float  # degrees, counterclockwise
    ink: Box  # bounding box relative to that point, before rotation

    @property
    def box(self) -> Box:
        """Its bounding box on the page."""
        angle = math.radians(self.turn)
        corners = [(x, y) for x in self.ink[::2] for y in self.ink[1::2]]
        xs = [self.x + x * math.cos(angle) + y * math.sin(angle) for x, y in corners]
        ys = [self.y - x * math.sin(angle) + y * math.cos(angle) for x, y in corners]
        return min(xs), min(ys), max(xs), max(ys)

    @property
    def middle(self) -> tuple[float, float]:
        left, top, right, bottom = self.box
        return (left + right) / 2, (top + bottom) / 2


@dataclass
class Shape:
    """A path or circle on a page."""

    kind: str | None
    fill: str | None
    edge: str | None
    dash: str | None
    points: np.ndarray  # (n, 2) pixels; the centre of a circle


class Page:
    """The content of a Sheet, or of SVG text."""

    def __init__(self, drawn: Sheet | str) -> None:
        root = ElementTree.fromstring((drawn.svg() if isinstance(drawn, Sheet) else drawn).encode())
        self.width, self.height = map(float, root.attrib["viewBox"].split()[2:])
        self.root = root
        self.outlines = {path.attrib["id"]: _ink(path) for path in root.iterfind(f"{SVG}defs/{SVG}path")}

    def words(self, *kinds: str) -> list[Word]:
        found = [self._word(group) for group in self.root.iterfind(f"{SVG}g")]
        return [word for word in found if not kinds or word.kind in kinds]

    def shapes(self, *kinds: str) -> list[Shape]:
        found = []
        for element in self.root:
            look = element.attrib
            if element.tag == f"{SVG}path":
                points = (
                    np.array(re.findall(r"[-\d.]+", look["d"]), dtype=float).reshape(-1, 2)
                    if "H" not in look["d"]
                    else None
                )
            elif element.tag == f"{SVG}circle":
                points = np.array([[float(look["cx"]), float(look["cy"])]])
            else:
                continue
            if points is not None and (not kinds or look.get("class") in kinds):
                kind, fill, edge, dash = map(look.get, ("class", "fill", "stroke", "stroke-dasharray"))
                found.append(Shape(kind, fill, edge, dash, points))
        return found

    def images(self) -> dict[str | None, tuple[np.ndarray, Box]]:
        """Class -> the pixels of an image in the page, and its box."""
        found = {}
        for element in self.root.iterfind(f"{SVG}image"):
            data = base64.b64decode(element.attrib[LINK].partition("base64,")[2])
            x, y, wide, high = (float(element.attrib[name]) for name in ("x", "y", "width", "height"))
            pixels = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
            found[element.get("class")] = pixels, (x, y, x + wide, y + high)
        return found

    def _word(self, group: ElementTree.Element) -> Word:
        steps = dict(re.findall(r"(\w+)\(([^)]*)\)", group.attrib["transform"]))
        x, y = map(float, steps["translate"].split())
        scale = float(steps["scale"])
        boxes = []
        for use in group:
            ink, right = self.outlines[use.attrib[LINK][1:]], float(use.attrib["x"])
            if ink:
                boxes.append(
                    [scale * (ink[0] + right), scale * ink[1], scale * (ink[2] + right), scale * ink[3]]
                )
        array = np.array(boxes or [[0.0] * 4])
        ink = (*array[:, :2].min(0).tolist(), *array[:, 2:].max(0).tolist())
        turn = -float(steps.get("rotate", 0))
        return Word(group.attrib["aria-label"], group.get("class"), group.attrib["fill"], x, y, turn, ink)


def _ink(path: ElementTree.Element) -> Box | None:
    """The bounding box of an outline, in units of the font size."""
    points = np.array(re.findall(r"[-\d.]+", path.attrib["d"]), dtype=float).reshape(-1, 2)
    scale = float(re.findall(r"[\d.]+", path.get("transform", "scale(1)"))[0])
    return (*(points.min(0) * scale).tolist(), *(points.max(0) * scale).tolist()) if len(points) else None


def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes share more than an edge."""
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def pixels(sheet: Sheet) -> np.ndarray:
    """(H, W, 3) the page rendered as PNG."""
    return np.asarray(Image.open(io.BytesIO(sheet.png())).convert("RGB"))


def read(path: object) -> np.ndarray:
    """(H, W, 3) a picture file, from 0 to 1."""
    return np.asarray(Image.open(path).convert("RGB")) / 255.0
