"""Write the Markdown that Sphinx reads: written pages with their tables and outputs, and generated pages.

python docs/generate.py FOLDER        writes it; a file that would not change is left alone
python docs/generate.py --check       runs the code of every page and writes nothing
"""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "generator"))

import blocks
import catalogue
import catalogues
import experiments
import log
import papers
import reference
import tables

DOCS = Path(__file__).parent
ROOT = DOCS.parent
KEPT = ROOT / "build" / "docs" / "ran"
NOT_PAGES = ("_static", "_templates", "generator", "locale")
NOTEBOOK = "*As a notebook: [{name}.ipynb]({name}.ipynb).*"


def written() -> dict[str, str]:
    """The pages that people write, by their paths."""
    paths = (path.relative_to(DOCS) for path in sorted(DOCS.rglob("*.md")))
    return {
        path.as_posix(): (DOCS / path).read_text(encoding="utf-8")
        for path in paths
        if path.parts[0] not in NOT_PAGES
    }


def main(folder: Path) -> None:
    """Write everything into the folder, and remove what is no longer made."""
    files: dict[str, str | bytes | Path] = {}
    failed: list[str] = []
    for name, text in written().items():
        for picture, content in experiments.pictures(text, catalogue.RESULTS).items():
            files[f"pictures/{picture}"] = content
        try:
            files |= _page(name, text)
        except blocks.BlockError as error:
            failed.append(str(error))
    if failed:
        sys.exit("\n\n".join(failed))
    files |= {**catalogue.pages(), **reference.pages()}
    for name, text in files.items():
        if isinstance(text, str) and name.endswith(".md"):
            files[name] = catalogue.captioned(tables.filled(text, catalogue.RESULTS))
    files |= catalogues.shared(name.removesuffix(".md") for name in files if name.endswith(".md"))
    for path in sorted((DOCS / "pictures").rglob("*.[pw]*")):  # png, webp
        files[path.relative_to(DOCS).as_posix()] = path
    for name, content in files.items():
        _write(folder / name, content)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in files:
            path.unlink()


def _page(name: str, text: str) -> dict[str, str | bytes | Path]:
    """A written page and what comes with it: the pictures that its code drew, its notebook."""
    files: dict[str, str | bytes | Path] = {}
    path = Path(name)
    page = text
    if blocks.code(text):
        ran = blocks.run(name, text, KEPT)
        made = path.with_suffix("").as_posix().replace("/", "-")
        page = blocks.shown(text, ran, f"{'../' * (len(path.parts) - 1)}drawn/{made}")
        for file in ran.folder.iterdir():
            if file.suffix in blocks.PICTURES:
                files[f"drawn/{made}/{file.name}"] = file
        if path.parts[0] == "tutorials":
            title, _, rest = page.partition("\n\n")
            said = NOTEBOOK.format(name=path.stem)
            page = f"{title}\n\n{said}\n\n{rest}"
            files[path.with_suffix(".ipynb").as_posix()] = blocks.notebook(text)
    if path.parent.name == "papers" and path.stem != "index":
        page = f"{page.rstrip()}\n\n{papers.in_numbers(path.stem)}"
    for marker, prefix in (("<!-- systems -->", ""), ("<!-- systems of papers/ -->", "papers/")):
        if marker in page:
            page = page.replace(marker, papers.index_table(prefix))
    files[name] = page.replace("<!-- subjects -->", log.index(page)) if name == "log.md" else page
    return files


def _write(path: Path, content: str | bytes | Path) -> None:
    new = content.read_bytes() if isinstance(content, Path) else content
    new = new.encode("utf-8") if isinstance(new, str) else new
    if not path.exists() or path.read_bytes() != new:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(new)


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        aside = Path(tempfile.mkdtemp())
        try:
            main(aside)
        finally:
            shutil.rmtree(aside)
    elif len(sys.argv) == 2:
        main(Path(sys.argv[1]))
    else:
        sys.exit("docs/generate.py: expected a folder, or --check.")
