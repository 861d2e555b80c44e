"""The documentation builds in both languages without a warning; its code runs, its links lead somewhere."""

import posixpath
import re
import shlex
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from regard import catalog

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"


def run(*words):
    done = subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with `site` and `messages`: generated, which runs the code of every page, then built. Warnings
    are errors. Of Chinese the translated pages alone are built here; `make docs` builds them all."""
    folder = tmp_path_factory.mktemp("documentation")
    source, site = folder / "source", folder / "site"
    run(DOCS / "generate.py", source)
    sphinx = ("-m", "sphinx", "-c", DOCS, "-q")
    run(*sphinx, "-W", "--keep-going", "-d", folder / "en", source, site)
    translated = ",".join(f"{page}.md" for page in catalogues().pages())
    some = (*sphinx, "-D", f"include_patterns={translated}")
    run(*some, "-b", "gettext", "-d", folder / "templates", source, folder / "messages")
    said = run(*some, "-D", "language=zh_CN", "-d", folder / "zh", source, site / "zh")
    assert "inconsistent" not in said, said
    return folder


@pytest.fixture(scope="module")
def pages(built):
    """The pages by their addresses, those in Chinese under zh/."""
    site = built / "site"
    return {
        path.relative_to(site).as_posix(): Page(path)
        for path in site.rglob("*.html")
        if "try" not in path.relative_to(site).parts  # the studio, which pages embed
    }


def catalogues():
    return generator("catalogues")


def generator(name):
    """A module of docs/generator."""
    sys.path.insert(0, str(DOCS / "generator"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


class Page(HTMLParser):
    """The links, anchors and pictures of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.anchors, self.pictures = [], {""}, []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag == "img":
            self.pictures.append(given["src"])


def test_there_is_a_page_for_every_row_of_the_catalogue(pages):
    for row in catalog.rows():
        page = pages[f"reference/catalogue/{row.kind}/{row.key}.html"].text
        assert row.title.replace("'", "&#39;") in page or row.title in page
        assert " at 0x" not in page  # a signature names what it has, not where that lies in memory


def test_every_link_and_picture_leads_somewhere(built, pages):
    broken = []
    for address, page in pages.items():
        for link in (*page.links, *page.pictures):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (built / "site" / address).parent / unquote(parts.path) if parts.path else None
            name = address if target is None else target.resolve().relative_to(built / "site").as_posix()
            if name.startswith("zh/") and name not in pages:  # not translated, see `built`
                name = name.removeprefix("zh/")
            if name not in pages:
                if not (built / "site" / name).is_file():
                    broken.append(f"{address}: {link}")
            elif unquote(parts.fragment) not in pages[name].anchors:
                broken.append(f"{address}: {link}")
    assert not broken


def test_the_studio_that_a_page_embeds_is_there(built, pages):
    [frame] = re.findall(r'<iframe src="([^"#]*)', pages["studio.html"].text)
    assert (built / "site" / frame).is_file()
    assert (built / "site" / "try" / "studio" / "examples" / "point.json").is_file()


def test_nothing_is_loaded_from_elsewhere(pages):
    for page in pages.values():
        assert not re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="https?:', page.text)


def test_every_page_links_to_itself_in_the_other_language(pages):
    for address, page in pages.items():
        other = address.removeprefix("zh/") if address.startswith("zh/") else f"zh/{address}"
        folder = posixpath.dirname(address)
        assert other in {posixpath.normpath(posixpath.join(folder, link)) for link in page.links}, address


def test_every_picture_of_the_documentation_has_a_caption(pages):
    for address, page in pages.items():
        pictures = re.findall(r"<p><img[^>]*/?>\s*</p>\n(.{7})", page.text)
        assert pictures == ["<p><em>"] * len(page.pictures), address


def test_every_system_is_one_click_from_the_first_page_in_both_languages(pages):
    papers = generator("papers").PAPERS
    chinese = catalogues().catalogue(DOCS / "locale" / "zh_CN" / "LC_MESSAGES" / "index.po")
    assert {key for paper in papers for key in paper.models} == set(catalog.names("model"))
    for paper in papers:
        assert f"papers/{paper.page}.html" in pages["index.html"].links
        assert any(f"(papers/{paper.page}.md)" in str(message.string) for message in chinese)


def test_the_pages_that_are_translated_are_translated_whole(built):
    lacking = {}
    for language in catalogues().LANGUAGES:
        for page in catalogues().pages():
            own = catalogues().LOCALE / language / "LC_MESSAGES" / f"{page}.po"
            if found := catalogues().missing(built / "messages" / f"{page}.pot", own):
                lacking[f"{language}, {page}"] = found
    assert not lacking


def test_the_chinese_pages_are_in_chinese(pages):
    assert "<h1>术语表<" in pages["zh/glossary.html"].text
    assert 'lang="zh-CN"' in pages["zh/glossary.html"].text


def test_chinese_search_finds_a_word_inside_a_sentence(built):
    index = (built / "site" / "zh" / "searchindex.js").read_text(encoding="utf-8")
    assert '"\\u6ce8\\u610f"' in index or '"注意"' in index
    splitter = (built / "site" / "zh" / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert "run.slice(i, i + 2)" in splitter


def test_every_command_of_a_page_exists_with_its_options():
    import typer

    from regard.cli.main import app
    from regard.train.config import recipe_names

    commands = generator("blocks").commands
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
