"""The catalogue: one row of strings for every mechanism, model and task.

A mechanism's row is written above its class, in its own file:

    @card("score", "dot", title="Dot product", authors="Luong, Pham, Manning", year=2015, link=…, sentence=…)
    class DotScore(ProductScore): …

The command line, the documentation and the law tests iterate over the rows. A released key keeps its
meaning; a changed mechanism gets a new key. Other packages add rows through entry points of the
group `regard`: each names a module, which is imported when the rows are first requested.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Literal, TypeVar, get_args

from regard.errors import ConfigError
from regard.renamed import ENTRIES

Kind = Literal["score", "normalizer", "window", "layer", "memory", "kernel", "model", "task"]
T = TypeVar("T", bound=Callable[..., Any])

ROWS: dict[tuple[Kind, str], "Row"] = {}  # in order of declaration, by kind and key
CONTENTS: dict[str, int] = {}  # modules named by `contents`, and their order
COMPANIONS: list[Callable[[], None]] = []  # import what depends on the algebra, such as the kernels


@dataclass(frozen=True)
class Row:
    """One catalogue entry: where the idea comes from, and where its code is."""

    key: str
    kind: Kind
    path: str  # module:name
    title: str
    authors: str
    year: int
    link: str
    sentence: str
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)  # what this key passes to `build`

    @property
    def module(self) -> str:
        return self.path.partition(":")[0]

    @property
    def file(self) -> str:
        return self.module.replace(".", "/") + ".py"

    def load(self) -> Any:
        """Import and return the class or function under the card."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)


def card(
    kind: Kind,
    key: str,
    *,
    title: str,
    authors: str,
    year: int,
    link: str = "",
    sentence: str,
    **options: Any,
) -> Callable[[T], T]:
    """Decorator that enters a class or function into the catalogue.

    A class may have several cards, as the dot product does: `options` are passed to its `build`.
    """

    def enter(found: T) -> T:
        row = Row(
            key, kind, f"{found.__module__}:{found.__name__}", title, authors, year, link, sentence, options
        )
        known = ROWS.setdefault((kind, key), row)
        if known.path != row.path:
            raise ConfigError(
                f"catalog: {kind} {key!r} has the card of {row.path} and that of {known.path}; expected one. "
                "Choose another key."
            )
        return found

    return enter


def contents(package: str, modules: str) -> None:
    """Name the modules of a package that have cards, in order; they are imported when rows are requested."""
    for module in modules.split():
        CONTENTS.setdefault(f"{package}.{module}", len(CONTENTS))


def complete() -> None:
    """Run once the algebra has been imported."""
    for companion in COMPANIONS:
        companion()


@cache
def _gather() -> None:
    for module in CONTENTS:
        import_module(module)
    for point in entry_points(group="regard"):
        import_module(point.value)


def rows(kind: Kind | None = None) -> tuple[Row, ...]:
    """All rows, or those of one kind, in the order of the catalogue."""
    _gather()
    kinds = get_args(Kind) if kind is None else (kind,)
    found = [row for row in ROWS.values() if row.kind in kinds]
    return tuple(sorted(found, key=lambda row: (kinds.index(row.kind), CONTENTS.get(row.module, -1))))


def names(kind: Kind) -> tuple[str, ...]:
    """The keys of one kind."""
    return tuple(row.key for row in rows(kind))


def find(key: str, kind: Kind, *, owner: str = "catalog") -> Row:
    """The row with this key; for an unknown key the error suggests the nearest known one."""
    if (kind, key) not in ROWS:
        _gather()
    if (kind, key) not in ROWS:
        raise ConfigError(f"{owner}: unknown {kind} {key!r}; {suggest(key, names(kind))}")
    return ROWS[kind, key]


def suggest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """The end of an error message: the new name of a renamed key, the nearest known word, or all of them."""
    for old, new in ((old.partition(":")[2], new.partition(":")[2]) for old, new in ENTRIES.items()):
        if word == old and new in known:
            return f"it is now {new!r}."
    near = nearest(word, known)
    return f"did you mean {near!r}?" if near else f"known: {', '.join(known)}."


def nearest(word: str, known: tuple[str, ...] | list[str]) -> str | None:
    """The known word closest to this one, ignoring case; None if none is close."""
    lowered = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), lowered, n=1)
    return lowered[near[0]] if near else None
