"""The memory network as a language model: the previous words are the memories, and the question is constant.

    m_i = A x_i + T_A(i),  c_i = C x_i + T_C(i),  u^1 = (0.1, …, 0.1)                     (section 5)
    p_i = softmax(u^kᵀ m_i),  o^k = Σ_i p_i c_i,  u^{k+1} = f(H u^k + o^k)
    p(w) = softmax(W u^{K+1})

    paper    here               shape
    x_i      windows            (B T, M) the M words before each predicted one
    A C      A, C               (V, d) tables, the same for all hops (layer-wise tying)
    T_A T_C  time_A, time_C     (M, d), the last row for the word just before
    p_i      weights of hops.k  (B T, 1, M)
    f        a ReLU on half of the units
    W        W                  (V, d)

Sukhbaatar, Szlam, Weston, Fergus. End-to-end memory networks. 2015. https://arxiv.org/abs/1503.08895
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.record import record
from regard.attention.scores.dot import DotScore
from regard.catalog import card
from regard.data.text_windows import StreamBatch
from regard.errors import ConfigError, check_finite
from regard.models.base import Model, Settings, Share, Size
from regard.models.memn2n import rectify

QUESTION = 0.1  # every component of u^1


@dataclass(frozen=True, kw_only=True)
class MemN2NLanguageConfig(Settings, key="memn2n-lm"):
    """Sizes; the paper's best on Penn Treebank are d = 150, 7 hops, 150 memories."""

    vocab: Size
    context: Size = 100  # M, words in memory
    embedding: Size = 150  # d
    hops: Size = 6  # K
    relu: Share = 0.5  # share of the units with a ReLU after each hop
    spread: float = 0.05  # standard deviation of the initial weights
    dropout: float = 0.0  # of the memories and of the last hop's output; the paper has none

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite("memn2n-lm", above=0, spread=self.spread)
        if not 0 <= self.dropout < 1:
            raise ConfigError(f"memn2n-lm: `dropout` has {self.dropout}; expected 0 or more, less than 1.")


@card(
    "model",
    "memn2n-lm",
    title="Memory network language model",
    authors="Sukhbaatar, Szlam, Weston, Fergus",
    year=2015,
    link="https://arxiv.org/abs/1503.08895",
    sentence="Predicts the next word from the words before it: memories that several hops read.",
)
class MemN2NLanguage(Model):
    """Predicts the next word from the previous ones, read in several hops."""

    Config = MemN2NLanguageConfig
    reads = ("running text",)

    def __init__(self, config: MemN2NLanguageConfig) -> None:
        super().__init__(config)
        V, M, d = config.vocab, config.context, config.embedding
        self.A, self.C = nn.Embedding(V, d), nn.Embedding(V, d)
        self.time_A, self.time_C = nn.Parameter(torch.empty(M, d)), nn.Parameter(torch.empty(M, d))
        self.H = nn.Linear(d, d, bias=False)
        self.W = nn.Linear(d, V, bias=False)
        self.hops = nn.ModuleList(Attention(DotScore(scale=1.0)) for _ in range(config.hops))
        self.dropout = nn.Dropout(config.dropout)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=config.spread)

    def forward(self, batch: StreamBatch) -> Tensor:
        """(B, T, V) scores of each target word given the words before it."""
        B, T = batch.targets.shape
        windows = batch.inputs.unfold(1, self.config.context, 1).flatten(0, 1)  # (B T, M)
        keys = self.dropout(self.A(windows) + self.time_A)
        values = self.dropout(self.C(windows) + self.time_C)
        u = keys.new_full((len(windows), 1, self.config.embedding), QUESTION)
        for hop in self.hops:
            assert isinstance(hop, Attention)
            u = rectify(self.H(u) + hop(u, hop.prepare(keys, values)).context, self.config.relu)
        return torch.matmul(self.dropout(u), self.W.weight.mT).view(B, T, -1)

    def lookback(self, batch: StreamBatch) -> list[tuple[str, Tensor]]:
        """The name of each hop, and (T, C + T - 1) the weights of the first row's words over the inputs."""
        B, T = batch.targets.shape
        M = self.config.context
        with record(self) as trace, torch.no_grad():
            self(batch)
        maps = []
        for k in range(len(self.hops)):
            weights = trace[f"hops.{k}"][0].weights.view(B, T, M)[0]
            full = weights.new_zeros(T, M + T - 1)
            for t in range(T):
                full[t, t : t + M] = weights[t]
            maps.append((f"hop {k + 1}", full))
        return maps
