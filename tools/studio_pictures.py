"""Take the pictures of docs/how-to/studio.md from a running server, with Chromium.

regard compare rnnsearch-reverse --scores additive,general,location-aware --seeds 1,2 --steps 150 \\
    --set train.evaluate_every=10 --out comparisons/scores &
regard studio --no-browser --port 8000 --allow-folder models &
python tools/studio_pictures.py http://127.0.0.1:8000

The picture of a comparison needs one that runs; that of any model needs a folder `models/all-MiniLM-L6-v2`.
"""

import io
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import sync_playwright

OUT = Path(__file__).resolve().parent.parent / "docs/pictures/studio"
LARGEST = 150_000  # bytes of a picture
BOY = "The boy who often wears an old green coat reads a French novel at home."
WIDE, PHONE = (1240, 940), (390, 844)
BITS = ".".join(f"{(41 + 73 * i) % 256:x}" for i in range(40))


class Shot(NamedTuple):
    """A picture to take."""

    address: str
    size: tuple[int, int] = WIDE
    colours: str = "light"
    language: str = "en-US"
    at: str | None = None  # what to point at


PICTURES = {
    "translate": Shot(f"translate?model=demo-rnnsearch&text={quote(BOY)}", at="français"),
    "compare-two": Shot(
        f"translate?model=demo-rnnsearch&with=demo-seq2seq&text={quote(BOY)}", colours="dark"
    ),
    "tree": Shot("translate?beam=tree&hypothesis=2", at=".tree"),
    "heads": Shot("translate?layer=3&head=1", at=".heads"),
    "point": Shot("point"),
    "remember": Shot(f"remember?bits={BITS}", colours="dark"),
    "ask": Shot("ask"),
    "read": Shot(f"read?tab=score&text={quote('The boy who often wears an old green coat reads')}"),
    "entailment": Shot("read?hypothesis=w52+-w39+w58+w47", colours="dark"),
    "see-captions": Shot("see?number=1", colours="dark"),
    "see-samples": Shot("see?tab=sample"),
    "see-characters": Shot("see?tab=characters"),
    "mechanisms": Shot("mechanisms?name=local-predictive"),
    "comparison": Shot("compare?tab=comparisons", size=(1240, 1120)),
    "any-model": Shot("model"),
    "telephone": Shot("translate", size=PHONE, colours="dark", language="zh-CN"),
}


def main(server: str, *names: str) -> None:
    """Take all pictures, or those that are named."""
    OUT.mkdir(parents=True, exist_ok=True)
    chromium = os.environ.get("REGARD_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (address, (width, height), colours, language, at) in PICTURES.items():
            if names and name not in names:
                continue
            context = browser.new_context(
                viewport={"width": width, "height": height},
                color_scheme=colours,
                locale=language,
                reduced_motion="reduce",
                device_scale_factor=2 if width < 500 else 1,
            )
            page = context.new_page()
            page.goto(f"{server}/#/{address}")
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(1500)
            if at is not None and at.startswith("."):
                page.locator(at).scroll_into_view_if_needed()
                page.wait_for_timeout(800)
            elif at is not None:
                page.locator(".out .word", has_text=at).hover()
            save(page.screenshot(), OUT / f"{name}.png")
            context.close()
        browser.close()


def save(picture: bytes, path: Path) -> None:
    """With 256 colours, which is enough for a page."""
    few = Image.open(io.BytesIO(picture)).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    few.save(path, optimize=True)
    size = path.stat().st_size
    print(f"{path.name}: {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"{path.name} has {size:,} bytes; expected {LARGEST:,} at most.")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), *sys.argv[2:])
