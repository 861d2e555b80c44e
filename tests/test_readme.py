"""What the README promises."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_tables_are_those_of_the_results():
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "generator" / "tables.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


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


def test_every_command_it_names_exists():
    from regard.cli.main import COMMANDS

    known = {name for name, _ in COMMANDS}
    named = set(re.findall(r"^regard (\w+)", README, re.MULTILINE)) | set(
        re.findall(r"`regard (\w+)", README)
    )
    assert named
    assert named <= known


def test_every_recipe_it_names_exists():
    from regard.train.config import recipe_names

    named = set(re.findall(r"regard train (\w[\w-]*)", README))
    assert named
    assert named <= set(recipe_names())


def test_every_file_it_links_to_is_there():
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    assert not [link for link in links if not (ROOT / link).exists()]


def test_the_two_commands_come_first():
    assert README.index("make demo") < README.index("make test") < 1500


def test_every_recipe_says_paper_expectation_and_time():
    for path in sorted((ROOT / "regard" / "recipes").glob("*.toml")):
        header = path.read_text(encoding="utf-8").split("\n\n")[0]
        assert all(f"# {word}" in header for word in ("paper", "expected", "time")), path.name
