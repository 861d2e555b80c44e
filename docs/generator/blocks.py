"""The code of a page: run in order, once for each state of page and package; the page shows what came of it.

Blocks marked `python` share one namespace and one empty folder. A comment `<!-- python … -->` runs too and is
not shown. A page that says `<!-- run by tests/… -->` needs more than itself: that test runs its code.
"""

import contextlib
import hashlib
import io
import json
import re
import shutil
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from records import ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$|^<!-- python\n(.*?)^-->$", re.MULTILINE | re.DOTALL)
CELL = re.compile(BLOCK.pattern + r"|^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WAITS = re.compile(
    r"^regard (serve|studio)|localhost", re.MULTILINE
)  # runs until it is stopped, or needs such a one
PICTURES = (".png", ".svg")


class BlockError(Exception):
    """A block of a page failed."""


@dataclass(frozen=True)
class Ran:
    """What the blocks of a page printed, and the folder with the pictures that they saved."""

    printed: list[str]
    folder: Path


def code(page: str) -> list[str]:
    """The blocks of a page, hidden ones too; none where a test runs them."""
    test = re.search(r"<!-- run by (tests/\S+) -->", page)
    if test is not None:
        if not (ROOT / test[1]).is_file():
            raise BlockError(f"{test[1]} is to run the code of a page, and is not there")
        return []
    return [shown or hidden for shown, hidden in BLOCK.findall(page)]


def run(name: str, page: str, kept: Path) -> Ran:
    """Run the blocks of a page, unless `kept` has the outcome of the same blocks with the same package."""
    blocks = code(page)
    folder = kept / digest(name, *blocks)
    outcome = folder / "printed.json"
    if not outcome.exists():
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory() as aside:
            printed = _printed(name, blocks, Path(aside))
            folder.mkdir(parents=True)
            for file in Path(aside).iterdir():
                if file.suffix in PICTURES:
                    shutil.copy(file, folder / file.name)
        outcome.write_text(json.dumps(printed), encoding="utf-8")
    return Ran(json.loads(outcome.read_text(encoding="utf-8")), folder)


def _printed(name: str, blocks: list[str], folder: Path) -> list[str]:
    import torch

    from regard import catalog

    torch.manual_seed(0)
    entered = dict(catalog.ROWS)  # a page may declare a mechanism, which is its own
    module = sys.modules["page"] = ModuleType("page")  # where the catalogue looks for that mechanism
    scope = module.__dict__
    printed = []
    with contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, block in enumerate(blocks, start=1):
            out = io.StringIO()
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
                    exec(compile(block, f"{name}, block {number}", "exec"), scope)
            except Exception as error:
                said = f"{type(error).__name__}: {error}"
                raise BlockError(f"{name}, code block {number}: {said}\n{block}") from error
            printed.append(out.getvalue())
    del sys.modules["page"]
    catalog.ROWS.clear()
    catalog.ROWS.update(entered)
    return printed


def digest(*texts: str) -> str:
    """Of these texts and everything that their outcome depends on."""
    found = hashlib.sha256(package().encode())
    for text in texts:
        found.update(text.encode() + b"\0")
    return found.hexdigest()[:32]


@cache
def package() -> str:
    """A digest of the package's Python files and of PyTorch's version."""
    import torch

    found = hashlib.sha256(torch.__version__.encode() + sys.version.encode())
    for path in sorted((ROOT / "regard").rglob("*.py")):
        found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()


def shown(page: str, ran: Ran, pictures: str) -> str:
    """The page with what each block printed below it; pictures that it saved are looked for in `pictures`."""
    printed = iter(ran.printed)

    def below(block: re.Match[str]) -> str:
        out = next(printed).rstrip()
        if block[1] is None:
            return ""
        wraps = "printed" if "   " in out else "printed prose"
        return f"{block[0]}\n\n```{{code-block}} text\n:class: {wraps}\n\n{out}\n```" if out else block[0]

    page = BLOCK.sub(below, page)
    for file in sorted(ran.folder.iterdir()):
        if file.suffix in PICTURES:
            page = page.replace(f"]({file.name})", f"]({pictures}/{file.name})")
    return page


def notebook(page: str) -> str:
    """The written page as a Jupyter notebook: text and code in turn, shell commands that end among it."""
    cells = []
    at = 0
    for block in CELL.finditer(page):
        if block[3] and WAITS.search(block[3]):
            continue
        cells += _text(page[at : block.start()])
        shell = re.sub("^", "!", (block[3] or "").rstrip(), flags=re.MULTILINE)
        cells.append(new_code_cell((block[1] or block[2] or shell).rstrip()))
        at = block.end()
    cells += _text(page[at:])
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    made = new_notebook(cells=cells, metadata={"language_info": {"name": "python"}})
    nbformat.validate(made)
    return nbformat.writes(made) + "\n"


def _text(text: str) -> list[nbformat.NotebookNode]:
    plain = re.sub(
        r"\[([^\]]+)\]\([^)]*\.md[^)]*\)", r"\1", text
    ).strip()  # links between pages lead nowhere here
    return [new_markdown_cell(plain)] if plain else []
