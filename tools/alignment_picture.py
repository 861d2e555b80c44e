"""Draw the alignment of the first page and of RNNsearch's catalogue page, into docs/pictures.

The sentence is chosen by a rule, not by eye: the first of the embedded corpus's validation split with 6 to 10
English words that the model translates exactly, and where the heaviest weight of every French word that the
corpus links falls on a word that it is linked to.
"""

from collections import defaultdict
from pathlib import Path

import regard
from regard.data.parallel import Example
from regard.systems.translation_system import Translated, TranslationSystem
from regard.tasks.grammar import GrammarSettings, make_examples

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
OUT = (PICTURES / "alignment.png", PICTURES / "model-rnnsearch.png")


def chosen() -> Translated:
    """The translation that is drawn."""
    model = regard.load("demo-rnnsearch")
    assert isinstance(model, TranslationSystem)
    for example in make_examples(GrammarSettings(), "valid"):
        if 6 <= len(example.source.split()) <= 10:
            translated = model.translate(example.source)
            if translated.text == example.target and well_aligned(translated, example):
                return translated
    raise SystemExit("alignment_picture: no sentence of the validation split passes the rule.")


def well_aligned(translated: Translated, example: Example) -> bool:
    """Whether every linked French word looks most at an English word that the corpus links it to."""
    assert translated.alignment is not None
    assert example.links is not None
    gold = defaultdict(set)
    for source, target in example.links:
        gold[target].add(source)
    heaviest = translated.alignment.argmax(1).tolist()
    return all(heaviest[target] in sources for target, sources in gold.items())


if __name__ == "__main__":
    for path in OUT:
        chosen().save(path)
        print(path)
