"""Writes TOML: tables of strings, numbers, booleans and lists, which is all that a configuration has."""

from collections.abc import Mapping, Sequence
from typing import Any

from regard.errors import ConfigError

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def dumps(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """The tables as TOML text; a dot in a key begins an inner table.

    A value of None is left out: TOML has no word for it.
    """
    split: dict[str, dict[str, Any]] = {}
    for table, values in tables.items():
        split[table] = {}
        for name, value in values.items():
            inner, dot, key = name.rpartition(".")
            split.setdefault(f"{table}{dot}{inner}", {})[key] = value
    return "\n".join(_table(name, values) for name, values in split.items())


def _table(name: str, values: Mapping[str, Any]) -> str:
    lines = [f"{_key(key)} = {_value(key, value)}" for key, value in values.items() if value is not None]
    return "\n".join([f"[{name}]", *lines]) + "\n"


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("-", "_").isidentifier()
    return key if bare else _string(key)


def _value(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(key, item) for item in value) + "]"
    raise ConfigError(
        f"config: `{key}` has type {type(value).__name__}; expected a string, number, boolean or list."
    )


def _string(text: str) -> str:
    escaped = "".join(_ESCAPES.get(c, c if c.isprintable() else f"\\U{ord(c):08x}") for c in text)
    return f'"{escaped}"'
