"""Decomposable attention: attend, compare, aggregate. Two sentences are compared word by word, without order.

    e_ij = F(ā_i)ᵀ F(b̄_j)                                                          attend (equation 1)
    β_i = Σ_j softmax_j(e_ij) b̄_j,     α_j = Σ_i softmax_i(e_ij) ā_i               (equation 2)
    v_1,i = G([ā_i; β_i]),             v_2,j = G([b̄_j; α_j])                       compare (equation 3)
    v_1 = Σ_i v_1,i,   v_2 = Σ_j v_2,j,   ŷ = H([v_1; v_2])                        aggregate (equations 4, 5)

and with intra-sentence attention ā_i = [a_i; a'_i] in place of ā_i = a_i:

    f_ij = F_intra(a_i)ᵀ F_intra(a_j),   a'_i = Σ_j softmax_j(f_ij + d_{i-j}) a_j  (equation 7)

    paper     here             shape
    a b       words            (B, T, d)   word vectors times P, which has no bias; NULL is the first word
    ā b̄       a, b             (B, T, d), or (B, T, 2 d) with intra-sentence attention
    F G H     F, G, H          two layers of d rectified units; H has one more, linear, to the classes
    β α       attend           contexts of one attention, asked in both directions
    d_{i-j}   see regard.layers.distance

F runs once per word, not once per pair of words. Only d_{i-j} depends on order: without intra-sentence
attention, permuting either sentence changes nothing.

The paper's sizes: embedding 300, hidden 200, pretrained word vectors that stay fixed. 381,803 trained
parameters, 582,225 with intra-sentence attention; the paper reports 382 k and 582 k.

Parikh, Täckström, Das, Uszkoreit. A decomposable attention model for natural language inference. 2016.
https://arxiv.org/abs/1606.01933
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.config import AttentionConfig, attention_field
from regard.attention.mask import Mask
from regard.catalog import card
from regard.data.entailment import PairTextBatch
from regard.errors import ConfigError
from regard.layers.distance import DistanceScore, with_positions
from regard.models.base import Model, Settings, Share, Size


@dataclass(frozen=True, kw_only=True)
class BagOfWordsConfig(Settings, key="bag-of-words"):
    """Sizes; the paper's for its own model are embedding 300, hidden 200, dropout 0.2."""

    vocab: int
    classes: int
    embedding: Size = 300
    hidden: Size = 200
    fixed: bool = False  # word vectors are not trained, as in the paper
    dropout: Share = 0.2


@dataclass(frozen=True, kw_only=True)
class DecomposableConfig(BagOfWordsConfig, key="decomposable"):
    """Sizes and choices."""

    intra: bool = False  # each word also attends to its own sentence
    far: int = 10  # larger distances share one bias
    # normalizer "mean": the other sentence, unaligned; the kernel is that of both attentions
    attention: AttentionConfig = attention_field(
        "dot", fixed=("score", "window", "heads"), normalizers=("softmax", "sparsemax", "mean")
    )


class PairClassifier(Model):
    """Classifies two sentences from a vector of each by H; base class of the models below."""

    def __init__(self, config: BagOfWordsConfig) -> None:
        super().__init__(config)
        d = config.hidden
        self.E = nn.Embedding(config.vocab, config.embedding)
        self.E.weight.requires_grad_(not config.fixed)
        self.P = linear(config.embedding, d, bias=False)
        self.H = nn.Sequential(feed_forward(2 * d, d, config.dropout), linear(d, config.classes))

    def take_vectors(self, vectors: Tensor) -> None:
        """Load (V, D) pretrained word vectors."""
        if vectors.shape != self.E.weight.shape:
            raise ConfigError(
                f"{type(self).__name__}: `vectors` has shape {tuple(vectors.shape)}; expected "
                f"{tuple(self.E.weight.shape)}. Set model.embedding to the length of the vectors."
            )
        with torch.no_grad():
            self.E.weight.copy_(vectors)

    def words(self, numbers: Tensor) -> Tensor:
        """(B, T) -> (B, T, d)."""
        return self.P(self.E(numbers))


@card(
    "model",
    "decomposable",
    title="Decomposable attention",
    authors="Parikh, Täckström, Das, Uszkoreit",
    year=2016,
    link="https://arxiv.org/abs/1606.01933",
    sentence="Two sentences are aligned softly both ways, compared word by word, and the comparisons summed.",
)
class Decomposable(PairClassifier):
    """Attend, compare, aggregate."""

    Config = DecomposableConfig
    reads = ("labelled pairs of sentences",)
    aligner = "attend"

    def __init__(self, config: DecomposableConfig) -> None:
        super().__init__(config)
        d = config.hidden
        self.inside = IntraSentence(config) if config.intra else None
        wide = 2 * d if config.intra else d
        self.F = feed_forward(wide, d, config.dropout)
        self.G = feed_forward(2 * wide, d, config.dropout)
        self.attend = config.attention.build(query=d, keys=d)

    def forward(self, batch: PairTextBatch) -> Tensor:
        """(B, classes) scores."""
        of_a, of_b = batch.premise_lengths, batch.hypothesis_lengths
        a, b = self.words(batch.premise), self.words(batch.hypothesis)
        if self.inside is not None:
            a, b = self.inside(a, of_a), self.inside(b, of_b)
        F_a, F_b = self.F(a), self.F(b)
        beta = self.attend(F_a, self.attend.prepare(F_b, b, Mask(lengths=of_b))).context  # (B, Ta, …)
        alpha = self.attend(F_b, self.attend.prepare(F_a, a, Mask(lengths=of_a))).context  # (B, Tb, …)
        v_1 = add_up(self.G(torch.cat([a, beta], -1)), of_a)
        v_2 = add_up(self.G(torch.cat([b, alpha], -1)), of_b)
        return self.H(torch.cat([v_1, v_2], -1))


@card(
    "model",
    "bag-of-words",
    title="Bag of words for sentence pairs",
    authors="Parikh, Täckström, Das, Uszkoreit",
    year=2016,
    link="https://arxiv.org/abs/1606.01933",
    sentence="Each sentence is the sum of its words, and neither sees the other: no attention.",
)
class BagOfWords(PairClassifier):
    """The model without attention: v_1 = Σ_i G(a_i), v_2 = Σ_j G(b_j). Neither sentence sees the other."""

    Config = BagOfWordsConfig
    reads = ("labelled pairs of sentences",)

    def __init__(self, config: BagOfWordsConfig) -> None:
        super().__init__(config)
        self.G = feed_forward(config.hidden, config.hidden, config.dropout)

    def forward(self, batch: PairTextBatch) -> Tensor:
        """(B, classes) scores."""
        v_1 = add_up(self.G(self.words(batch.premise)), batch.premise_lengths)
        v_2 = add_up(self.G(self.words(batch.hypothesis)), batch.hypothesis_lengths)
        return self.H(torch.cat([v_1, v_2], -1))


class IntraSentence(nn.Module):
    """(B, T, d), (B,) -> (B, T, 2 d): each word concatenated with its attention over its own sentence."""

    def __init__(self, config: DecomposableConfig) -> None:
        super().__init__()
        d = config.hidden
        self.F = feed_forward(d, d, config.dropout)
        self.attention = Attention(DistanceScore(far=config.far), kernel=config.attention.kernel)

    def forward(self, words: Tensor, lengths: Tensor) -> Tensor:
        f = with_positions(self.F(words))
        seen = self.attention(f, self.attention.prepare(f, words, Mask(lengths=lengths))).context
        return torch.cat([words, seen], -1)


def feed_forward(inputs: int, hidden: int, dropout: float) -> nn.Sequential:
    """Two layers of rectified units, dropout before each."""
    return nn.Sequential(
        nn.Dropout(dropout),
        linear(inputs, hidden),
        nn.ReLU(),
        nn.Dropout(dropout),
        linear(hidden, hidden),
        nn.ReLU(),
    )


def linear(inputs: int, outputs: int, *, bias: bool = True) -> nn.Linear:
    """Glorot initialization, large enough that equal words are aligned before any training."""
    layer = nn.Linear(inputs, outputs, bias=bias)
    nn.init.xavier_normal_(layer.weight)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def add_up(words: Tensor, lengths: Tensor) -> Tensor:
    """(B, T, d), (B,) -> (B, d): the sum over each sentence's real words."""
    t = torch.arange(words.shape[1], device=words.device)
    own = (t < lengths[:, None])[..., None]
    return (words * own).sum(1)
