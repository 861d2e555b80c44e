"""Small models that implement StepDecoder, and searches over them written as plain loops."""

import itertools
from typing import NamedTuple

import torch
from torch import Tensor, nn

from regard.attention.compose import Attention
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.record import record
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.data.batches import PairBatch, pair_batch
from regard.data.tokens import BOS, EOS, PAD


class TableState(NamedTuple):
    source: Tensor  # (R,) a number that identifies the source sentence
    history: Tensor  # (R,) a number that identifies all tokens so far


class TableDecoder(nn.Module):
    """Next-token probabilities looked up by source and whole history: exact, whatever the batch."""

    ROWS = 997

    def __init__(self, vocabulary: int, seed: int, spread: float = 1.5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(self.ROWS, vocabulary, generator=generator, dtype=torch.float64) * spread
        self.table = nn.Parameter(logits.log_softmax(-1))
        self.rows_run: list[int] = []

    def start(self, batch: PairBatch) -> TableState:
        positions = torch.arange(1, batch.source.shape[1] + 1)
        real = positions <= batch.source_lengths[:, None]
        source = (batch.source * positions * 17 * real).sum(-1) % self.ROWS
        return TableState(source, torch.zeros_like(source))

    def step(self, tokens: Tensor, state: TableState) -> tuple[Tensor, TableState]:
        self.rows_run.append(len(tokens))
        history = (state.history * 31 + tokens * 7 + 1) % self.ROWS
        return self.table[(history * 13 + state.source) % self.ROWS], TableState(state.source, history)

    def select(self, state: TableState, rows: Tensor) -> TableState:
        return TableState(state.source[rows], state.history[rows])


class NetState(NamedTuple):
    hidden: Tensor  # (R, D)
    source: Source  # keys and values of the annotations
    heads: Source  # the same for the multi-head layer
    past: Source | None  # what was produced, for self-attention


class NetDecoder(nn.Module):
    """A recurrent step with attention over the source by one head and by two, and over its own past."""

    def __init__(self, vocabulary: int, seed: int, size: int = 8) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(vocabulary, size)
        self.cell = nn.GRUCell(3 * size, size)
        self.attention = Attention(DotScore())
        self.multihead = MultiHead(size, 2)
        self.over_past = Attention(DotScore())
        self.dropout = nn.Dropout(0.5)
        self.out = nn.Linear(2 * size, vocabulary)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.8)

    def start(self, batch: PairBatch) -> NetState:
        keys = self.embed(batch.source)
        mask = Mask(lengths=batch.source_lengths)
        heads = self.multihead.prepare(keys, mask=mask)
        return NetState(keys[:, 0].tanh(), self.attention.prepare(keys, mask=mask), heads, None)

    def step(self, tokens: Tensor, state: NetState) -> tuple[Tensor, NetState]:
        word = self.dropout(self.embed(tokens))
        query = state.hidden[:, None]
        now = self.over_past.prepare(word[:, None])
        past = now if state.past is None else state.past.append(now)
        seen = self.attention(query, state.source).context[:, 0]
        before = self.over_past(query, past).context[:, 0]
        hidden = self.cell(torch.cat([word, seen, before], -1), state.hidden)
        second = self.multihead(hidden[:, None], state.heads).context[:, 0]
        logits = self.out(torch.cat([hidden, second], -1))
        return logits.log_softmax(-1), NetState(hidden, state.source, state.heads, past)

    def select(self, state: NetState, rows: Tensor) -> NetState:
        past = None if state.past is None else state.past.select(rows)
        return NetState(state.hidden[rows], state.source.select(rows), state.heads.select(rows), past)


class Peeking(nn.Module):
    """Attends to the source position named by the last token, so that a row of weights tells a history.

    bos looks at 0; token v at position v - 2 (the third token, 3, at 1). Probabilities come from a dictionary
    history -> {token: probability}.
    """

    def __init__(self, probabilities: dict[tuple[int, ...], dict[int, float]], vocabulary: int) -> None:
        super().__init__()
        self.probabilities = probabilities
        self.vocabulary = vocabulary
        self.attention = Attention(DotScore())

    def start(self, batch: PairBatch) -> tuple[list[tuple[int, ...]], Source]:
        S = batch.source.shape[1]
        keys = 30.0 * torch.eye(S).expand(batch.size, S, S)
        return [()] * batch.size, self.attention.prepare(keys, mask=Mask(lengths=batch.source_lengths))

    def step(self, tokens: Tensor, state: tuple[list[tuple[int, ...]], Source]) -> tuple[Tensor, object]:
        histories = [(*h, t) for h, t in zip(state[0], tokens.tolist(), strict=True)]
        looked = (tokens - 2).clamp(min=0)
        self.attention(30.0 * nn.functional.one_hot(looked, state[1].S).float()[:, None], state[1])
        rows = torch.zeros(len(tokens), self.vocabulary)
        for row, history in enumerate(histories):
            for token, probability in self.probabilities.get(history[1:], {EOS: 1.0}).items():
                rows[row, token] = probability
        return rows.log(), (histories, state[1])

    def select(self, state: tuple[list[tuple[int, ...]], Source], rows: Tensor) -> object:
        return [state[0][row] for row in rows.tolist()], state[1].select(rows)


def sentences(*lengths: int, seed: int = 0, vocabulary: int = 7) -> PairBatch:
    """A batch of random source sentences of these lengths (eos is added)."""
    generator = torch.Generator().manual_seed(seed)
    sources = [torch.randint(3, vocabulary, (n,), generator=generator).tolist() for n in lengths]
    return pair_batch(sources, [[] for _ in sources])


def alone(batch: PairBatch, row: int, target: tuple[int, ...] = ()) -> PairBatch:
    """One sentence of a batch without its padding."""
    length = int(batch.source_lengths[row])
    return pair_batch([batch.source[row, : length - 1].tolist()], [list(target)])


def token_log_probabilities(model: nn.Module, batch: PairBatch, tokens: tuple[int, ...]) -> Tensor:
    """(T, V): a plain loop over the steps of one sentence, given its tokens."""
    with torch.no_grad():
        state, last, rows = model.start(batch), BOS, []
        for token in [*tokens, None]:
            row, state = model.step(torch.tensor([last]), state)
            rows.append(row[0])
            last = token
    return torch.stack(rows)


def attention_by_replay(
    model: nn.Module, batch: PairBatch, tokens: tuple[int, ...]
) -> list[dict[str, Tensor]]:
    """For each step the weights by path, (..., S); tokens are fed one by one after bos."""
    steps = []
    with torch.no_grad():
        state = model.start(batch)
        for token in (BOS, *tokens):
            with record(model) as trace:
                _, state = model.step(torch.tensor([token]), state)
            steps.append({path: results[-1].weights[0, ..., -1, :] for path, results in trace.items()})
    return steps


class Found(NamedTuple):
    tokens: tuple[int, ...]
    log_probability: float
    finished: bool


def everything(
    model: nn.Module, batch: PairBatch, vocabulary: int, maximum: int, minimum: int = 0
) -> list[Found]:
    """Every output that one sentence may have: ended within `maximum` steps, or cut there."""
    words = [v for v in range(vocabulary) if v not in (PAD, BOS, EOS)]
    found = []
    for length in range(maximum + 1):
        for tokens in itertools.product(words, repeat=length):
            rows = token_log_probabilities(model, batch, tokens)
            total = float(sum(rows[t, token] for t, token in enumerate(tokens)))
            if length < maximum and length >= minimum:
                found.append(Found(tokens, total + float(rows[length, EOS]), True))
            if length == maximum:
                found.append(Found(tokens, total, False))
    return found
