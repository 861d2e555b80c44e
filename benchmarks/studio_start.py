"""How long the studio takes to start, in Chromium that is already open.

    python benchmarks/studio_start.py --record

Each run starts `regard studio`, opens its page as soon as it answers, and waits until the example there takes
a step, then until the models answer. Needs `regard[browser]` and Chromium.
"""

import os
import shutil
import socket
import statistics
import subprocess
import sys
import time

from common import ROOT, arguments, keep
from playwright.sync_api import Browser, sync_playwright

from regard.serve.server import open_socket
from regard.serve.settings import Settings

CHROMIUM = os.environ.get("REGARD_CHROMIUM") or shutil.which("chromium")
WANTED = 2.0  # seconds until the first screen moves
COUNT = ".player .count"


def listens(port: int) -> bool:
    """True if something answers at this port."""
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


def start(browser: Browser) -> dict[str, float]:
    """Seconds from the command to each visible event."""
    with open_socket(Settings(port=0)) as free:
        port = free.getsockname()[1]
    page = browser.new_page()
    began, found = time.perf_counter(), {}
    command = [sys.executable, "-m", "regard", "studio", "--no-browser", "--port", str(port)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=environment, cwd=ROOT, stderr=subprocess.DEVNULL) as server:
        while not listens(port):  # not in the browser, which would occupy a core
            time.sleep(0.01)
        page.goto(f"http://127.0.0.1:{port}/", wait_until="commit")
        found["page"] = time.perf_counter() - began
        page.wait_for_selector(COUNT)
        found["example"] = time.perf_counter() - began
        first = page.locator(COUNT).inner_text()
        while page.locator(COUNT).inner_text() == first:
            time.sleep(0.01)
        found["moves"] = time.perf_counter() - began
        page.get_by_role("button", name="Edit").wait_for(timeout=120_000)
        found["live"] = time.perf_counter() - began
        server.terminate()
    page.close()
    return found


def main() -> None:
    """Measure and, if requested, record."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    began = time.perf_counter()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        runs = [start(browser) for _ in range(given.runs + 1)][1:]  # the first reads the files from the disk
        browser.close()
    found = {f"s until {name}": round(statistics.median(each[name] for each in runs), 2) for name in runs[0]}
    found |= {"longest s until moves": round(max(each["moves"] for each in runs), 2), "wanted": WANTED}
    found |= {"runs": given.runs, "load of the machine": round(os.getloadavg()[0], 2)}
    print(found)
    if given.record:
        what = "seconds from the command to the first screen that moves"
        seconds = time.perf_counter() - began
        print(keep("studio-start", what, found["s until moves"], seconds=seconds, details=found))


if __name__ == "__main__":
    main()
