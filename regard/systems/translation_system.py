"""Translators: text in, text out, with the alignment and the other hypotheses of the beam."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from regard.attention.record import record_any
from regard.data.batches import pair_batch
from regard.data.tokens import BOS_PIECE, EOS_PIECE
from regard.decode.base import evaluating
from regard.decode.beam import Node, beam_tree
from regard.decode.lines import Refused, translate_lines
from regard.decode.translator import Translation, Translator, as_learnt
from regard.errors import DataError
from regard.models.base import Translating
from regard.models.transformer import Transformer
from regard.systems.drawable import Drawable
from regard.systems.system import System, same_length, texts_of
from regard.tasks.translation import TranslationTask
from regard.train.run import Run
from regard.views.alignment import draw


@dataclass(frozen=True, eq=False, repr=False)
class Translated(Drawable):
    """A translation with its attention: between pieces in `alignment`, between whole words when drawn."""

    beam: tuple[Translation, ...]  # the `nbest` hypotheses, best first
    title = "Alignment"

    @property
    def best(self) -> Translation:
        return self.beam[0]

    @property
    def text(self) -> str:
        return self.best.text

    @property
    def source(self) -> str:
        return self.best.source

    @property
    def alignment(self) -> Tensor | None:
        """(T, S) weights of each written piece over the source's pieces; None without attention."""
        return self.best.weights

    @property
    def pieces(self) -> tuple[str, ...]:
        """The labels of the alignment's rows."""
        return self.best.pieces

    @property
    def source_pieces(self) -> tuple[str, ...]:
        """The labels of the alignment's columns."""
        return self.best.source_pieces

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<Translated {self.source!r} -> {self.text!r}>"

    def draw(self, path: Path) -> None:
        if self.alignment is None:
            raise self.nothing("the model has no attention")
        if not self.pieces:
            raise self.nothing("the translation is empty")
        draw(self.best, path)

    draw_page = draw


@dataclass(frozen=True, eq=False)
class HeadMaps:
    """The attention of every layer and head of a Transformer for one pair of sentences."""

    source: tuple[str, ...]  # source pieces and eos
    target: tuple[str, ...]  # target pieces and eos
    encoder: Tensor  # (L, H, S, S)
    decoder: Tensor  # (L, H, T, T) over the decoder's input: bos, then the target pieces
    cross: Tensor  # (L, H, T, S)

    @property
    def read(self) -> tuple[str, ...]:
        """The labels of the columns of `decoder`."""
        return (BOS_PIECE, *self.target[:-1])


@dataclass(frozen=True)
class SearchTree:
    """The nodes that a beam search kept at each step."""

    nodes: tuple[Node, ...]
    pieces: tuple[str, ...]  # of each node
    hypotheses: tuple[tuple[int, ...], ...]  # their nodes, the best first


class TranslationSystem(System):
    """A translator.

        french = load("demo-rnnsearch", device="cpu")
        cat = french.translate("The cat sleeps.")
        cat.text, cat.alignment, cat.pieces, cat.source_pieces
        french.translate(["The cat sleeps.", "The dog sleeps."], beam=5, nbest=3)[0].beam[1].text
        french.align("The cat sleeps.", "Le chat dort.").save("cat.png")

    The alignment of a model without attention, such as `demo-seq2seq`, is None.
    """

    task: TranslationTask

    def __init__(self, run: Run, half: torch.dtype | None = None) -> None:
        super().__init__(run, half)
        assert isinstance(run.model, Translating)
        self.languages = self.task.languages
        self.translator = Translator(run.model, self.task.source, self.task.target)

    def translate(
        self, text: str | Sequence[str], *, beam: int | None = None, nbest: int = 1
    ) -> Translated | list[Translated]:
        """Translate a sentence, or several at once; `nbest` hypotheses of each are in its `.beam`.

        A text of more than 400 pieces is translated sentence by sentence.
        """
        texts = texts_of("translate", "text", text)
        with self.computing():
            found = translate_lines(self.translator, texts, self.decoding(beam, nbest=nbest))
        results = []
        for number, hypotheses in enumerate(found):
            if isinstance(hypotheses, Refused):
                raise DataError(f"translate: text {number} {hypotheses.reason}")
            results.append(Translated(tuple(hypotheses)))
        return results[0] if isinstance(text, str) else results

    @property
    def layers(self) -> dict[str, int] | None:
        """The numbers of layers and heads of a Transformer; None for another model."""
        model = self.trained.model
        if not isinstance(model, Transformer):
            return None
        shape = model.shape
        return {"encoder": shape.layers, "decoder": shape.decoder_layers, "heads": shape.heads}

    def heads(self, text: str, target: str | None = None) -> HeadMaps:
        """The attention of all heads of a Transformer for a text and a translation, by default its own."""
        model, layers, text = self.trained.model, self.layers, as_learnt(text)
        if not isinstance(model, Transformer) or layers is None:
            raise DataError(
                f"{self.name}: model is {self.trained.config.model!r}, which has no layers of heads; "
                "expected 'transformer'."
            )
        if target is None:
            found = self.translate(text)
            assert isinstance(found, Translated)
            target = found.best.written
        tokens = self.translator.target.encode(target)
        batch = self.place(pair_batch([self.translator.source.encode(text)], [tokens]))
        with evaluating(model), self.computing(), record_any(model) as trace:
            model(batch)

        def every(part: str, count: int, name: str) -> Tensor:
            paths = [f"{part}.layers.{number}.{name}.attention" for number in range(count)]
            return torch.stack([trace[path][0].weights[0].float().cpu() for path in paths])

        return HeadMaps(
            (*self.translator.source.pieces(text), EOS_PIECE),
            (*self.translator.target.pieces(target), EOS_PIECE),
            every("encoder", layers["encoder"], "attention"),
            every("decoder", layers["decoder"], "self_attention"),
            every("decoder", layers["decoder"], "source_attention"),
        )

    def tree(self, text: str, *, beam: int | None = None) -> SearchTree:
        """Everything that the beam search for a sentence kept."""
        how, encoded = self.decoding(beam), self.translator.source.encode(as_learnt(text))
        if not encoded:
            return SearchTree((), (), ())
        batch = self.place(pair_batch([encoded], [[]]))
        with self.computing():
            nodes, hypotheses = beam_tree(
                self.translator.model, batch, width=how.width, maximum=how.maximum, penalty=how.rule
            )
        pieces = self.translator.target.pieces_of(node.token for node in nodes)
        return SearchTree(tuple(nodes), tuple(pieces), tuple(map(tuple, hypotheses)))

    def align(self, text: str | Sequence[str], target: str | Sequence[str]) -> Translated | list[Translated]:
        """The model's attention while it writes a given translation, or each of several."""
        texts, targets = texts_of("align", "text", text), texts_of("align", "target", target)
        same_length("align", text=texts, target=targets)
        with self.computing():
            found = self.translator.align(texts, targets, self.decoding(None))
        results = [Translated((each,)) for each in found]
        return results[0] if isinstance(text, str) and isinstance(target, str) else results
