"""Strict reading of settings into dataclass fields; every error suggests a fix.

A field that is itself a dataclass is an inner table: its keys are dotted, as in `attention.score`.
"""

from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass, replace
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.catalog import suggest
from regard.errors import ConfigError
from regard.renamed import new_entry, new_key

LARGEST = 10**18  # integers must fit into int64

_WORDS: dict[Any, str] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    bool: "true or false",
    NoneType: "nothing",
    None: "nothing",
}


def keys(settings: type[Any]) -> dict[str, Any]:
    """The keys that a table of these settings may have, with their types."""
    hints = get_type_hints(settings)
    found: dict[str, Any] = {}
    for field in _settable(settings):
        hint = hints[field.name]
        if isinstance(hint, type) and is_dataclass(hint):
            allowed = field.metadata.get("allowed", {})
            inner = {
                name: Literal[allowed[name]] if name in allowed else kind for name, kind in keys(hint).items()
            }
            found |= {f"{field.name}.{name}": kind for name, kind in inner.items()}
        else:
            found[field.name] = hint
    return found


def _settable(settings: type[Any]) -> list[Any]:
    """The fields that a recipe may set."""
    return [field for field in fields(settings) if field.init and field.metadata.get("recipe", True)]


def flatten(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten a table: inner tables and dataclasses become dotted keys."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        inner = vars(value) if is_dataclass(value) else value
        if isinstance(inner, Mapping):
            flat |= {f"{name}.{key}": item for key, item in flatten(inner).items()}
        else:
            flat[name] = value
    return flat


def check(owner: str, table: str, settings: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert the values to the field types; raise ConfigError on the first that does not fit."""
    known = {f"{table}.{name}": hint for name, hint in keys(settings).items()}
    checked = {}
    for name, value in values.items():
        key = f"{table}.{name}"
        if new := new_key(key, known):
            raise ConfigError(f"{owner}: `{key}` is now `{new}`.")
        if key not in known:
            raise ConfigError(f"{owner}: unknown key {key!r}; {suggest(key, list(known))}")
        if new := new_entry(name.rpartition(".")[2], value):
            raise ConfigError(f"{owner}: '{key}' is {value!r}, which is now {new!r}.")
        checked[name] = convert(owner, key, known[key], value)
    return checked


def with_defaults(settings: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, with defaults for the missing fields, in the order of the dataclass."""
    full: dict[str, Any] = {}
    for field in _settable(settings):
        default: Any = field.default
        start = f"{field.name}."
        inner = {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}
        if field.name in values:
            full[field.name] = values[field.name]
        elif default is not MISSING:
            full[field.name] = replace(default, **inner) if inner else default
        elif field.default_factory is not MISSING:
            full[field.name] = field.default_factory()
    return full


def convert(owner: str, key: str, hint: Any, value: Any) -> Any:
    """Convert one value to the type of its field."""
    fitted = _fit(hint, value)
    if isinstance(fitted, int) and abs(fitted) >= LARGEST:
        raise ConfigError(f"{owner}: '{key}' has more than 18 digits; expected a smaller integer.")
    if fitted is _WRONG:
        raise ConfigError(f"{owner}: '{key}' is {value!r}; expected {_words(hint)}.")
    return fitted


_WRONG = object()  # result of _fit for a value that does not fit; None and False are valid values


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
    if isinstance(value, bool):  # in Python a bool is an int; in the file it is not
        return value if hint is bool else _WRONG
    if hint is float and isinstance(value, int):
        return float(value)
    return value if isinstance(hint, type) and isinstance(value, hint) else _WRONG


def _words(hint: Any) -> str:
    origin, options = get_origin(hint), get_args(hint)
    if origin is Literal:
        words = [_WORDS.get(option, repr(option)) for option in options]
        return f"one of {', '.join(words)}" if len(words) > 1 else words[0]
    if origin in (Union, UnionType):
        return " or ".join(_words(option) for option in options if option is not NoneType)
    if origin is list or (origin is tuple and options[1:] == (Ellipsis,)):
        return f"a list, each item {_words(options[0])}"
    if origin is tuple:
        return "a list of " + str(len(options)) + ": " + ", ".join(_words(option) for option in options)
    return _WORDS.get(hint, str(getattr(hint, "__name__", hint)))
