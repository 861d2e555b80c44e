"""What the pages say of the command and of the records is true. The built site is tested by test_site.py."""

import re
import shlex
from pathlib import Path

from documentation import DOCS, ROOT, generator


def test_no_page_has_the_marks_of_an_unfinished_merge():
    for path in DOCS.rglob("*.md"):
        assert not re.search(r"^(<<<<<<<|=======|>>>>>>>)", path.read_text(encoding="utf-8"), re.MULTILINE)


def test_a_chinese_query_is_split_where_the_pages_are_split():
    search = generator("chinese_search")
    [runs] = re.findall(r"const runs = /(.+)/gu;", search.SPLITTER)
    query = "局部注意力local-p（预测对齐），SNAIL：5 类"
    in_the_browser = re.compile(runs.replace(r"[\p{L}\p{N}_]", r"\w"))
    assert in_the_browser.findall(query) == search.RUN.findall(query)
    assert search.RUN.findall(query) == ["局部注意力", "local", "p", "预测对齐", "SNAIL", "5", "类"]


def commands(page: str) -> list[str]:
    """The `regard` commands of a page's shell blocks, each on one line, without comments."""
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\s+#.*$", "", line).strip()
            if line.startswith("regard "):
                found.append(line)
    return found


def test_every_command_of_a_page_exists_with_its_options():
    import typer

    from regard.cli.main import app
    from regard.train.config import recipe_names

    group = typer.main.get_command(app)
    known = {}
    for name in group.list_commands(None):
        options = [o for p in group.get_command(None, name).params for o in (*p.opts, *p.secondary_opts)]
        known[name] = {*options, "--help"}
    wrong = []
    for path in sorted(DOCS.rglob("*.md")):
        for line in commands(path.read_text(encoding="utf-8")):
            words = shlex.split(line.replace("…", ""))
            if words[1].startswith("-"):
                continue
            given = {word.partition("=")[0] for word in words[2:] if re.match(r"--\w", word)}
            if words[1] not in known or given - known[words[1]]:
                wrong.append(f"{path.name}: {line}")
            elif words[1] == "train" and not words[2].startswith("-") and not words[2].endswith(".toml"):
                wrong += [] if words[2] in recipe_names() else [f"{path.name}: {line}"]
    assert not wrong


def test_every_table_of_a_comparison_is_recorded_or_its_command_stands_on_the_page():
    from regard.evaluate.results import read_results

    recorded = {result.details.get("comparison") for result in read_results(ROOT / "results")}
    for page in DOCS.rglob("*.md"):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        written = set()
        for command in re.findall(r"^regard compare .*$", text, re.MULTILINE):
            out, on = (re.search(rf"--{name} (\S+)", command) for name in ("out", "on"))
            if out is not None:
                written.add(Path(out[1]).name + (f"-{on[1]}" if on else ""))
        for name in re.findall(r"<!-- (?:comparison|lengths): ([\w.-]+) -->", text):
            assert name in recorded | written, f"{page.name}: {name}"
