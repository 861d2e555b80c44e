"""Show, attend and tell: a caption is written while attention moves over the picture.

    (i, f, o, g) = (σ, σ, σ, tanh) T(E y_{t-1}, h_{t-1}, ẑ_t)         (equation 1)
    c_t = f ∘ c_{t-1} + i ∘ g,  h_t = o ∘ tanh(c_t)                    (equations 2 and 3)
    e_ti = f_att(a_i, h_{t-1}),  α_t = softmax(e_t)                    (equations 4 and 5)
    p(y_t) ∝ exp(L_o (E y_{t-1} + L_h h_t + L_z ẑ_t))                  (equation 7; tanh around the sum)

    soft     ẑ_t = β_t Σ_i α_ti a_i,  β_t = σ(f_β(h_{t-1}))            (section 4.2.1)
             L_d = -log p(y | a) + λ Σ_i (1 - Σ_t α_ti)²               (equation 14)
    hard     s_t ~ Multinoulli(α_t),  ẑ_t = Σ_i s_ti a_i               (equations 8 and 9)
             ∂L_s ≈ ∂log p(y | s̃, a) + λ_r (log p(y | s̃, a) - b) ∂log p(s̃ | a) + λ_e ∂H[s̃]

    paper     here                   shape
    a_i       annotations            (B, L, D)   places of a grid, row by row
    y_t       batch.target           (B, T)
    h_t c_t   h, c                   (B, n)
    ẑ_t       context                (B, D)
    T         W, U, Z                of the word before, the state before, the context
    f_att     attention.score        additive; normalizer softmax, hard, gumbel-softmax, mean, …
    f_β       gate                   a number a step; it also stands before a sampled place
    λ λ_r λ_e coverage, reward, entropy
    b         baseline               moving average of log p of a word; n words have the baseline n b

A location is credited with the whole caption as printed (`credit` "caption"), or with the words from its own
on ("rest"); both gradients have the same mean. With "word", as in the released program, it is credited with
its own word only: its effect on later words through the state is ignored, and so is their noise. The baseline
of its own word is b, or (`compared` "expected") the word's log-probability if the same state had seen the
expectation Σ_i α_ti a_i. That depends on no sample of the step, so the mean of the gradient is unchanged, and
the advantage tells whether the location was better than their mixture.

The paper has two networks for h_0 and c_0, each over the mean annotation. Here, as in the released program,
they share their first layer (`start_layer`).

A picture is sampled with probability `sampled`, otherwise s̃ is replaced by α; in the first `soft_start` of
the steps none is.

Xu, Ba, Kiros, Cho, Courville, Salakhutdinov, Zemel, Bengio. Show, attend and tell: neural image caption
generation with visual attention. 2015. https://arxiv.org/abs/1502.03044
"""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.config import AttentionConfig, attention_field
from regard.attention.normalizers.hard import Hard
from regard.attention.normalizers.softmax import Softmax
from regard.attention.numerics import upcast
from regard.attention.reference import weighted_sum
from regard.attention.result import AttentionResult
from regard.attention.source import Source
from regard.catalog import card
from regard.data.batches import PairBatch
from regard.data.tokens import BOS
from regard.errors import check_sizes
from regard.layers.convolution import SmallConvolution
from regard.models.base import Settings, Share, Size, Translating, teacher_inputs
from regard.tasks.base import Scored

MOVED = 0.1  # weight of a batch in the moving average


@dataclass(frozen=True, kw_only=True)
class ShowAttendTellConfig(Settings, key="show-attend-tell"):
    """Sizes and choices; the released program has 512 for embedding and attention, hidden 1800 for COCO."""

    target_vocab: int
    features: int = 0  # D of annotations from the task; 0: a small network makes them from pictures
    channels: Size = 32  # of that network
    annotation: Size = 128  # its D
    embedding: Size = 512
    hidden: Size = 1800
    dropout: Share = 0.5
    # normalizer "hard" is trained by REINFORCE, "gumbel-softmax" is relaxed, "mean" sees no location;
    # the weights are part of the loss: a fused kernel does not keep them and would compute them twice
    attention: AttentionConfig = attention_field(
        "additive", hidden=512, kernel="reference", fixed=("score", "window", "heads")
    )
    coverage: float = 1.0  # λ
    share: Literal["one", "even"] = "one"  # a location's weights sum to 1, or to steps / locations
    sampled: Share = 0.5  # hard: probability of sampling a picture's locations in training
    reward: float = 1.0  # hard: λ_r
    entropy: float = 0.0  # hard: λ_e
    credit: Literal["word", "rest", "caption"] = "rest"  # hard: the words that a location is credited with
    compared: Literal["average", "expected"] = "average"  # hard: the baseline of a location's own word
    soft_start: Share = 0.0  # hard: the initial share of the steps without sampling

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes("show-attend-tell", self, "coverage", "reward", "entropy", least=0)


class TellState(NamedTuple):
    """The decoder's state."""

    h: Tensor  # (B, n)
    c: Tensor  # (B, n)
    source: Source


class Look(NamedTuple):
    """What a step attended to, and from which state, as the losses need it."""

    h: Tensor  # (B, n) h_{t-1}
    c: Tensor  # (B, n) c_{t-1}
    weights: Tensor  # (B, L) α_t
    log_probability: Tensor | None  # (B,) of the sampled location; None without sampling


@card(
    "model",
    "show-attend-tell",
    title="Show, attend and tell",
    authors="Xu et al.",
    year=2015,
    link="https://arxiv.org/abs/1502.03044",
    sentence="A caption is written while attention, soft or hard, moves over the picture.",
)
class ShowAttendTell(Translating):
    """Annotations, attention, LSTM, deep output."""

    Config = ShowAttendTellConfig
    reads = ("pictures with captions",)
    aligner = "attention"
    baseline: Tensor
    sampling: bool = True  # False in the soft start

    def __init__(self, config: ShowAttendTellConfig) -> None:
        super().__init__(config)
        n, m = config.hidden, config.embedding
        D = config.features or config.annotation
        self.encoder = (
            nn.Identity() if config.features else SmallConvolution(channels=config.channels, features=D)
        )
        self.E = nn.Embedding(config.target_vocab, m, padding_idx=BOS)  # the first word follows a zero vector
        self.start_layer = nn.Linear(D, n)
        self.start_h, self.start_c = nn.Linear(n, n), nn.Linear(n, n)
        self.attention = config.attention.build(query=n, keys=D)
        self.expect = Softmax()  # α of a hard choice
        self.gate = nn.Linear(n, 1)
        self.W, self.U = nn.Linear(m, 4 * n), nn.Linear(n, 4 * n, bias=False)
        self.Z = nn.Linear(D, 4 * n, bias=False)
        self.L_h, self.L_z = nn.Linear(n, m), nn.Linear(D, m, bias=False)
        self.L_o = nn.Linear(m, config.target_vocab)
        self.dropout = nn.Dropout(config.dropout)
        self.register_buffer("baseline", torch.zeros(()))
        with torch.no_grad():
            nn.init.ones_(self.W.bias[n : 2 * n])  # open forget gates

    def at_step(self, step: int, steps: int) -> bool:
        """Start sampling after the soft start; before and after are two phases."""
        self.sampling = step > self.config.soft_start * steps
        return self.sampling

    @property
    def reinforces(self) -> bool:
        """Whether locations are sampled without a gradient, so that REINFORCE must train the attention."""
        return isinstance(self.attention.normalizer, Hard)

    def forward(self, batch: PairBatch) -> Scored:
        """Teacher forcing: scores of each target word, and in training the additional losses."""
        h, c, source = self.start(batch)
        words = self.E(teacher_inputs(batch))
        projected = self.W(words).unbind(1)
        sampled = None
        if self.training and self.reinforces:
            share = self.config.sampled if self.sampling else 0.0
            sampled = torch.rand(batch.size, device=h.device) < share
        states, contexts, looks = [], [], []
        for word in projected:
            result = self.attention(h[:, None], source)
            found, weights, log_probability = self._found(result, source, sampled)
            looks.append(Look(h, c, weights, log_probability))
            h, c, context = self._advance(word, h, c, found)
            states.append(h)
            contexts.append(context)
        scores = self._tell(words, torch.stack(states, 1), torch.stack(contexts, 1))
        if not self.training:
            return Scored(scores, scores.new_zeros(()))
        return Scored(scores, self._extra(scores, words, batch, looks, source, sampled))

    def start(self, batch: PairBatch) -> TellState:
        annotations = self.encoder(batch.source).to(self.start_layer.weight.dtype)
        first = torch.relu(self.start_layer(self.dropout(annotations.mean(1))))
        source = self.attention.prepare(annotations)
        return TellState(torch.tanh(self.start_h(first)), torch.tanh(self.start_c(first)), source)

    def step(self, tokens: Tensor, state: TellState) -> tuple[Tensor, TellState]:
        word = self.E(tokens)
        found = self.attention(state.h[:, None], state.source).context[:, 0]
        h, c, context = self._advance(self.W(word), state.h, state.c, found)
        return self._tell(word, h, context).log_softmax(-1), TellState(h, c, state.source)

    def select(self, state: TellState, rows: Tensor) -> TellState:
        return TellState(state.h[rows], state.c[rows], state.source.share(rows))

    def _found(
        self, result: AttentionResult, source: Source, sampled: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """(B, D) the attended features, (B, L) α_t, (B,) log p of a sampled location.

        For pictures that are not sampled, the features are the expectation.
        """
        if sampled is None:
            return result.context[:, 0], result.weights[:, 0], None
        expected = self.expect(result.scores)  # (B, 1, L)
        weights = torch.where(sampled[:, None, None], result.weights, expected)
        return weighted_sum(weights, source.values)[:, 0], expected[:, 0], result.log_probability[:, 0]

    def _advance(self, word: Tensor, h: Tensor, c: Tensor, found: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """(B, 4 n) the projected word, the state, (B, D) attended features -> the next state, (B, D) ẑ_t."""
        context = torch.sigmoid(self.gate(h)) * found
        i, f, o, g = (word + self.U(h) + self.Z(context)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c, context

    def _tell(self, word: Tensor, h: Tensor, context: Tensor) -> Tensor:
        """(..., m), (..., n), (..., D) -> (..., V)."""
        return self.L_o(self.dropout(torch.tanh(word + self.L_h(self.dropout(h)) + self.L_z(context))))

    def _extra(
        self,
        scores: Tensor,
        words: Tensor,
        batch: PairBatch,
        looks: list[Look],
        source: Source,
        sampled: Tensor | None,
    ) -> Tensor:
        """() the doubly stochastic penalty, and REINFORCE if locations were sampled."""
        t = torch.arange(scores.shape[1], device=scores.device)
        alpha = torch.stack([look.weights for look in looks], 1)  # (B, T, L)
        real = (t < batch.target_lengths[:, None]).to(alpha.dtype)  # (B, T)
        extra = self.config.coverage * uneven(alpha * real[..., None], share=self.config.share).sum()
        if sampled is None:
            return extra
        told, own = log_likelihood(scores, batch) * real, self.baseline * real
        if self.config.compared == "expected":
            own = self._expected(words, batch, looks, source) * real
        above = advantage(told, real, own, self.baseline, credit=self.config.credit)
        extra = extra + self._reinforce(above * sampled[:, None], alpha, real, looks)
        with torch.no_grad():
            self.baseline.lerp_((told.sum() / real.sum()).to(self.baseline.dtype), MOVED)
        return extra

    def _reinforce(self, above: Tensor, alpha: Tensor, real: Tensor, looks: list[Look]) -> Tensor:
        """() raises the probability of locations with a positive advantage, and the entropy."""
        logs = torch.stack([look.log_probability for look in looks if look.log_probability is not None], 1)
        # entr() has an infinite gradient at a weight of 0
        entropy = -(alpha * alpha.clamp(min=torch.finfo(alpha.dtype).tiny).log()).sum(-1) * real
        return -self.config.reward * (above * logs).sum() - self.config.entropy * entropy.sum()

    @torch.no_grad()
    def _expected(self, words: Tensor, batch: PairBatch, looks: list[Look], source: Source) -> Tensor:
        """(B, T, m) words -> (B, T) log p of each target word if its step had seen Σ_i α_ti a_i."""
        before, cell = torch.stack([look.h for look in looks], 1), torch.stack([look.c for look in looks], 1)
        alpha = torch.stack([look.weights for look in looks], 1)  # (B, T, L)
        h, _, context = self._advance(self.W(words), before, cell, weighted_sum(alpha, source.values))
        return log_likelihood(self._tell(words, h, context), batch)


def log_likelihood(scores: Tensor, batch: PairBatch) -> Tensor:
    """(B, T, V) -> (B, T) log p of each target word, without gradient; arbitrary on padding."""
    return upcast(scores.detach()).log_softmax(-1).gather(-1, batch.target[..., None])[..., 0]


def uneven(alpha: Tensor, *, share: Literal["one", "even"]) -> Tensor:
    """(B, T, L) weights, zero on padding -> (B,) Σ_i (τ - Σ_t α_ti)², where τ is 1 or steps / locations.

    The weights of a step sum to 1, so τ only changes a constant: (1 - C / L)² L for C steps and L locations.
    The gradient is that of Σ_i (Σ_t α_ti)² either way; with steps / locations the loss can reach 0.
    """
    looked = alpha.sum(1)  # (B, L)
    wanted = torch.ones_like(looked) if share == "one" else looked.detach().mean(-1, keepdim=True)
    return (wanted - looked).square().sum(-1)


def advantage(
    told: Tensor, real: Tensor, own: Tensor, later: Tensor, *, credit: Literal["word", "rest", "caption"]
) -> Tensor:
    """(B, T) reward minus baseline of each location.

    `told` (B, T) is log p of each word, `real` 1 on words, `own` the baseline of a location's own word, all 0
    on padding; `later` () is the baseline of any other word that it is credited with.
    """
    word = told - own
    if credit == "word":
        return word
    above = told - later * real
    total = above.sum(1, keepdim=True)
    return (word + total - (above if credit == "caption" else above.cumsum(1))) * real
