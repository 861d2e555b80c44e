"""What the README promises, in both languages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = ("README.md", "README.zh.md")
READMES = {name: (ROOT / name).read_text(encoding="utf-8") for name in NAMES}
README, CHINESE = READMES.values()
LONGEST = 80  # characters of a table's cell, links' addresses not counted


def blocks(text):
    """(language, code) of every code block, without comments and the space before them."""
    found = re.findall(r"```(\w+)\n(.*?)```", text, re.DOTALL)
    return [(language, re.sub(r"\s*#.*", "", code)) for language, code in found]


def rows(text):
    """The cells of every line of a table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tables_are_those_of_the_results():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generator" / "tables.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_both_languages_have_the_same_code_figures_and_links():
    assert blocks(README) == blocks(CHINESE)
    figures = [
        [[cell for cell in row if re.fullmatch(r"[\d.–]+( %)?", cell)] for row in rows(text)]
        for text in READMES.values()
    ]
    assert figures[0] == figures[1]
    assert len(figures[0]) > 20
    linked = [
        set(re.findall(r"\]\((docs/(?:pictures|papers|how-to|explanation)/[^)]+)\)", text))
        for text in READMES.values()
    ]
    assert linked[0] == linked[1]


@pytest.mark.parametrize("name", NAMES)
def test_every_cell_can_be_read_at_a_glance(name):
    cells = [re.sub(r"\]\([^)]*\)", "]", cell) for row in rows(READMES[name]) for cell in row]
    assert max(map(len, cells)) <= LONGEST


def test_every_system_of_the_table_links_to_its_papers_page(tables):
    from regard import catalog

    shown = {figure.model: figure.page for figure in tables.readme.SYSTEMS}
    assert set(shown) <= set(catalog.names("model"))
    pages = {path.stem for path in (ROOT / "docs" / "papers").glob("*.md")} - {"index"}
    assert set(shown.values()) == pages


def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", README, re.DOTALL):
        exec(example, scope)
    assert scope["apple"].text == "Elle mange une pomme verte."
    assert (tmp_path / "apple.png").stat().st_size > 1000
    assert len(scope["trace"]) == 2
    assert "layers.1.self_attn" in capsys.readouterr().out
    result = scope["result"]
    assert result.context.shape == (8, 1, 512)
    assert result.weights.shape == (8, 1, 30)


@pytest.mark.parametrize("name", NAMES)
def test_every_command_it_names_exists(name):
    from regard.cli.main import COMMANDS

    known = set(COMMANDS)
    named = set(re.findall(r"^regard (\w+)", READMES[name], re.MULTILINE)) | set(
        re.findall(r"`regard (\w+)", READMES[name])
    )
    assert named
    assert named <= known


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_it_names_exists(name):
    from regard.train.config import recipe_names

    named = set(re.findall(r"regard train (\w[\w-]*)", READMES[name]))
    assert named
    assert named <= set(recipe_names())


@pytest.mark.parametrize("name", NAMES)
def test_every_file_it_links_to_is_there(name):
    links = re.findall(r"\]\((?!http)([^)#]+)", READMES[name])
    assert not [link for link in links if not (ROOT / link).exists()]


@pytest.mark.parametrize("name", NAMES)
def test_the_two_commands_come_first(name):
    text = READMES[name]
    assert text.index("make demo") < text.index("make test") < 1500


def test_every_recipe_says_paper_expectation_and_time():
    for path in sorted((ROOT / "regard" / "recipes").glob("*.toml")):
        header = path.read_text(encoding="utf-8").split("\n\n")[0]
        assert all(f"# {word}" in header for word in ("paper", "expected", "time")), path.name
