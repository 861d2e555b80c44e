"""One look for every picture: palette, fonts, sizes, and the frame in which figures are made.

Figures are built from `matplotlib.figure.Figure` inside `look()`, which starts from matplotlib's defaults:
the user's own style cannot reach our pictures, and nothing of ours stays behind in theirs.
"""

import importlib.util
import re
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import matplotlib.style
from fontTools.subset import Options, Subsetter, load_font, save_font  # type: ignore[import-untyped]
from fontTools.ttLib import TTFont  # type: ignore[import-untyped]
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.text import Text

INK = "#1d232b"  # words and numbers
QUIET = "#66707c"  # captions, ticks
RULE = "#c9d0d8"  # frames
GRID = "#e9edf1"  # lines between cells
GOLD = "#d55e00"  # gold links; the strongest contrast to the blues for every kind of colour vision

# Okabe and Ito's colours, darkest first, so that the first two also differ when printed in grey
LINES = ("#0b5394", "#d55e00", "#009e73", "#a0528a", "#e69f00", "#56b4e9", "#4d4d4d")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

# white is zero; lightness falls evenly, so that the map also reads in grey
WEIGHTS = LinearSegmentedColormap.from_list(
    "regard", ["#ffffff", "#d9e9f6", "#a6cbe8", "#63a3d3", "#2a74b5", "#0f4a8a", "#08264f"]
)

DPI = 200  # twice the resolution of a page at 100 %
LATIN = "DejaVu Sans"  # comes with matplotlib: the same letters on every machine
CHINESE = (
    "Noto Sans SC Subset"  # ours: simplified characters, punctuation and kana; tools/make_font.py made it
)
RARE = "Noto Sans SC"  # the whole font, of the package zhplot: the extra `chinese`
FONT = Path(__file__).parent / "fonts" / "NotoSansSC-Subset.ttf"
LONGEST = 24  # characters of a label before it is shortened

_CJK = re.compile(
    "[\u2e80-\u303f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]"
)
_SIGNS = str.maketrans({"\n": "↵", "\r": "↵", "\t": "⇥"})
_lock = threading.RLock()  # matplotlib's settings are global; two threads must not draw at once

_SETTINGS = {
    "font.family": [LATIN],
    "font.size": 9.0,
    "text.color": INK,
    "text.parse_math": False,  # a price such as $5 is a word, not an equation
    "axes.edgecolor": RULE,
    "axes.labelcolor": QUIET,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.unicode_minus": True,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "svg.fonttype": "path",  # letters travel as outlines: no font is needed where the picture is shown
    "svg.hashsalt": "regard",
}


@contextmanager
def look(words: Iterable[str] = ()) -> Iterator[None]:
    """Draw inside this frame; `words` are what will be written, so that the right fonts are at hand."""
    families = font_families(words)
    with _lock, matplotlib.style.context(["default", {**_SETTINGS, "font.family": families}]):
        yield


def font_families(words: Iterable[str]) -> list[str]:
    """The Latin family; behind it the Chinese one if a word needs it, and the one with rare characters."""
    text = "".join(words)
    if not has_chinese(text):
        return [LATIN]
    _register(FONT)
    whole = _whole_font() if _is_rare(text) else None
    if whole is None:
        return [LATIN, CHINESE]
    _register(whole)
    return [LATIN, CHINESE, RARE]


def has_chinese(text: str) -> bool:
    """Whether any character is a Chinese one, or the kana and punctuation that go with them."""
    return _CJK.search(text) is not None


def chinese_subset(text: str) -> bytes:
    """A WOFF font with the Chinese characters of the text and nothing else: some hundred bytes each."""
    options = Options(flavor="woff", layout_features=[], hinting=False, name_IDs=[])
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=sorted({ord(letter) for letter in text if has_chinese(letter)}))
    file = BytesIO()
    font_file = (_whole_font() if _is_rare(text) else None) or FONT
    with load_font(str(font_file), options) as font:
        subsetter.subset(font)
        save_font(font, file, options)
    return file.getvalue()


def _is_rare(text: str) -> bool:
    """Whether the text has a Chinese character that our own font lacks."""
    return any(has_chinese(letter) and ord(letter) not in _written() for letter in set(text))


@lru_cache(maxsize=1)
def _written() -> frozenset[int]:
    with TTFont(FONT) as font:
        return frozenset(font.getBestCmap())


def _whole_font() -> Path | None:
    # the package is located but not imported: importing it would change the user's default font
    package = importlib.util.find_spec("zhplot")
    folders = package.submodule_search_locations if package else None
    fonts = [font for folder in folders or () for font in Path(folder).glob("fonts/NotoSansSC-Regular.*")]
    return fonts[0] if fonts else None


@lru_cache
def _register(font: Path) -> None:
    font_manager.fontManager.addfont(font)


def label(word: str) -> str:
    """The word as it is written beside a picture: one line, visible, not too long."""
    shown = word.translate(_SIGNS)
    if not shown.strip():
        return "␣"
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 8] + "…" + shown[-7:]


def measure(words: Iterable[str], size: float) -> list[tuple[float, float]]:
    """Width and height of each word in inches, written at `size` points; call inside `look()`."""
    canvas = FigureCanvasAgg(Figure(dpi=DPI))
    renderer = canvas.get_renderer()  # type: ignore[no-untyped-call]
    text = Text(fontsize=size, figure=canvas.figure)
    extents = []
    for word in words:
        text.set_text(word)
        box = text.get_window_extent(renderer)
        extents.append((box.width / DPI, box.height / DPI))
    return extents


def width(words: Iterable[str], size: float) -> float:
    """The widest of the words, in inches; 0 for none."""
    return max((w for w, _ in measure(words, size)), default=0.0)


def wrap(text: str, size: float, limit: float) -> list[str]:
    """Lines of at most `limit` inches; Chinese breaks between characters, other text between words."""
    lines: list[str] = []
    for piece in re.findall(rf"{_CJK.pattern}|[^\s\u2e80-\u9fff\uff00-\uffef]+\s*|\s+", text):
        if lines and width([(lines[-1] + piece).rstrip()], size) <= limit:
            lines[-1] += piece
        elif piece.strip():
            lines.append(piece)
    return [line.rstrip() for line in lines]
