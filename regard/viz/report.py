"""A report: one self-contained HTML page that makes no requests.

Weights are stored as bytes, not text: a 60 × 60 alignment takes 5 kB. All text is escaped; pictures are data
URIs in `<img>`, where scripts inside an SVG cannot run; the page's content policy forbids all requests.
"""

import base64
import difflib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from regard.errors import DataError, ShapeError
from regard.viz.files import check_ending, write_page
from regard.viz.letters import chinese_subset, has_chinese
from regard.viz.weights import Array, Weights, check_links, check_weights, peak
from regard.web.bundle import as_json, bundle
from regard.web.document import document
from regard.web.matrix import wire

STYLE = "\n" + (Path(__file__).parent / "page.css").read_text(encoding="utf-8")

Cell = str | int | float | bool | None

_NUMBER = re.compile(r"[-+−±]?[\d.,\u2009 ]*\d\s?([kMG]?i?B?|%|×|ms|s|min|h)?(\s?±\s?[\d.]+(\s?%)?)?")


@dataclass(frozen=True)
class TextSection:
    """Paragraphs, separated by blank lines."""

    title: str
    text: str


@dataclass(frozen=True)
class TableSection:
    """A table; numeric columns are right-aligned, with as many decimals as the column needs."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    caption: str = ""


@dataclass(frozen=True)
class FigureSection:
    """A PNG or SVG file, or its bytes; `alt` describes it in words."""

    title: str
    image: str | Path | bytes
    alt: str
    caption: str = ""


@dataclass(frozen=True)
class AlignmentSection:
    """Interactive weights (T, S) of one sentence pair; `gold` links are (source, target) positions."""

    title: str
    weights: Weights
    source: Sequence[str]
    target: Sequence[str]
    caption: str = ""
    gold: Iterable[tuple[int, int]] = ()


@dataclass(frozen=True)
class TranslationSection:
    """Triples (source, output, reference); words that differ between output and reference are marked."""

    title: str
    rows: Sequence[tuple[str, str, str]]
    caption: str = ""


Section = TextSection | TableSection | FigureSection | AlignmentSection | TranslationSection


def write_report(path: str | Path, *, title: str, summary: str, sections: Sequence[Section]) -> Path:
    """Write the page, creating its folder if necessary; a failure leaves the old file."""
    path = check_ending("write_report", path, (".html", ".htm"))
    return write_page(path, render_report(title=title, summary=summary, sections=sections))


def render_report(*, title: str, summary: str, sections: Sequence[Section]) -> str:
    """The page as HTML."""
    bodies = [_section(i, section) for i, section in enumerate(sections, start=1)]
    font = _font("".join([title, summary, *bodies]))
    views = any(isinstance(section, AlignmentSection) for section in sections)
    return document(
        title=title,
        style=font + STYLE,
        body=[
            "<main>",
            f"<header><h1>{escape(title)}</h1>{_paragraphs(summary, 'summary')}</header>",
            _contents(sections),
            *bodies,
            "<footer>Made with regard.</footer>",
            "</main>",
            *([f"<script>{script()}</script>"] if views else []),
        ],
    )


def script() -> str:
    """The scripts from `regard/web`; they start a view for each alignment in the page."""
    return f"{{\n{bundle('report')}\nviews.report.start(document);\n}}"


def _font(text: str) -> str:
    """A font with the page's Chinese characters, for systems without any; empty if the page has none."""
    if not has_chinese(text):
        return ""
    data = base64.b64encode(chinese_subset(text)).decode("ascii")
    # with the range, this font (the first for Chinese) does not affect lines without Chinese
    return (
        '@font-face { font-family: "regard chinese"; unicode-range: U+2E80-9FFF, U+F900-FAFF, U+FF00-FFEF, '
        f"U+20000-3FFFF; src: url(data:font/woff;base64,{data}); }}"
    )


def _contents(sections: Sequence[Section]) -> str:
    """Links to the sections, if there are at least three."""
    named = [(i, section.title) for i, section in enumerate(sections, start=1) if section.title]
    if len(named) < 3:
        return ""
    links = "".join(f'<li><a href="#section-{i}">{escape(title)}</a></li>' for i, title in named)
    return f'<nav aria-label="Contents"><ol>{links}</ol></nav>'


def _section(index: int, section: Section) -> str:
    heading = f"<h2>{escape(section.title)}</h2>" if section.title else ""
    return f'<section id="section-{index}">{heading}\n{_body(section)}\n</section>'


def _body(section: Section) -> str:
    match section:
        case TextSection():
            return _paragraphs(section.text)
        case TableSection():
            return _table(section)
        case FigureSection():
            return _figure(section)
        case AlignmentSection():
            return _alignment(section)
        case TranslationSection():
            return _translations(section)


def _paragraphs(text: str, kind: str = "") -> str:
    attribute = f' class="{kind}"' if kind else ""
    parts = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return "\n".join(f"<p{attribute}>{escape(part)}</p>" for part in parts)


def _caption(text: str) -> str:
    return f"<figcaption>{escape(text)}</figcaption>" if text else ""


def _table(section: TableSection) -> str:
    width = len(section.header)
    for i, row in enumerate(section.rows):
        if len(row) != width:
            raise ShapeError(
                f"TableSection: row {i} of '{section.title}' has {len(row)} cells; "
                f"expected {width}, as many as the header."
            )
    columns = [_column([row[j] for row in section.rows]) for j in range(width)]
    numeric = [any(cells) and all(_is_number(cell) for cell in cells if cell) for cells in columns]
    kinds = [' class="number"' if is_number else "" for is_number in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(section.header, kinds, strict=True)
    )
    rows = []
    for cells in zip(*columns, strict=True):
        inner = "".join(f"<td{kind}>{escape(cell)}</td>" for cell, kind in zip(cells, kinds, strict=True))
        rows.append(f"<tr>{inner}</tr>")
    body = "\n".join(rows)
    table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table>"
    return f'<figure><div class="scroll">{table}</div>{_caption(section.caption)}</figure>'


def _column(cells: Sequence[Cell]) -> list[str]:
    """The cells as text; floats share the number of decimals, at most four."""
    floats = [cell for cell in cells if isinstance(cell, float) and math.isfinite(cell)]
    texts = [f"{number:.4f}".rstrip("0") for number in floats]
    decimals = max((len(text.partition(".")[2]) for text in texts), default=0)
    return [_cell(cell, decimals) for cell in cells]


def _cell(cell: Cell, decimals: int) -> str:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.{decimals}f}".replace("-", "−")
    return str(cell)


def _is_number(text: str) -> bool:
    return text == "–" or _NUMBER.fullmatch(text.strip()) is not None


def _figure(section: FigureSection) -> str:
    if isinstance(section.image, bytes):
        data = section.image
    elif (path := Path(section.image)).is_file():
        data = path.read_bytes()
    else:
        raise DataError(
            f"FigureSection: `image` has the path {path}, which is not a file; expected a PNG or SVG."
        )
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        kind = "png"
    elif b"<svg" in data[:2000]:
        kind = "svg+xml"
    else:
        raise DataError(
            f"FigureSection: `image` of '{section.title}' is neither a PNG nor an SVG; "
            "expected the bytes of one of them."
        )
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode('ascii')}"
    image = f'<img src="{source}" alt="{escape(section.alt)}">'
    return f'<figure><div class="picture">{image}</div>{_caption(section.caption)}</figure>'


def _alignment(section: AlignmentSection) -> str:
    weights = check_weights("AlignmentSection", section.weights, section.source, section.target)
    links = check_links("AlignmentSection", section.gold, len(section.source), len(section.target))
    levels = (weights / peak(weights) * 255).round().clamp(0, 255).byte()
    data = {
        "matrix": wire(levels, peak(weights), compress=False),
        "rows": list(section.target),
        "columns": list(section.source),
        "marks": [[t, s] for s, t in links],
        "selected": _first(section.target, weights),
        "label": section.title,
    }
    key = ' <span class="key">gold link</span>' if links else ""
    caption = f"<figcaption>{escape(section.caption)}{key}</figcaption>" if section.caption or key else ""
    return "\n".join(
        [
            f'<figure><div class="alignment"><script type="application/json">{as_json(data)}</script></div>',
            '<noscript><p class="note">This view needs scripts, which are part of this page.</p></noscript>',
            f"{caption}</figure>",
        ]
    )


def _first(target: Sequence[str], weights: Array) -> int:
    """The target word shown initially: the one with the largest weight, preferring words to punctuation."""
    sure = weights.amax(1)
    return max(range(len(target)), key=lambda t: (any(map(str.isalnum, target[t])), sure[t]))


def _translations(section: TranslationSection) -> str:
    pairs = "\n".join(_pair(*row) for row in section.rows)
    marks = (
        '<mark class="differs">only in the output</mark> <mark class="missed">only in the reference</mark>'
    )
    legend = f"{escape(section.caption)} {marks}".strip()
    return f"<figure>{pairs}<figcaption>{legend}</figcaption></figure>"


def _pair(source: str, output: str, reference: str) -> str:
    left, right = _differences(output, reference)
    cells = ""
    for name, text, shown in (
        ("source", source, escape(source)),
        ("output", output, left),
        ("reference", reference, right),
    ):
        # browsers choose the variant of a Chinese character by language
        language = ' lang="zh-Hans"' if has_chinese(text) else ""
        cells += f"<dt>{name}</dt><dd{language}>{shown or '–'}</dd>"
    return f'<dl class="pair">{cells}</dl>'


def _differences(output: str, reference: str) -> tuple[str, str]:
    """Both texts as HTML; words that only one of them has are marked."""
    a, b = _tokens(output), _tokens(reference)
    matcher = difflib.SequenceMatcher(a=[word for _, word in a], b=[word for _, word in b], autojunk=False)
    left, right = [], []
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        left.append(_mark(a[a0:a1], "" if kind == "equal" else "differs"))
        right.append(_mark(b[b0:b1], "" if kind == "equal" else "missed"))
    return "".join(left).strip(), "".join(right).strip()


def _tokens(text: str) -> list[tuple[str, str]]:
    """Words with preceding space; Chinese is split by character."""
    return re.findall(r"(\s*)([\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+)", text)


def _mark(tokens: Sequence[tuple[str, str]], kind: str) -> str:
    if not tokens:
        return ""
    text = "".join(space + word for space, word in tokens)
    before = tokens[0][0]
    inner = escape(text[len(before) :])
    return f'{before}<mark class="{kind}">{inner}</mark>' if kind else before + inner
