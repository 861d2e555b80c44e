"""The page about Python: what it says about trained models runs."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[1] / "docs" / "reference" / "python.md").read_text(encoding="utf-8")


def test_the_lines_about_trained_models_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    part = PAGE.partition("## Trained models")[2].partition("## Attention")[0]
    blocks = re.findall(r"```python\n(.*?)```", part, re.DOTALL)
    assert len(blocks) == 2
    scope: dict[str, object] = {}
    for block in blocks:
        exec(block, scope)
    assert scope["apple"].text == "Elle mange une pomme verte."
    assert [each.text for each in scope["answer"]] == ["garden", "attic"]
    assert {path.name for path in tmp_path.iterdir()} == {"apple.html", "hops.svg"}


def test_every_method_of_the_table_exists():
    from regard.systems.loading import SYSTEMS

    named = set(re.findall(r"`(\w+)\(", PAGE.partition("| trained for |")[2].partition("\n\n")[0]))
    there = {name for system in SYSTEMS.values() for name in dir(system)}
    assert named
    assert named <= there
