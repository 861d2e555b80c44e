"""The Transformer for CTranslate2, a C++ engine that translates on CPUs and GPUs without PyTorch.

    ours                              CTranslate2's
    E x √d                            embeddings, scale_embeddings
    PE                                position_encodings, given as a table: its own has all sines first
    W_Q W_K W_V                       self_attention/linear_0, one above the other
    W_Q; W_K W_V                      attention/linear_0; linear_1
    W_O                               the last linear
    W_1 W_2                           ffn/linear_0, linear_1
    norm                              layer_norm of the sub-layer it stands around

The search is CTranslate2's. Greedy decoding writes the same words. Beam search ends differently: CTranslate2
keeps `beam` live hypotheses besides finished ones and stops when `beam` have finished; ours stops when no
live hypothesis can become the best. It returns log-probabilities, and the recipe's length penalty ranks what
it found. Both never write pad or bos; CTranslate2 also leaves them out of the softmax, so its
log-probabilities are higher by the little probability that the model gives them.

OpenNMT. CTranslate2. https://opennmt.net/CTranslate2
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from regard.attention.multihead import MultiHead
from regard.data.batches import pair_batch
from regard.data.tokens import BOS_PIECE, EOS_PIECE, PAD_PIECE, UNK, UNK_PIECE
from regard.decode.backpointers import Track
from regard.decode.base import Decoding, Hypothesis, PowerPenalty, limits_of
from regard.decode.beam import rank
from regard.decode.translator import TextTranslator
from regard.errors import ConfigError, DataError
from regard.export.base import Export, Translatable, check_length, describe, new_folder
from regard.extras import needs
from regard.layers.positions import LearnedPositions, Positions, SinusoidalPositions, sinusoids
from regard.layers.transformer import DecoderLayer, EncoderLayer, FeedForward, LayerNorm
from regard.models.base import Translating
from regard.models.transformer import Transformer

if TYPE_CHECKING:
    import ctranslate2

TO = "ctranslate2"
POSITIONS = 2048  # rows of the table, i.e. the longest sentence, if the model has no limit
ALIGNER = "attention"  # path of the alignment in hypotheses


def export(given: Translatable, out: Path) -> Path:
    """Write the folder that `ctranslate2.Translator(str(out))` and `regard translate` read."""
    needs("export", "ctranslate2")
    model = checked(given.model)
    with new_folder(out) as folder:
        save(model, given.task.source.vocabulary, given.task.target.vocabulary, folder)
        describe(given, folder, to=TO, longest=longest(model))
    return out


def checked(model: Translating) -> Transformer:
    """The model, if CTranslate2 can run it; ConfigError otherwise."""
    if not isinstance(model, Transformer):
        raise ConfigError(
            f"export to ctranslate2: the model is {type(model).__name__}; expected Transformer. "
            "`--to onnx` takes luong and rnnsearch too."
        )
    config, shape = model.config, model.shape
    demands = (
        ("attention.score", config.attention.score, "scaled-dot"),
        ("attention.normalizer", config.attention.normalizer, "softmax"),
        ("norm_kind", config.norm_kind, "layer"),
        ("restricted", config.restricted, 0),
    )
    for name, has, expected in demands:
        if has != expected:
            raise ConfigError(
                f"export to ctranslate2: `{name}` has {has!r}; expected {expected!r}, which is all that "
                "CTranslate2 computes."
            )
    if shape.d_k * shape.heads != shape.d_model:
        expected = f"d_model / heads = {shape.d_model / shape.heads:g}"
        raise ConfigError(f"export to ctranslate2: `d_k` has {shape.d_k}; expected {expected}.")
    return model


def save(model: Transformer, source: Sequence[str], target: Sequence[str], folder: Path) -> None:
    """Write CTranslate2's files for a model and its two vocabularies."""
    specification = specify(model)
    specification.register_source_vocabulary(list(source))
    specification.register_target_vocabulary(list(target))
    specification.validate()
    specification.optimize()
    specification.save(str(folder))


def specify(model: Transformer) -> "ctranslate2.specs.TransformerSpec":
    """The weights in CTranslate2's layout."""
    from ctranslate2.specs import TransformerSpec

    shape = model.shape
    specification = TransformerSpec.from_config(
        (shape.layers, shape.decoder_layers),
        shape.heads,
        pre_norm=model.config.norm == "pre",
        alignment_layer=model.config.aligning_layer % shape.decoder_layers,
        alignment_heads=shape.heads,  # averaged, as ours are
    )
    config = specification.config
    config.bos_token = config.decoder_start_token = BOS_PIECE
    config.eos_token, config.unk_token = EOS_PIECE, UNK_PIECE
    config.add_source_eos = True
    encoder, decoder = specification.encoder, specification.decoder
    encoder.embeddings[0].weight = _array(model.E_source.weight)
    decoder.embeddings.weight = _array(model.E.weight)
    _linear(decoder.projection, model.W)
    for part, positions in ((encoder, model.positions_source), (decoder, model.positions)):
        part.position_encodings.encodings = _array(table(positions, shape.d_model))
    for part, norm in ((encoder, model.encoder.norm), (decoder, model.decoder.norm)):
        if norm is not None:
            _norm(part.layer_norm, norm)
    for layer, ours in zip(encoder.layer, model.encoder.layers, strict=True):
        _encoder_layer(layer, ours)
    for layer, ours in zip(decoder.layer, model.decoder.layers, strict=True):
        _decoder_layer(layer, ours)
    config.layer_norm_epsilon = next(m.eps for m in model.modules() if isinstance(m, LayerNorm))
    return specification


def table(positions: Positions, dim: int) -> Tensor:
    """(positions, d), the vectors added at each position."""
    if isinstance(positions, LearnedPositions):
        return positions.table.detach()
    if isinstance(positions, SinusoidalPositions):
        return sinusoids(POSITIONS, dim)
    return torch.zeros(POSITIONS, dim)  # without a table, CTranslate2 adds sinusoids


def longest(model: Transformer) -> int:
    """The longest sentence in positions, including eos."""
    return len(table(model.positions_source, 1))


def _encoder_layer(layer: Any, ours: nn.Module) -> None:
    assert isinstance(ours, EncoderLayer)
    _self_attention(layer.self_attention, ours.attention)
    _norm(layer.self_attention.layer_norm, ours.around_attention.norm)
    _feed_forward(layer.ffn, ours.feed_forward)
    _norm(layer.ffn.layer_norm, ours.around_feed_forward.norm)


def _decoder_layer(layer: Any, ours: nn.Module) -> None:
    assert isinstance(ours, DecoderLayer)
    _self_attention(layer.self_attention, ours.self_attention)
    _norm(layer.self_attention.layer_norm, ours.around_self_attention.norm)
    heads = ours.source_attention
    _linear(layer.attention.linear[0], heads.W_Q)
    _linear(layer.attention.linear[1], heads.W_K, heads.W_V)
    _linear(layer.attention.linear[2], heads.W_O)
    _norm(layer.attention.layer_norm, ours.around_source_attention.norm)
    _feed_forward(layer.ffn, ours.feed_forward)
    _norm(layer.ffn.layer_norm, ours.around_feed_forward.norm)


def _self_attention(spec: Any, heads: MultiHead) -> None:
    _linear(spec.linear[0], heads.W_Q, heads.W_K, heads.W_V)
    _linear(spec.linear[1], heads.W_O)


def _feed_forward(spec: Any, ours: FeedForward) -> None:
    _linear(spec.linear_0, ours.W_1)
    _linear(spec.linear_1, ours.W_2)


def _linear(spec: Any, *parts: nn.Linear) -> None:
    """Stack matrices that share an input, and their biases if they have any."""
    spec.weight = _array(torch.cat([part.weight for part in parts]))
    biases: list[Tensor] = [part.bias for part in parts if part.bias is not None]
    if biases:
        spec.bias = _array(torch.cat(biases))


def _norm(spec: Any, norm: nn.Module) -> None:
    assert isinstance(norm, LayerNorm)
    spec.gamma, spec.beta = _array(norm.weight), _array(norm.bias)


def _array(x: Tensor) -> Any:
    return x.detach().float().cpu().numpy()


class EngineTranslator(TextTranslator):
    """CTranslate2's engine with our tokenizers; uses a GPU if it finds one."""

    def __init__(self, exported: Export) -> None:
        needs("export", "ctranslate2")
        import ctranslate2

        super().__init__(exported.source, exported.target, aligner=ALIGNER)
        self.longest = exported.longest
        self._numbers = {piece: number for number, piece in enumerate(exported.target.vocabulary)}
        try:
            self.engine = ctranslate2.Translator(
                str(exported.folder), device="auto", intra_threads=torch.get_num_threads()
            )
        except RuntimeError as error:
            raise DataError(f"{exported.folder}: CTranslate2 cannot read it: {error}") from error

    def decode(self, encoded: list[list[int]], decoding: Decoding, attention: bool) -> list[list[Hypothesis]]:
        check_length(encoded, self.longest)
        found = [] if attention else self._in_groups(encoded, decoding)
        for number, source in enumerate(encoded):
            # one by one: for a batch, CTranslate2 4.8 returns the first step's attention of another sentence
            if attention or UNK in source or any(UNK in each.tokens for each in found[number]):
                found[number : number + 1] = self._search([source], decoding, attention=True)
        return found

    def _in_groups(self, encoded: list[list[int]], decoding: Decoding) -> list[list[Hypothesis]]:
        """Group sentences by maximum length, because the engine has one maximum per batch."""
        groups: dict[int, list[int]] = {}
        for row, limit in enumerate(_limits(encoded, decoding)):
            groups.setdefault(limit, []).append(row)
        found: list[list[Hypothesis]] = [[] for _ in encoded]
        for rows in groups.values():
            results = self._search([encoded[row] for row in rows], decoding, attention=False)
            for row, hypotheses in zip(rows, results, strict=True):
                found[row] = hypotheses
        return found

    def _search(
        self, encoded: list[list[int]], decoding: Decoding, *, attention: bool
    ) -> list[list[Hypothesis]]:
        width = decoding.width
        results = self.engine.translate_batch(
            [[self.source.vocabulary[number] for number in row] for row in encoded],
            beam_size=width,
            num_hypotheses=width,
            length_penalty=0,  # plain log-probabilities
            max_input_length=0,
            max_decoding_length=min(*_limits(encoded, decoding), self.longest),
            min_decoding_length=0,
            suppress_sequences=[[PAD_PIECE], [BOS_PIECE]],
            return_scores=True,
            return_end_token=True,
            return_attention=attention,
        )
        return [self._hypotheses(result, decoding) for result in results]

    def _hypotheses(self, result: Any, decoding: Decoding) -> list[Hypothesis]:
        # greedy decoding has only one hypothesis
        penalty = decoding.rule if decoding.width > 1 else PowerPenalty(0.0)
        found = []
        for number, (pieces, total) in enumerate(zip(result.hypotheses, result.scores, strict=True)):
            tokens = tuple(self._numbers[piece] for piece in pieces)
            weights = {ALIGNER: torch.tensor(result.attention[number])} if result.attention else {}
            # the engine returns only the sum over steps
            found.append(Track(tokens, torch.tensor([total]).double(), weights).hypothesis(penalty))
        return sorted(found, key=rank)[: decoding.nbest]


def _limits(encoded: list[list[int]], decoding: Decoding) -> list[int]:
    """The maximum number of steps for each sentence, as in our own search."""
    batch = pair_batch(encoded, [[] for _ in encoded])
    return limits_of(batch, decoding.maximum, 0).tolist()
