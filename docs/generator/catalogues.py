"""The messages of the pages that are translated, from Sphinx's templates into docs/locale.

python docs/generator/catalogues.py MESSAGES       after `sphinx -b gettext`, see `make catalogues`

docs/locale/pages.txt names the pages that every language has in full, which the tests ask for. A written page
has a catalogue of its own. What generated pages say is in `shared.po`, each message once, for all pages.
`records.po` has the words of tables that come from results/, such as names of metrics, and `docstrings.po`
the prose of docstrings on catalogue pages. Nothing asks for them; what they lack stays English. Other pages
have a catalogue with their title, for the navigation.
"""

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

DOCS = Path(__file__).parents[1]
LOCALE = DOCS / "locale"
LANGUAGES = ("zh_CN",)
SHARED = ("shared", "records", "docstrings")


def pages(messages: Path) -> list[str]:
    """The pages of pages.txt, which have to be complete, in a folder of templates."""
    lines = (LOCALE / "pages.txt").read_text(encoding="utf-8").splitlines()
    patterns = [line for line in lines if line and not line.startswith("#")]
    found = [path for pattern in patterns for path in sorted(messages.glob(f"{pattern}.pot"))]
    return [path.relative_to(messages).with_suffix("").as_posix() for path in found]


def generated(page: str) -> bool:
    """Whether nobody writes this page."""
    return not (DOCS / f"{page}.md").exists()


def catalogue(path: Path) -> Catalog:
    """A .po or .pot file; empty where there is none."""
    if not path.exists():
        return Catalog()
    with path.open("rb") as file:
        return read_po(file)


def of(language: str, page: str) -> Catalog:
    """The catalogue of a page, or a shared one."""
    return catalogue(LOCALE / language / "LC_MESSAGES" / f"{page}.po")


def missing(template: Path, *translated: Catalog) -> list[str]:
    """The messages of a page that a language lacks, or has for an older text."""

    def there(message: Message) -> bool:
        found = [each.get(message.id) for each in translated]
        return any(own is not None and own.string and not own.fuzzy for own in found)

    return [str(message.id) for message in _asked(catalogue(template)) if not there(message)]


def _asked(template: Catalog) -> Iterator[Message]:
    return (message for message in template if message.id and speaks(str(message.id)))


def speaks(message: str) -> bool:
    """Whether there is anything to translate: words, not numbers, code, addresses or a picture alone, whose
    alternative text is a message of its own."""
    if re.fullmatch(r"!\[[^]]*\]\([^)]*\)", message):
        return False
    words = re.sub(r"`[^`]*`|\]\([^)]*\)|<https?:[^>]*>|[\d.]+ [GMk]B", "", message)
    return re.search(r"[A-Za-z]{2}", words) is not None


def shared(names: Iterable[str]) -> dict[str, bytes]:
    """For each page of the site a compiled catalogue of what all pages share, by its path."""
    made: dict[str, bytes] = {}
    for language in LANGUAGES:
        whole = Catalog(locale=language)
        for name in SHARED:
            for message in of(language, name):
                if message.id and not message.fuzzy:
                    whole.add(message.id, message.string)
        compiled = BytesIO()
        write_mo(compiled, whole)
        for page in names:
            made[f"locale/{language}/LC_MESSAGES/{page}.mo"] = compiled.getvalue()
    return made


def main(messages: Path) -> None:
    """Bring the catalogues of all languages up to the templates."""
    from sphinx_intl.basic import update

    names = pages(messages)
    common = Catalog()
    for page in filter(generated, names):
        for message in _asked(catalogue(messages / f"{page}.pot")):
            common.add(message.id)
    for language in LANGUAGES:
        with tempfile.TemporaryDirectory() as aside:
            _write(common, Path(aside) / "shared.pot")
            for page in names:
                if not generated(page):
                    own = of(language, page)
                    _write(_rest(messages / f"{page}.pot", common, own), Path(aside) / f"{page}.pot")
            update(str(LOCALE), aside, (language,), line_width=110, ignore_obsolete=True)
        for page in names:
            lacking = missing(messages / f"{page}.pot", of(language, page), of(language, "shared"))
            if lacking:
                print(f"{language}, {page}: {len(lacking)} messages to translate")


def _rest(path: Path, common: Catalog, own: Catalog) -> Catalog:
    """What a page's own catalogue should have of its template: all it has now, and what is not shared."""
    template = catalogue(path)
    for message in list(template):
        superfluous = not speaks(str(message.id)) or common.get(message.id) is not None
        if message.id and superfluous and own.get(message.id) is None:
            template.delete(message.id)
    return template


def _write(catalog: Catalog, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        write_po(file, catalog)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
