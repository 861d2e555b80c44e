"""The reference: commands, recipe keys, recipes, results, models that ship, kernels, errors and the API."""

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

import typer
from catalogue import RESULTS, results_table
from records import ROOT, markdown, newest, notes, recorded

import regard
from regard import catalog, errors
from regard.attention.config import AttentionConfig
from regard.bench.choices import COLUMNS, choices, joined, rows
from regard.cli.main import app
from regard.decode.base import Decoding
from regard.evaluate.results import read_results
from regard.shipped.table import MODELS
from regard.systems.loading import SYSTEMS
from regard.train import fields as recipe_fields
from regard.train.config import TrainConfig, recipe_names, recipe_sentence


def pages() -> dict[str, str]:
    """All generated pages of the reference, by their paths."""
    return {
        "reference/commands.md": commands_page(),
        "reference/recipe-keys.md": recipe_keys_page(),
        "reference/recipes.md": recipes_page(),
        "reference/results.md": results_page(),
        "reference/models.md": models_page(),
        "reference/kernels.md": kernels_page(),
        "reference/errors.md": errors_page(),
        "reference/api.md": api_page(),
    }


# Commands ---------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options, from the Typer app."""
    group: Any = typer.main.get_command(app)
    about = "Every command, as `regard COMMAND --help` prints it. [How to use them](../how-to/commands.md)."
    parts = ["# Commands and options", about]
    context = typer.Context(group, info_name="regard")
    for name in group.list_commands(context):
        parts += _command(name, group.get_command(context, name))
    return "\n\n".join(parts) + "\n"


def _command(name: str, command: Any) -> list[str]:
    context = typer.Context(command, info_name=f"regard {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"## `regard {name}`", f"```text\nregard {name} {usage}\n```", *_help(command.help or "")]
    body = []
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        shown = parameter.opts + parameter.secondary_opts
        given = parameter.param_type_name == "argument"
        word = (parameter.metavar or parameter.name.upper()) if given else ", ".join(shown)
        default = (
            "" if parameter.required or parameter.default in (None, False, ()) else f"`{parameter.default}`"
        )
        about = _cell(getattr(parameter, "help", "") or "")
        body.append([f"`{_cell(word)}`", about, "required" if parameter.required else default])
    if body:
        parts.append(markdown(["argument or option", "meaning", "default"], body, sides="l"))
    return parts


def _help(text: str) -> list[str]:
    """The command's own words; lines that begin with `regard` are examples."""
    parts = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(text.replace("\b", "").replace("\f", ""))):
        lines = paragraph.strip().splitlines()
        example = bool(lines) and re.match(r"\s*(\.venv|regard|echo|cat|python)\b", lines[0]) is not None
        parts.append(f"```text\n{paragraph}\n```" if example else paragraph)
    return parts


def _cell(text: str) -> str:
    return (
        " ".join(re.sub(r"\[/?(bold|dim|italic)\]", "", text).split())
        .replace("|", "\\|")
        .replace("<", "&lt;")
    )


# Recipes ----------------------------------------------------------------------------------------------------


def recipe_keys_page() -> str:
    """The keys of every table of a recipe, with type, default and meaning, from the dataclasses."""
    parts = [
        "# Keys of a recipe",
        "A recipe is a TOML file with four tables. `[model]` and `[task]` have a `name` and the keys of what "
        "it names; `--set table.key=value` changes one for a run.",
        "## `[train]`",
        keys_table(TrainConfig),
        "## `[decode]`",
        keys_table(Decoding),
        "## `[model.attention]`",
        "A model that has this table has the defaults of its paper in it.",
        keys_table(AttentionConfig),
    ]
    kinds: tuple[tuple[catalog.Kind, str, str], ...] = (
        ("model", "Config", "model"),
        ("task", "Settings", "task"),
    )
    for kind, attribute, table in kinds:
        for row in catalog.rows(kind):
            settings = getattr(row.load(), attribute, None)
            if settings is not None and is_dataclass(settings):
                parts += [
                    f'## `[{table}]` `name = "{row.key}"`',
                    f"[{row.title}](catalogue/{kind}/{row.key}.md).",
                ]
                parts.append(keys_table(settings))
    return "\n\n".join(parts) + "\n"


def keys_table(settings: type[Any]) -> str:
    """Key, type, default and the comment beside the field."""
    hints, comments = get_type_hints(settings), field_comments(settings)
    allowed = recipe_fields.keys(settings)
    body = []
    for field in fields(settings):
        if field.name not in allowed:  # set by the task, or an inner table
            continue
        default: Any = field.default
        if default is MISSING:
            default = field.default_factory() if field.default_factory is not MISSING else None
        shown = "set by the task" if field.default is MISSING and default is None else f"`{_toml(default)}`"
        body.append([f"`{field.name}`", _type(hints[field.name]), shown, _cell(comments.get(field.name, ""))])
    return (
        markdown(["key", "type", "default", "meaning"], body, sides="l")
        if body
        else "It has no keys of its own."
    )


def _type(hint: Any) -> str:
    return recipe_fields._words(hint).replace("|", "\\|")


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(list(value)) if isinstance(value, tuple) else "" if value is None else str(value)


def field_comments(settings: type[Any]) -> dict[str, str]:
    """What stands behind each field of a dataclass in its source, those of its bases too."""
    found: dict[str, str] = {}
    for owner in reversed(settings.__mro__):
        if is_dataclass(owner):
            lines = inspect.getsource(owner)
            found |= dict(re.findall(r"^    (\w+): [^#\n]*#\s*(.+)$", lines, re.MULTILINE))
    return found


def recipes_page() -> str:
    """How to use a recipe; and what each does and how long it takes, from its own first lines."""
    about = (
        "`regard train NAME` trains one; each file says the paper, what to expect and how long it takes. "
        "`--set model.hidden=64` changes a setting, your own `.toml` file takes the place of a name."
    )
    body = []
    for name in recipe_names():
        text = (ROOT / "regard" / "recipes" / f"{name}.toml").read_text(encoding="utf-8")
        [duration] = [
            line.removeprefix("# time").strip() for line in text.splitlines() if line.startswith("# time")
        ]
        body.append([f"`{name}`", recipe_sentence(name), duration])
    return f"# Recipes\n\n{about}\n\n{markdown(['recipe', 'what', 'time'], body, sides='l')}\n"


# Results, models, kernels -----------------------------------------------------------------------------------


def results_page() -> str:
    """Everything that was measured, with what the paper has beside it."""
    found = newest(read_results(RESULTS))
    return "\n".join(
        [
            "# Results",
            "",
            "Every number was measured by the recipe or benchmark it names; the files lie in `results/`.",
            "",
            results_table(found),
            "",
            "Where a paper's number stands beside ours, the notes say how far the two can be compared:",
            "",
            *(f"- {note}" for note in notes(found)),
            "",
        ]
    )


def models_page() -> str:
    """The models that ship."""
    about = (
        "These come with the package: `regard.load(NAME)` in Python ([how](python.md)), and every command "
        "takes their names where it takes a run folder. `regard models` prints them with size and figure."
    )
    body = [[f"`{m.name}`", m.sentence, f"`{m.recipe}`", m.data, m.limits] for m in MODELS]
    table = markdown(["name", "what it does", "recipe", "data", "limits"], body, sides="l")
    return f"# Trained models\n\n{about}\n\n{table}\n"


def kernels_page() -> str:
    """Which kernel runs each mechanism: by device, forward, with gradients, with weights kept."""
    about = (
        "Which kernel runs which mechanism, as the dispatcher answered when this page was built. *Many* "
        "queries are 64, *thousands* 8,192; *one* is a step of a recurrent decoder. If a fused kernel ran, "
        "`result.weights`, `result.rows` and `result.top` are computed when you ask for them. "
        "`Attention(…, keep_weights=True)` keeps them with the call, which may need another kernel. "
        "`regard bench --explain` prints this table on your machine, and `attention.explain(query, source)` "
        "answers for one call. [How the kernels work](../explanation/kernels.md)."
    )
    table = recorded(markdown(COLUMNS, rows(joined(choices())), sides="l"))
    return "\n\n".join(("# Kernels", about, table)) + "\n"


# Errors and API ---------------------------------------------------------------------------------------------


def errors_page() -> str:
    """The errors that a user may meet."""
    about = (
        "Every error of this package is a `regard.RegardError`. Its message names the owner, the argument, "
        "what it has, what was expected, and often a remedy. Commands print it as one sentence and exit "
        "with status 2; an interruption exits with 130."
    )
    found = [
        error
        for _, error in inspect.getmembers(errors, inspect.isclass)
        if issubclass(error, errors.RegardError) and error is not errors.RegardError
    ]
    body = [[f"`{e.__name__}`", f"`{e.__bases__[-1].__name__}`", (e.__doc__ or "").strip()] for e in found]
    return f"# Errors\n\n{about}\n\n{markdown(['error', 'is also a', 'raised when'], body, sides='l')}\n"


GROUPS: dict[str, tuple[str, ...]] = {
    "Attention": (
        "Attention",
        "MultiHead",
        "Source",
        "Mask",
        "AttentionResult",
        "History",
        "in_order",
        "attend",
    ),
    "Scores": tuple(name for name in regard.__all__ if name.endswith("Score")),
    "Normalizers": tuple(
        row.path.partition(":")[2]
        for row in catalog.rows("normalizer")
        if row.path.partition(":")[2] in regard.__all__
    ),
    "Windows": ("Everywhere", "LocalMonotonic", "LocalPredictive"),
    "Look inside": ("record", "Trace", "ablate", "show", "view", "Alignment"),
    "Trained models": ("load",),
}


def api_page() -> str:
    """What `import regard` gives, by autodoc; and the systems that `regard.load` returns."""
    parts = ["# API", "What `import regard` gives, by subject."]
    for title, names in GROUPS.items():
        parts.append(f"## {title}")
        parts += [_auto(getattr(regard, name), f"regard.{name}") for name in dict.fromkeys(names)]
    for system in dict.fromkeys(SYSTEMS.values()):
        parts.append(_auto(system, f"{system.__module__}.{system.__name__}"))
    return "\n\n".join(parts) + "\n"


def _auto(found: Any, path: str) -> str:
    kind = "autoclass" if inspect.isclass(found) else "autofunction"
    return f"```{{eval-rst}}\n.. {kind}:: {path}\n```"
