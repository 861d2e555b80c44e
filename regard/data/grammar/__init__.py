"""A parallel corpus from a synchronous grammar: English with French, and English with Chinese.

Every sentence comes with its translation and gold word links. The translation is a function of the English
sentence, so a model can learn it without error.
"""

from regard.data.grammar.corpus import Language, Pair, Split, generate
from regard.data.grammar.spelling import join

__all__ = ["Language", "Pair", "Split", "generate", "join"]
