"""From raw text to raw text, with the alignment: what `regard translate` does, for Python code.

    run = open_run("runs/rnnsearch-en-fr")
    translator = Translator(run.model, run.task.source, run.task.target)
    [[translation]] = translator.translate(["She is eating an apple."])

`translation.text` is the raw text, `translation.weights` what was attended to.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from regard.data.batches import pair_batch, plan_in_order
from regard.data.tokens import UNK, Tokenizer
from regard.decode.base import GREEDY, Credit, Decoding, Hypothesis
from regard.decode.forced import forced
from regard.decode.greedy import search
from regard.decode.unknown import carry_unknown, credited
from regard.errors import DataError
from regard.models.base import Translating

BUDGET = 4096  # source tokens of a batch times hypotheses


@dataclass(frozen=True, eq=False, repr=False)
class Translation:
    """One translation of one sentence."""

    source: str
    text: str
    source_pieces: tuple[str, ...]
    pieces: tuple[str, ...]
    score: float
    log_probability: float
    finished: bool  # False: cut at the longest length allowed
    weights: Tensor | None  # (T, S) between pieces, eos left out; None for a model without attention
    unknown: tuple[str, ...]  # source pieces the model has never seen
    written: str  # the text as the model wrote it, `<unk>` where a word was then looked up or copied

    def __repr__(self) -> str:
        return f"<Translation {self.source!r} -> {self.text!r}, score {self.score:.2f}>"


class TextTranslator(ABC):
    """A decoder of token ids, with its two tokenizers.

    `aligner` names the attention that aligns a hypothesis with its source; None if there is none.
    """

    def __init__(self, source: Tokenizer, target: Tokenizer, *, aligner: str | None) -> None:
        self.source, self.target, self.aligner = source, target, aligner

    @abstractmethod
    def decode(self, encoded: list[list[int]], decoding: Decoding, attention: bool) -> list[list[Hypothesis]]:
        """Sources as token ids, without eos -> the `nbest` hypotheses of each.

        They have attention if it is asked for, and always if a word on either side is unknown.
        """

    def translate(
        self,
        texts: Sequence[str],
        decoding: Decoding = GREEDY,
        *,
        attention: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> list[list[Translation]]:
        """For each text its `nbest` translations, best first; a blank text has one empty translation.

        Spaces around a text are stripped, as in training data, and a line break inside counts as a space.
        Without `attention` no weights are returned, which is faster. `progress` gets the number of sentences
        of each finished batch.
        """
        encoded = [self.source.encode(as_learnt(text)) for text in texts]
        results: list[list[Translation]] = [[nothing(text)] for text in texts]
        filled = [number for number, ids in enumerate(encoded) if ids]
        filled.sort(key=lambda number: len(encoded[number]))
        lengths = [(len(encoded[number]) + 1, 0) for number in filled]
        for rows in plan_in_order(lengths, budget=max(1, BUDGET // decoding.width)):
            chosen = [filled[row] for row in rows]
            found = self.decode([encoded[number] for number in chosen], decoding, attention)
            for number, hypotheses in zip(chosen, found, strict=True):
                results[number] = [
                    self._translation(texts[number], hypothesis, decoding) for hypothesis in hypotheses
                ]
            if progress is not None:
                progress(len(chosen))
        return results

    def _translation(self, text: str, hypothesis: Hypothesis, decoding: Decoding) -> Translation:
        source = self.source.pieces(as_learnt(text))
        pieces = written = self.target.pieces_of(hypothesis.tokens)
        weights = self._weights(hypothesis, len(pieces), len(source), decoding.credit)
        if weights is not None and decoding.dictionary is not None:
            pieces = carry_unknown(pieces, source, weights, decoding.dictionary)
        return Translation(
            source=text,
            text=one_line(self.target.decode_pieces(pieces)),
            source_pieces=tuple(source),
            pieces=tuple(pieces),
            score=hypothesis.score,
            log_probability=hypothesis.log_probability,
            finished=hypothesis.finished,
            weights=weights,
            unknown=tuple(self.source.unknown(as_learnt(text))),
            written=one_line(self.target.decode_pieces(written)),
        )

    def _weights(self, hypothesis: Hypothesis, T: int, S: int, credit: Credit) -> Tensor | None:
        if self.aligner is None or self.aligner not in hypothesis.attention:
            return None
        return credited(hypothesis.attention[self.aligner], T, credit)[:, :S].cpu()


def as_learnt(text: str) -> str:
    """One line without surrounding spaces, as lines of parallel text are read (`data/parallel.py`)."""
    try:
        text.encode()
    except UnicodeEncodeError:  # from bytes on the command line that Python could not decode
        raise DataError(f"translate: {text[:40]!r} is not UTF-8; expected UTF-8.") from None
    return one_line(text).strip()


def one_line(text: str) -> str:
    """Join the lines: a model of bytes can write a line break, but a translation is one line."""
    return " ".join(text.splitlines())


class Translator(TextTranslator):
    """A model with its two tokenizers."""

    def __init__(self, model: Translating, source: Tokenizer, target: Tokenizer) -> None:
        super().__init__(source, target, aligner=model.aligner)
        self.model = model
        self.device = next((p.device for p in model.parameters()), torch.device("cpu"))

    def decode(self, encoded: list[list[int]], decoding: Decoding, attention: bool) -> list[list[Hypothesis]]:
        # a sentence with unknown words most likely needs it; this saves decoding it twice
        attention = self.aligner is not None and (attention or any(UNK in ids for ids in encoded))
        batch = pair_batch(encoded, [[] for _ in encoded]).to(self.device)
        found = search(self.model, batch, decoding, maximum=decoding.maximum, attention=attention)
        return self._aligned(encoded, found, decoding)

    def align(
        self, texts: Sequence[str], targets: Sequence[str], decoding: Decoding = GREEDY
    ) -> list[Translation]:
        """Each text with its given translation: the score and the weights of forced decoding."""
        encoded = [self.source.encode(as_learnt(text)) for text in texts]
        written = [self.target.encode(target) for target in targets]
        results = [nothing(text) for text in texts]
        filled = [number for number, ids in enumerate(encoded) if ids]
        lengths = [(len(encoded[number]) + 1, len(written[number]) + 1) for number in filled]
        for rows in plan_in_order(lengths, budget=BUDGET):
            chosen = [filled[row] for row in rows]
            batch = pair_batch([encoded[n] for n in chosen], [written[n] for n in chosen]).to(self.device)
            tracks = forced(self.model, batch, attention=self.aligner is not None)
            for number, track in zip(chosen, tracks, strict=True):
                found = self._translation(
                    texts[number], track.hypothesis(decoding.rule), replace(decoding, dictionary=None)
                )
                pieces = tuple(self.target.pieces(targets[number]))  # unknown words as written
                results[number] = replace(found, text=targets[number], pieces=pieces)
        return results

    def _aligned(
        self, encoded: list[list[int]], found: list[list[Hypothesis]], decoding: Decoding
    ) -> list[list[Hypothesis]]:
        """Add attention where an unknown word was written: it tells the source word to take."""
        if self.aligner is None or decoding.dictionary is None:
            return found
        places = [
            (row, rank)
            for row, hypotheses in enumerate(found)
            for rank, hypothesis in enumerate(hypotheses)
            if UNK in hypothesis.tokens and not hypothesis.attention
        ]
        if not places:
            return found
        sources = [encoded[row] for row, _ in places]
        targets = [found[row][rank].tokens for row, rank in places]
        found = [list(hypotheses) for hypotheses in found]
        batch = pair_batch(sources, targets).to(self.device)
        for (row, rank), track in zip(places, forced(self.model, batch), strict=True):
            found[row][rank] = replace(found[row][rank], attention=track.attention)
        return found


def nothing(text: str, *, finished: bool = True) -> Translation:
    """The empty translation: of an empty line or, not finished, of a line that was not translated."""
    return Translation(text, "", (), (), 0.0, 0.0, finished, torch.zeros(0, 0), (), "")
