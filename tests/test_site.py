"""The built documentation in both languages: `make docs` builds it, then tests it."""

import posixpath
import re
from html.parser import HTMLParser
from importlib import import_module
from urllib.parse import unquote, urlsplit

import pytest
from documentation import DOCS, ROOT, generator

from regard import catalog

SITE, MESSAGES = ROOT / "site", ROOT / "build" / "docs" / "messages"


pytestmark = pytest.mark.documentation


@pytest.fixture(scope="module")
def pages():
    """The pages by their addresses, those in Chinese under zh/."""
    return {
        path.relative_to(SITE).as_posix(): Page(path)
        for path in SITE.rglob("*.html")
        if "try" not in path.relative_to(SITE).parts  # the studio, which pages embed
    }


def catalogues():
    return generator("catalogues")


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


def test_every_link_and_picture_leads_somewhere(pages):
    broken = []
    for address, page in pages.items():
        for link in (*page.links, *page.pictures):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (SITE / address).parent / unquote(parts.path) if parts.path else None
            name = address if target is None else target.resolve().relative_to(SITE).as_posix()
            if name not in pages:
                if not (SITE / name).is_file():
                    broken.append(f"{address}: {link}")
            elif unquote(parts.fragment) not in pages[name].anchors:
                broken.append(f"{address}: {link}")
    assert not broken


def test_the_studio_that_a_page_embeds_is_there(pages):
    [frame] = re.findall(r'<iframe src="([^"?]*)', pages["how-to/studio.html"].text)
    assert (SITE / "how-to" / frame).is_file()
    assert (SITE / "try" / "studio" / "examples" / "point.json").is_file()


def test_a_catalogue_page_embeds_its_own_live_view_in_the_language_of_the_page(pages):
    views = {}
    for address, page in pages.items():
        kind, _, key = address.removeprefix("zh/").removeprefix("reference/catalogue/").partition("/")
        for path, language, room in re.findall(
            r'<iframe src="([^"?]*)\?lang=(\w+)&embed#/([^"]*)', page.text
        ):
            assert ((SITE / address).parent / path).is_file(), address
            assert language == ("zh" if address.startswith("zh/") else "en"), address
            views[language, kind, key.removesuffix(".html")] = room
    for language in ("en", "zh"):
        for kind in ("score", "normalizer", "window"):
            for key in catalog.names(kind):
                assert views[language, kind, key] == f"mechanisms?name={key}"
        assert views[language, "model", "rnnsearch"] == "translate?model=en-fr-rnnsearch"
        assert views[language, "model", "lstmn"] == "read?tab=score&model=lstmn"
        assert views[language, "task", "hull"] == "point?model=hull"


def test_every_table_came_out_as_a_table(pages):
    assert [address for address, page in pages.items() if "|---" in page.text] == []


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
    assert {key for models in papers.values() for key in models} == set(catalog.names("model"))
    for paper in papers:
        assert f"papers/{paper}.html" in pages["index.html"].links
        assert any(f"(papers/{paper}.md)" in str(message.string) for message in chinese)


def test_the_pages_that_are_translated_are_translated_whole():
    lacking = {}
    for language in catalogues().LANGUAGES:
        shared = catalogues().of(language, "shared")
        for page in catalogues().pages(MESSAGES):
            own = catalogues().of(language, page)
            if found := catalogues().missing(MESSAGES / f"{page}.pot", own, shared):
                lacking[f"{language}, {page}"] = found
    assert not lacking


def test_the_chinese_pages_are_in_chinese(pages):
    assert "<h1>术语表<" in pages["zh/glossary.html"].text
    assert 'lang="zh-CN"' in pages["zh/glossary.html"].text


def test_a_generated_page_is_in_chinese_down_to_the_words_of_its_records(pages):
    page = pages["zh/reference/catalogue/window/local-predictive.html"].text
    assert "<h1>局部注意力：预测对齐（local-p）<" in page
    assert "<p>窗口的中心由网络预测" in page
    assert "高斯函数在 softmax 之后与权重相乘" in page  # its docstring
    assert "<p>指标</p>" in page


def test_nobody_is_asked_to_translate_records_or_docstrings():
    asked = catalogues().catalogue(MESSAGES / "reference/catalogue/window/local-predictive.pot")
    words = {str(message.id) for message in asked if message.id}
    assert {"Local attention, predictive (local-p)", "Measured"} < words
    assert len(words) < 10
    assert not any(word in words for word in ("metric", "machine", "2026-11-15"))


def test_no_translation_is_of_an_older_docstring():
    prose = " ".join(import_module(row.module).__doc__ or "" for row in catalog.rows())
    words = " ".join(prose.split())
    for language in catalogues().LANGUAGES:
        messages = [str(message.id) for message in catalogues().of(language, "docstrings") if message.id]
        assert len(messages) > 100
        assert [message for message in messages if message not in words] == []


def test_chinese_search_finds_a_word_inside_a_sentence():
    index = (SITE / "zh" / "searchindex.js").read_text(encoding="utf-8")
    assert '"\\u6ce8\\u610f"' in index or '"注意"' in index
    splitter = (SITE / "zh" / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert "run.slice(i, i + 2)" in splitter
