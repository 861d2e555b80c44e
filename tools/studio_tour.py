"""Make the moving picture of the README from a running server: what Chromium shows, frame by frame.

regard studio --no-browser --port 8000 --runs nowhere &
python tools/studio_tour.py http://127.0.0.1:8000

Somebody types a sentence, its translation and alignment appear, they point at words; then a pointer network
finds a convex hull. Frames that are alike are kept once, for as long as they stood.
"""

import io
import os
import shutil
import sys
from pathlib import Path

from PIL import Image, ImageChops
from playwright.sync_api import Page, sync_playwright

OUT = Path(__file__).resolve().parent.parent / "docs/pictures/studio/tour.webp"
LARGEST = 2_000_000  # bytes
SIZE, SHOWN = {"width": 1120, "height": 960}, (840, 720)
FRAME = 120  # milliseconds at least from one frame to the next
SENTENCE = "My brother bought a new red car yesterday."


class Film:
    """Frames, and how long each is shown."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        self.durations: list[int] = []

    def take(self, milliseconds: int) -> None:
        """What the page shows now, for so long."""
        shot = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
        shot = shot.resize(SHOWN, Image.Resampling.LANCZOS)
        if self.frames and not ImageChops.difference(self.frames[-1], shot).getbbox():
            self.durations[-1] += milliseconds
            return
        self.frames.append(shot)
        self.durations.append(milliseconds)

    def watch(self, count: int) -> None:
        """So many frames of something that moves by itself."""
        for _ in range(count):
            self.take(FRAME)
            self.page.wait_for_timeout(FRAME)


def translate(film: Film, server: str) -> None:
    """Type a sentence, watch it being translated, point at words."""
    page = film.page
    page.goto(f"{server}/#/translate?text=+")
    box = page.locator("textarea").first
    box.wait_for()
    box.click()
    film.take(600)
    for letters in range(3, len(SENTENCE) + 3, 3):
        page.keyboard.type(SENTENCE[letters - 3 : letters])
        film.take(FRAME)
    page.locator("p.out .word").first.wait_for()
    last = "(() => { const it = document.querySelector('.player input'); return it.value === it.max; })()"
    for _ in range(100):
        film.take(2 * FRAME)
        if page.evaluate(last):
            break
        page.wait_for_timeout(FRAME)
    film.take(800)
    for word in ("voiture", "rouge", "hier"):
        page.locator("p.out .word", has_text=word).hover()
        page.wait_for_timeout(150)
        film.take(1100)


def point(film: Film, server: str) -> None:
    """Watch the hull grow, then drag a point."""
    page = film.page
    page.goto(f"{server}/#/point")
    page.locator(".plane .dot").first.wait_for()
    film.watch(40)
    film.take(900)
    box = page.locator(".plane").first.bounding_box()
    assert box is not None
    dot = page.locator(".plane .dot").nth(2).bounding_box()
    assert dot is not None
    x, y = dot["x"] + dot["width"] / 2, dot["y"] + dot["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 9):
        page.mouse.move(
            x + (box["x"] + 0.93 * box["width"] - x) * step / 8,
            y + (box["y"] + 0.2 * box["height"] - y) * step / 8,
        )
        page.wait_for_timeout(FRAME)
        film.take(FRAME)
    page.mouse.up()
    page.wait_for_timeout(800)
    film.take(1800)


def main(server: str) -> None:
    """Film both rooms and write the picture."""
    chromium = os.environ.get("REGARD_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE, color_scheme="light", locale="en-US")
        film = Film(page)
        translate(film, server)
        point(film, server)
        browser.close()
    first, *others = film.frames
    first.save(
        OUT, save_all=True, append_images=others, duration=film.durations, loop=0, quality=75, method=6
    )
    size = OUT.stat().st_size
    print(f"{OUT.name}: {len(film.frames)} frames, {sum(film.durations) / 1000:.1f} s, {size:,} bytes")
    if size > LARGEST:
        raise SystemExit(f"{OUT.name} has {size:,} bytes; expected {LARGEST:,} at most.")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"))
