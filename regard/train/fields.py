"""Strict reading of settings: names and types are those of a dataclass, and every mistake gets its remedy."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.catalog import suggest
from regard.errors import ConfigError

LARGEST = 10**18  # what C can count

_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    NoneType: "nothing",
}


def names(settings: type[Any]) -> tuple[str, ...]:
    """The fields of a dataclass that its constructor takes."""
    return tuple(field.name for field in fields(settings) if field.init)


def check(owner: str, table: str, settings: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, converted to the types of the dataclass; raise ConfigError on the first that cannot be."""
    hints = get_type_hints(settings)
    known = [f"{table}.{name}" for name in names(settings)]
    checked = {}
    for name, value in values.items():
        key = f"{table}.{name}"
        if key not in known:
            raise ConfigError(f"{owner}: unknown key {key!r}; {suggest(key, known)}")
        checked[name] = convert(owner, key, hints[name], value)
    return checked


def with_defaults(settings: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, and the defaults of the fields that were not given, in the order of the dataclass."""
    full: dict[str, Any] = {}
    for field in fields(settings):
        if field.name in values:
            full[field.name] = values[field.name]
        elif field.init and field.default is not MISSING:
            full[field.name] = field.default
        elif field.init and field.default_factory is not MISSING:
            full[field.name] = field.default_factory()
    return full


def convert(owner: str, key: str, hint: Any, value: Any) -> Any:
    """One value as the type its field has."""
    fitted = _fit(hint, value)
    if isinstance(fitted, int) and abs(fitted) >= LARGEST:
        raise ConfigError(f"{owner}: '{key}' has more than 18 digits; expected a smaller integer.")
    if fitted is _WRONG:
        raise ConfigError(f"{owner}: '{key}' is {value!r}; expected {_words(hint)}.")
    return fitted


class _Wrong:
    """What a value becomes that does not fit: None and False are values of their own."""


_WRONG = _Wrong()


def _fit(hint: Any, value: Any) -> Any:
    origin = get_origin(hint)
    if origin is Literal:
        return value if value in get_args(hint) else _WRONG
    if origin in (Union, UnionType):
        fits = (_fit(option, value) for option in get_args(hint))
        return next((fitted for fitted in fits if fitted is not _WRONG), _WRONG)
    if origin in (tuple, list):
        return _fit_list(origin, get_args(hint), value)
    return _fit_plain(hint, value)


def _fit_list(kind: type[Any], items: tuple[Any, ...], value: Any) -> Any:
    if not isinstance(value, list | tuple):
        return _WRONG
    if kind is list or (len(items) == 2 and items[1] is Ellipsis):
        items = (items[0],) * len(value)
    if len(items) != len(value):
        return _WRONG
    fitted = [_fit(hint, item) for hint, item in zip(items, value, strict=True)]
    return _WRONG if _WRONG in fitted else kind(fitted)


def _fit_plain(hint: Any, value: Any) -> Any:
    if hint is Any:
        return value
    if isinstance(value, bool):  # a bool is an int to Python, but not to the person who wrote the file
        return value if hint is bool else _WRONG
    if hint is float and isinstance(value, int):
        return float(value)
    return value if isinstance(hint, type) and isinstance(value, hint) else _WRONG


def _words(hint: Any) -> str:
    origin, options = get_origin(hint), get_args(hint)
    if origin is Literal:
        return "one of " + ", ".join(repr(option) for option in options)
    if origin in (Union, UnionType):
        return " or ".join(_words(option) for option in options if option is not NoneType)
    if origin is list or (origin is tuple and options[1:] == (Ellipsis,)):
        return f"a list, each item {_words(options[0])}"
    if origin is tuple:
        return "a list of " + str(len(options)) + ": " + ", ".join(_words(option) for option in options)
    return _WORDS.get(hint, str(getattr(hint, "__name__", hint)))
