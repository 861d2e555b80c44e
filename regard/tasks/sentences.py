"""Language modelling sentence by sentence: the next word, given the words of its own sentence.

    loss = -Σ_t log p(w_t | w_1, …, w_{t-1}),   perplexity = exp(loss / words), end marks counted

The texts are those of the task `language`, but no sentence depends on the one before. A model is called with
a `StreamBatch` whose targets are whole sentences. The units of `train.batch` are words, padding included.
"""

from regard.data.ptb import EOS
from regard.data.sentences import Sentences
from regard.data.text_windows import StreamBatch
from regard.data.tokens import split_words
from regard.data.wordlist import UNKNOWN
from regard.errors import DataError
from regard.tasks.base import Split, own_card
from regard.tasks.language import WordSettings, WordTask


@own_card(
    "sentences",
    title="Language modelling, sentence by sentence",
    sentence="The next word of a sentence, given its own words alone; the texts of the task `language`.",
)
class SentenceTask(WordTask[Sentences]):
    """The next word of a sentence."""

    Settings = WordSettings
    gives = "single sentences"

    def cut(self, words: list[str]) -> Sentences:
        return Sentences(self.words.numbers(words), mark=self.words.number(EOS))

    def sizes(self) -> dict[str, int]:
        return {"vocab": len(self.words)}

    def plan(self, epoch: int, *, seed: int, batch: int) -> list[list[int]]:
        return self.held("train").shuffled_plan(words=batch, epoch=epoch, seed=seed)

    def evaluation_plan(self, split: Split, *, batch: int) -> list[list[int]]:
        return self.held(split).plan(words=batch)

    def read(self, text: str) -> tuple[list[str], StreamBatch]:
        """A user's sentence: its words as the model knows them, and a batch of it alone."""
        words = [known for piece in split_words(text) if (known := self._known(piece)) is not None]
        if not words:
            raise DataError("sentences: the text has no words; expected a sentence.")
        return words, self.cut([*words, EOS]).batch([0])

    def _known(self, piece: str) -> str | None:
        """A piece of raw text as the corpus would write it; None for punctuation that it does not use."""
        for word in (piece, piece.lower(), "N" if piece[:1].isdigit() else piece):
            if word in self.words:
                return word
        return UNKNOWN if any(letter.isalnum() for letter in piece) else None
