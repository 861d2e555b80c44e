"""The command table; errors become one sentence and an exit status here, and nowhere else.

Exit status: 0 success, 2 bad input (one sentence on standard error, no traceback), 130 interrupted.
"""

import logging
import os
import re
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from inspect import Parameter, Signature, getdoc, signature
from typing import Annotated, Any, NoReturn, get_type_hints

import typer
from rich.markup import escape
from typer.core import TyperGroup

from regard import __version__
from regard.errors import RegardError

EXAMPLE = re.compile(r"(regard|echo|\w+=\S+ regard) ")  # the start of a paragraph of commands

# one module each (`list` is in list_.py), in the order of the help
NAMES = """
    demo models list prepare train evaluate compare translate dictionary export pack ask point caption sample
    show serve studio results bench
"""
COMMANDS = NAMES.split()


class Commands(TyperGroup):
    """Imports a command only when it is used, so that the studio can show its page before importing torch."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: dict[str, Any] = dict.fromkeys(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name in COMMANDS and self.commands[cmd_name] is None:
            function, alone = function_of(cmd_name), typer.Typer(**LOOK)
            # help texts contain brackets, which are not markup
            alone.command(cmd_name, help=escape(help_of(function)))(guarded(unfolded(function)))
            self.commands[cmd_name] = typer.main.get_command(alone)
        return super().get_command(ctx, cmd_name)


LOOK: dict[str, Any] = {
    "rich_markup_mode": "rich",
    "pretty_exceptions_enable": False,
    "add_completion": False,
}
app = typer.Typer(
    name="regard",
    cls=Commands,
    no_args_is_help=True,
    help="""Attention mechanisms from Bahdanau 2014 to SAGAN 2018: train, measure and look at them.

Start with `regard demo`, which trains two translators in a few minutes and draws their alignments.""",
    **LOOK,
)


def function_of(name: str) -> Callable[..., None]:
    """The function that implements a command."""
    module = import_module(f"regard.cli.{name}_" if name == "list" else f"regard.cli.{name}")
    function: Callable[..., None] = module.command
    return function


def guarded(function: Callable[..., None]) -> Callable[..., None]:
    """Wrap a command so that errors become sentences instead of a traceback or "Aborted!"."""

    @wraps(function)
    def command(*arguments: Any, **options: Any) -> None:
        try:
            function(*arguments, **options)
        except RegardError as error:
            _stop(str(error), 2)
        except KeyboardInterrupt as error:
            _stop(str(error) or "interrupted.", 130)
        except BrokenPipeError:
            # the reader closed the pipe; Python must not fail again when it flushes
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            _stop(f"{where}{(error.strerror or str(error)).lower()}.", 2)
        except RecursionError:
            _stop("a file is nested too deeply to be read.", 2)
        except (MemoryError, RuntimeError) as error:
            if not _lacks_memory(error):
                raise
            _stop("not enough memory; expected smaller sizes, batches or beams.", 2)

    return command


def unfolded(function: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that are dataclasses by one option per field."""
    hints = get_type_hints(function, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}

    @wraps(function)
    def command(**options: Any) -> None:
        for name, kind in groups.items():
            options[name] = kind(**{field.name: options.pop(field.name) for field in fields(kind)})
        function(**options)

    parameters: list[Parameter] = []
    for name, parameter in signature(function).parameters.items():
        parameters += signature(groups[name]).parameters.values() if name in groups else [parameter]
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in parameters]
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return command


def _lacks_memory(error: Exception) -> bool:
    """Whether memory ran out; on CPUs torch has no exception class for that."""
    import torch

    return isinstance(error, MemoryError | torch.OutOfMemoryError) or "can't allocate memory" in str(error)


def _stop(sentence: str, status: int) -> NoReturn:
    from regard.cli.common import complain

    complain(sentence)
    raise typer.Exit(status)


def help_of(function: Callable[..., None]) -> str:
    """The docstring, with prose joined into paragraphs for the terminal to wrap; examples stay as lines."""
    paragraphs = (getdoc(function) or "").split("\n\n")
    return "\n\n".join(part if EXAMPLE.match(part) else part.replace("\n", " ") for part in paragraphs)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"regard {__version__}")
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None: ...


class _ToStandardError(logging.Handler):
    """Prints log messages as plain lines, to the current standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line; slow steps without a progress bar are announced through the log."""
    log, handler = logging.getLogger("regard"), _ToStandardError()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        app()
    finally:  # restore the log for callers in Python
        log.removeHandler(handler)
        log.setLevel(before)
