"""A parallel corpus made by a synchronous grammar: English with French, and English with Chinese.

Every sentence comes with its translation and with gold links between the words of both. The translation is
a function of the English sentence, so that a model can learn it without a remaining error.
"""

from regard.data.grammar.corpus import Language, Pair, Split, generate
from regard.data.grammar.spelling import join

__all__ = ["Language", "Pair", "Split", "generate", "join"]
