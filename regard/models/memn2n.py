"""End-to-end memory network: each hop reads from the sentences what the previous hops asked for.

    m_i = Σ_j l_j · A x_ij + T_A(i),  c_i = Σ_j l_j · C x_ij + T_C(i),  u = Σ_j l_j · B q_j      (section 4.1)
    p_i = softmax(uᵀ m_i),  o = Σ_i p_i c_i                                            (equations 1 and 2)
    u^{k+1} = u^k + o^k,  â = softmax(W u^{K+1})                                       (equations 3 and 4)

    position encoding    l_kj = (1 - j/J) - (k/d)(1 - 2j/J)           bag of words: 1
    adjacent tying       A^{k+1} = C^k,  B = A^1,  Wᵀ = C^K
    layer-wise tying     A^1 = … = A^K,  C^1 = … = C^K,  u^{k+1} = H u^k + o^k
    linear start         p_i = uᵀ m_i until the softmax is put in

    paper    here                shape
    x_ij     batch.sentences     (N, J) words of the different sentences of a batch; the null word is number 0
    x_i q    .stories .question  (B, S), (B,) rows of these, the oldest sentence first
    A B C    tables              (tables, V, d), side by side in the order in which hops use them
    T_A T_C  time                (tables, M, d), row 0 for the most recent sentence
    m_i c_i  keys, values        (B, S, d)
    p_i      weights of hops.k   (B, 1, S)
    u o      u, context          (B, 1, d)

The position encoding is linear in j/J, so a sentence is a blend of two sums of word vectors, plain and
weighted by j/J: m_k = (1 - k/d) Σ_j A_k + (2k/d - 1) Σ_j (j/J) A_k. No tensor over the words of all
sentences is materialized.

Two things are in the authors' code but not in the paper, and bAbI is learnt less well without them. The
weights l are doubled (`gain = 2`). And all M memories take part in every softmax, empty ones as zeros
(`blanks`): they score 0 and add nothing, so a hop that finds nothing can leave u unchanged.

Random noise: in training, empty memories (up to a tenth of the number of sentences) are inserted at random
places. As in the authors' code they stay out of the softmax; they only make sentences appear older. The
authors switch the softmax on when the validation loss stops falling; here this happens after a share of the
steps, so that the model depends on the step only and a run can resume anywhere.

Sukhbaatar, Szlam, Weston, Fergus. End-to-end memory networks. 2015. https://arxiv.org/abs/1503.08895
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.config import AttentionConfig, attention_field
from regard.attention.mask import Mask
from regard.attention.normalizers.base import Normalizer
from regard.catalog import card
from regard.data.questions import StoryBatch
from regard.errors import ConfigError, check_finite
from regard.models.base import Model, Settings, Share, Size


@dataclass(frozen=True, kw_only=True)
class MemN2NConfig(Settings, key="memn2n"):
    """Sizes and choices; the paper's are 3 hops, adjacent tying, d = 20 for one bAbI task and 50 for all."""

    vocab: Size
    memory: Size = 50  # M, sentences
    embedding: Size = 50  # d
    hops: Size = 3  # K
    tying: Literal["adjacent", "layer-wise"] = "adjacent"
    encoding: Literal["position", "bag"] = "position"
    gain: float = 1.0  # factor on the sum over a sentence's words
    blanks: bool = False  # empty memories take part in the softmax
    time: bool = True
    noise: Share = 0.1  # empty memories in training, as a share of the sentences; 0: none
    linear_start: Share = 0.0  # share of the steps before the softmax is switched on
    relu: Share = 0.0  # share of the units with a ReLU after each hop
    attention: AttentionConfig = attention_field("dot", fixed=("score", "window", "heads"))
    spread: float = 0.1  # standard deviation of the initial weights

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite("memn2n", above=0, gain=self.gain, spread=self.spread)


class LinearStart(Normalizer):
    """Returns the scores unchanged while `linear`, then applies another normalizer.

    The flag is a tensor, so that a captured graph follows it and a checkpoint keeps it.
    """

    linear: Tensor  # () bool

    def __init__(self, after: Normalizer) -> None:
        super().__init__()
        self.after = after
        self.register_buffer("linear", torch.tensor(False))

    def normalize(self, scores: Tensor) -> Tensor:
        visible = scores.masked_fill(torch.isneginf(scores), 0.0)
        return torch.where(self.linear, visible, self.after.normalize(scores))


@card(
    "model",
    "memn2n",
    title="End-to-end memory network",
    authors="Sukhbaatar, Szlam, Weston, Fergus",
    year=2015,
    link="https://arxiv.org/abs/1503.08895",
    sentence=(
        "A question hops over the sentences of a story, each hop reading what the one before it asked for."
    ),
)
class MemN2N(Model):
    """Embeds the question, hops over the story's sentences, answers."""

    Config = MemN2NConfig
    reads = ("stories with questions",)

    def __init__(self, config: MemN2NConfig) -> None:
        super().__init__(config)
        V, M, d, K = config.vocab, config.memory, config.embedding, config.hops
        adjacent = config.tying == "adjacent"
        # (A, C) of each hop and B, as places among the tables; the memories' own tables come first
        self.places = [(k, k + 1) for k in range(K)] if adjacent else [(0, 1)] * K
        self.told, self.asked = (K + 1, 0) if adjacent else (2, 2)
        self.tables = nn.Parameter(torch.empty(K + 1 if adjacent else 3, V, d))
        self.time = nn.Parameter(torch.empty(self.told, M, d)) if config.time else None
        self.H = nn.Identity() if adjacent else nn.Linear(d, d, bias=False)
        self.W = None if adjacent else nn.Linear(d, V, bias=False)  # None: the last C
        self.hops = nn.ModuleList(build_hop(config) for _ in range(K))
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=config.spread)

    def at_step(self, step: int, steps: int) -> None:
        """Switch the softmax on after a share of the steps. The switch is a tensor: all is one phase."""
        for hop in self.attentions():
            if isinstance(hop.normalizer, LinearStart):
                hop.normalizer.linear.fill_(step <= self.config.linear_start * steps)

    def forward(self, batch: StoryBatch) -> Tensor:
        """(B, V) scores of each word as the answer."""
        encoded = self.encode(F.pad(batch.sentences, (0, 0, 0, 1)))  # (N + 1, tables, d), the last one zero
        u = encoded[:, self.asked].index_select(0, batch.question)[:, None]  # (B, 1, d)
        memories = rows(encoded[:, : self.told], self.fill(batch.stories, batch, len(encoded) - 1))
        if self.time is not None:
            time = F.pad(self.time.transpose(0, 1), (0, 0, 0, 0, 0, 1))
            memories = memories + rows(time, self.fill(self.ages(batch), batch, self.config.memory))
        mask = Mask() if self.config.blanks else Mask(lengths=batch.counts)
        told = memories.unbind(2)
        for (a, c), hop in zip(self.places, self.attentions(), strict=True):
            found = hop(u, hop.prepare(told[a], told[c], mask)).context
            u = rectify(self.H(u) + found, self.config.relu)
        W = self.tables[-1] if self.W is None else self.W.weight
        return (u @ W.mT)[:, 0]

    def attentions(self) -> list[Attention]:
        """The attention module of each hop."""
        return [hop for hop in self.hops if isinstance(hop, Attention)]

    def encode(self, words: Tensor) -> Tensor:
        """(N, J) words -> (N, tables, d): each sentence under every table."""
        tables, V, d = self.tables.shape
        real = (words != 0).to(self.tables)
        count = real.sum(1, keepdim=True).clamp(min=1)  # J
        place = real.cumsum(1) / count  # j / J; unknown words are left out of both
        # x_i as in the paper, a vector over the vocabulary: word counts, then counts weighted by j / J
        bag = self.tables.new_zeros(len(words), 2 * V)
        bag.scatter_add_(1, torch.cat([words, words + V], 1), torch.cat([real, real * place], 1))
        plain, placed = position_blend(self.tables) if self.config.encoding == "position" else (1.0, 0.0)
        # (tables, 2 V, d)
        blended = torch.cat([self.tables * plain, self.tables * placed], 1) * self.config.gain
        return (bag @ blended.transpose(0, 1).reshape(2 * V, -1)).view(-1, tables, d)

    def fill(self, numbers: Tensor, batch: StoryBatch, blank: int) -> Tensor:
        """(B, S) -> (B, M), with `blank` for missing sentences; unchanged if the config has no blanks."""
        if not self.config.blanks:
            return numbers
        S = numbers.shape[1]
        absent = torch.arange(S, device=numbers.device) >= batch.counts[:, None]
        return F.pad(numbers.masked_fill(absent, blank), (0, self.config.memory - S), value=blank)

    def ages(self, batch: StoryBatch) -> Tensor:
        """(B, S), the number of memories more recent than each sentence, including empty ones."""
        S = batch.stories.shape[1]
        position = torch.arange(S, device=batch.counts.device)
        age = batch.counts[:, None] - 1 - position
        if self.training and self.config.noise:
            age = age + empty_after(batch.counts, S, self.config.noise)
        return age.clamp(0, self.config.memory - 1)


def rows(table: Tensor, numbers: Tensor) -> Tensor:
    """(N, tables, d), (B, S) -> (B, S, tables, d)."""
    return table.index_select(0, numbers.flatten()).view(*numbers.shape, *table.shape[1:])


def empty_after(counts: Tensor, S: int, share: float) -> Tensor:
    """(B,), S -> (B, S), the number of empty memories after each sentence.

    A story of n sentences gets 0 to ⌈share · n⌉ of them, each in a random one of its n + 1 gaps.
    """
    most = math.ceil(share * S)
    chance = torch.rand(2, *counts.shape, most, device=counts.device)
    number = chance[0, :, :1] * ((share * counts).ceil()[:, None] + 1)  # uniform on [0, ⌈share · n⌉ + 1)
    exists = torch.arange(1, most + 1, device=counts.device) <= number  # (B, most)
    gap = chance[1] * (counts[:, None] + 1)  # before sentence ⌊gap⌋
    position = torch.arange(S, device=counts.device)[:, None]
    return ((gap[:, None] >= position + 1) & exists[:, None]).sum(-1)


def position_blend(tables: Tensor) -> tuple[Tensor, Tensor]:
    """(..., d) -> (d,), (d,): the factors 1 - k/d and 2k/d - 1 of the plain and the weighted sum."""
    d = tables.shape[-1]
    share = torch.arange(1, d + 1, device=tables.device, dtype=tables.dtype) / d
    return 1 - share, 2 * share - 1


def rectify(u: Tensor, share: float) -> Tensor:
    """Apply a ReLU to the first `share` of the units."""
    size = round(share * u.shape[-1])
    return u if size == 0 else torch.cat([u[..., :size].relu(), u[..., size:]], -1)


def build_hop(config: MemN2NConfig) -> Attention:
    """The attention of a hop, with its normalizer inside a LinearStart if configured."""
    hop = config.attention.build(query=config.embedding, keys=config.embedding)
    if not config.linear_start:
        return hop
    if not isinstance(hop.normalizer, Normalizer):
        raise ConfigError(
            f"memn2n: `attention.normalizer` has {config.attention.normalizer!r} with a linear start; "
            "expected one without history."
        )
    hop.normalizer = LinearStart(hop.normalizer)
    return hop
