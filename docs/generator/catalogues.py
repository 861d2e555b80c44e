"""The messages of the pages that are translated, from Sphinx's templates into docs/locale.

python docs/generator/catalogues.py MESSAGES       after `sphinx -b gettext`, see `make catalogues`

docs/locale/pages.txt names the pages that every language has in full, which the tests ask for. The catalogue
of any other page has its title alone, for the navigation, and is left as it is.
"""

import re
import shutil
import sys
import tempfile
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.pofile import read_po

LOCALE = Path(__file__).parents[1] / "locale"
LANGUAGES = ("zh_CN",)


def pages() -> list[str]:
    """The pages that have to be complete."""
    lines = (LOCALE / "pages.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def catalogue(path: Path) -> Catalog:
    """A .po or .pot file."""
    with path.open("rb") as file:
        return read_po(file)


def missing(template: Path, translated: Path) -> list[str]:
    """The messages of a page that a language lacks, or has for an older text."""
    if not translated.exists():
        return [f"{translated.name}: no such file"]
    there = catalogue(translated)
    found = []
    for message in catalogue(template):
        if message.id and speaks(str(message.id)):
            own = there.get(message.id)
            if own is None or not own.string or own.fuzzy:
                found.append(str(message.id))
    return found


def speaks(message: str) -> bool:
    """Whether there is anything to translate: words, not numbers, code or addresses alone."""
    words = re.sub(r"`[^`]*`|\]\([^)]*\)|<https?:[^>]*>", "", message)
    return re.search(r"[A-Za-z]{2}", words) is not None


def main(messages: Path) -> None:
    """Bring the catalogues of all languages up to the templates."""
    from sphinx_intl.basic import update

    with tempfile.TemporaryDirectory() as aside:
        for page in pages():
            chosen = Path(aside) / f"{page}.pot"
            chosen.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(messages / f"{page}.pot", chosen)
        update(str(LOCALE), aside, LANGUAGES, line_width=110)
    for language in LANGUAGES:
        for page in pages():
            lacking = missing(messages / f"{page}.pot", LOCALE / language / "LC_MESSAGES" / f"{page}.po")
            if lacking:
                print(f"{language}, {page}: {len(lacking)} messages to translate")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
