"""Make the Chinese font of the pictures, regard/viz/fonts, out of Noto Sans SC.

    python tools/make_font.py FONT OFL

FONT is NotoSansSC-Regular.ttf and OFL its licence, as the package zhplot has them. The characters of GB 2312
are kept, punctuation, kana and full-width letters, and whatever the shipped models may write; no hints and
no features, which the pictures do not use.
"""

import json
import shutil
import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter, load_font, save_font

from regard.viz.letters import CHINESE as FONT
from regard.viz.letters import has_chinese

MODELS = Path(__file__).parents[1] / "regard" / "shipped"
UNUSED = ["BASE", "GDEF", "GPOS", "GSUB", "STAT", "vhea", "vmtx"]
FAMILY = "Noto Sans SC Subset"  # of its own: the whole font may be installed beside it
NAMES = [0, 1, 2, 3, 4, 5, 6, 13, 14]  # copyright, names, version, licence


def characters() -> set[str]:
    """What the font can write."""
    pairs = (bytes([row, cell]) for row in range(0xA1, 0xF8) for cell in range(0xA1, 0xFF))
    found = {pair.decode("gb2312", errors="ignore") for pair in pairs} - {""}
    found |= {chr(code) for low, high in ((0x3000, 0x3100), (0xFF00, 0xFFF0)) for code in range(low, high)}
    for path in MODELS.glob("*/*.tokenizer.json"):
        pieces = json.loads(path.read_text(encoding="utf-8"))["pieces"]
        found |= {character for character in "".join(pieces) if has_chinese(character)}
    return found


def main(source: str, licence: str) -> None:
    """Write the font and its licence."""
    options = Options(layout_features=[], hinting=False, glyph_names=False, name_IDs=NAMES)
    options.drop_tables += UNUSED
    subsetter = Subsetter(options)
    subsetter.populate(unicodes=sorted(map(ord, characters())))
    FONT.parent.mkdir(exist_ok=True)
    with load_font(source, options) as font:
        subsetter.subset(font)
        for name in font["name"].names:
            if name.nameID in (1, 4):
                name.string = FAMILY
            elif name.nameID == 6:
                name.string = FAMILY.replace(" ", "")
        save_font(font, str(FONT), options)
    shutil.copyfile(licence, FONT.parent / "OFL.txt")
    print(f"{FONT}: {FONT.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
