"""The documentation builds without a warning, and has a page for every row of the catalogue."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from regard import catalog

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built documentation; warnings are errors."""
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_documentation_builds_without_a_warning_and_has_a_page_for_every_row(site):
    for row in catalog.rows():
        page = (site / "catalogue" / row.kind / row.key / "index.html").read_text(encoding="utf-8")
        assert row.title.replace("'", "&#39;") in page or row.title in page
        assert " at 0x" not in page  # a signature names what it has, not where that lies in memory


def test_every_picture_of_the_documentation_has_a_caption(site):
    for path in site.rglob("index.html"):
        page = path.read_text(encoding="utf-8")
        pictures = re.findall(r"<p><img[^>]*></p>\n(.{7})", page)
        assert pictures == ["<p><em>"] * page.count('<img alt="'), path.parent.name


def test_every_table_of_a_comparison_is_recorded_or_its_command_stands_on_the_page():
    from regard.evaluate.results import read_results

    recorded = {result.details.get("comparison") for result in read_results(ROOT / "results")}
    for page in (ROOT / "docs").rglob("*.md"):
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        written = set()
        for command in re.findall(r"^regard compare .*$", text, re.MULTILINE):
            out, on = (re.search(rf"--{name} (\S+)", command) for name in ("out", "on"))
            if out is not None:
                written.add(Path(out[1]).name + (f"-{on[1]}" if on else ""))
        for name in re.findall(r"<!-- (?:comparison|lengths): ([\w.-]+) -->", text):
            assert name in recorded | written, f"{page.name}: {name}"
