"""How fast RNNsearch and Luong's network write on one CPU thread, beside a greedy loop written by hand.

    python benchmarks/recurrent_decoding.py [--runs 7] [--record]

The loops are the papers' equations in plain PyTorch, as a reader of the papers would write them, with the
same encoder and weights. Both sides write words, add up their log-probabilities, and look at every step
whether all sentences have ended; ours also lets ended sentences leave the batch, and can be recorded. 5,300
words, embeddings of 256, states of 500, one layer; sources and outputs of 20 words; one sentence, and 32 in a
batch. Parity comes first: both must write the same words. Then they run in turns, in one process; speeds are
those of the least processor time. A step's attention alone, outside of a search, is measured in the same way.

`--record` writes results/recurrent-decoding.json.
"""

import os
import time
from collections.abc import Callable
from typing import Any

import torch
from common import arguments, keep
from decoding import LENGTH, SEED, Times, V
from torch import Tensor

from regard.attention.config import AttentionConfig
from regard.data.batches import PairBatch, pair_batch
from regard.data.tokens import BOS, EOS, SPECIAL
from regard.decode.greedy import greedy
from regard.models.base import Translating
from regard.models.luong import Luong, LuongConfig
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig

HIDDEN, EMBEDDING, STEPS = 500, 256, 200
WANTED = 1.5  # times as fast as the loop


def additive_by_hand(model: Translating, query: Tensor, projected: Tensor, hidden: Tensor) -> Tensor:
    """softmax(v · tanh(W q + U k)), with U k computed once: (B, S), zero on padding."""
    score = model.attention.score
    scores = score.v(torch.tanh(score.W(query)[:, None] + projected)).squeeze(-1)
    return scores.masked_fill(hidden, -torch.inf).softmax(-1)


def written_by(step: Callable[[Tensor], Tensor], batch: PairBatch) -> Tensor:
    """(B, T) words, each the most probable one after those before it; none may end the sentence."""
    y, total, written = torch.full((batch.size,), BOS), torch.zeros(batch.size), []
    for _ in range(LENGTH):
        scores = step(y)
        scores[:, EOS] = -torch.inf
        best, y = scores.log_softmax(-1).max(-1)
        total += best
        written.append(y)
        if bool((y == EOS).all()):
            break
    return torch.stack(written, 1)


def rnnsearch_by_hand(model: RNNsearch, batch: PairBatch) -> Tensor:
    """Bahdanau's appendix A: (B, T) words."""
    annotations, first = model.encoder(model.E_source(batch.source), batch.source_lengths)
    hidden = torch.arange(annotations.shape[1]) >= batch.source_lengths[:, None]
    projected, cell, out = model.attention.score.U(annotations), model.cell, model.readout
    s = torch.tanh(model.W_s(first))

    def step(y: Tensor) -> Tensor:
        nonlocal s
        word = model.E(y)
        weights = additive_by_hand(model, s, projected, hidden)
        context = (weights[:, None] @ annotations).squeeze(1)
        candidate, z, r = (cell.W(word) + model.C(context)).chunk(3, -1)
        of_z, of_r = cell.U_gates(s).chunk(2, -1)
        z, r = torch.sigmoid(z + of_z), torch.sigmoid(r + of_r)
        pairs = (out.U(s) + out.V(word) + out.C(context)).unflatten(-1, (-1, 2))
        s = (1 - z) * s + z * torch.tanh(candidate + cell.U(r * s))
        scores: Tensor = out.W(pairs.amax(-1))
        return scores

    return written_by(step, batch)


def luong_by_hand(model: Luong, batch: PairBatch) -> Tensor:
    """Luong's section 3, with input feeding: (B, T) words."""
    annotations, [(h, c)] = model.encoder(model.E_source(batch.source), batch.source_lengths)
    hidden = torch.arange(annotations.shape[1]) >= batch.source_lengths[:, None]
    projected, [layer] = model.attention.score.U(annotations), model.decoder.layers
    [weights_of_lstm], attentional = layer.all_weights, torch.zeros(batch.size, HIDDEN)

    def step(y: Tensor) -> Tensor:
        nonlocal h, c, attentional
        # as torch.nn.LSTMCell; a torch.nn.LSTM that is called for one word takes twice as long
        h, c = torch.lstm_cell(torch.cat([model.E(y), attentional], -1), (h, c), *weights_of_lstm)
        weights = additive_by_hand(model, h, projected, hidden)
        context = (weights[:, None] @ annotations).squeeze(1)
        attentional = torch.tanh(model.W_c(torch.cat([context, h], -1)))
        scores: Tensor = model.W_s(attentional)
        return scores

    return written_by(step, batch)


def ours(model: Translating, batch: PairBatch) -> Tensor:
    """(B, T) words by the package's greedy search."""
    found = greedy(model, batch, maximum=LENGTH, minimum=LENGTH)
    return torch.tensor([each.tokens for each in found])


def attentions(model: Translating, batch: PairBatch) -> tuple[Callable[[], Tensor], Callable[[], Tensor]]:
    """Many steps of the attention alone, ours and by hand; the context of the last."""
    state = model.start(batch)
    annotations = state.source.values
    hidden = torch.arange(annotations.shape[1]) >= batch.source_lengths[:, None]
    projected = model.attention.score.U(annotations)
    queries = torch.randn(STEPS, batch.size, HIDDEN)

    def mine() -> Tensor:
        for step, query in enumerate(queries):
            context = model.attention(query[:, None], state.source.at(step)).context
        return context.squeeze(1)

    def by_hand() -> Tensor:
        for query in queries:
            context = additive_by_hand(model, query, projected, hidden)[:, None] @ annotations
        return context.squeeze(1)

    return mine, by_hand


def in_turns(mine: Callable[[], Tensor], by_hand: Callable[[], Tensor], runs: int) -> dict[str, Any]:
    """Processor milliseconds of both, the least of all runs, and the ratio."""
    first, second = Times(), Times()
    for _ in range(runs):
        first.run(mine)  # type: ignore[arg-type]
        second.run(by_hand)  # type: ignore[arg-type]
    ms, theirs = (1000 * min(times.processor) for times in (first, second))
    return {
        "ms": round(ms, 2),
        "ms by hand": round(theirs, 2),
        "ratio": round(theirs / ms, 2),
        "ratio by the clock on the wall": round(min(second.wall) / min(first.wall), 2),
    }


def networks() -> dict[str, tuple[Translating, Callable[..., Tensor]]]:
    """Each network with its loop; Luong's with his concat score, which is additive."""
    torch.manual_seed(SEED)
    sizes: dict[str, Any] = {"source_vocab": V, "target_vocab": V, "embedding": EMBEDDING, "hidden": HIDDEN}
    search = RNNsearchConfig(**sizes, readout=250, attention=AttentionConfig("additive", hidden=HIDDEN))
    luong = LuongConfig(**sizes, layers=1, attention=AttentionConfig("concat", hidden=HIDDEN))
    return {
        "RNNsearch": (RNNsearch(search).eval(), rnnsearch_by_hand),
        "Luong, concat": (Luong(luong).eval(), luong_by_hand),
    }


def main() -> None:
    """Measure, and record if asked to."""
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--record", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name, (model, by_hand) in networks().items():
        for sentences in (1, 32):
            sources = torch.randint(len(SPECIAL), V, (sentences, LENGTH)).tolist()
            sources = [row[: LENGTH - n % 5] for n, row in enumerate(sources)]  # some padding
            batch, started = pair_batch(sources, [[] for _ in sources]), time.perf_counter()
            with torch.no_grad():
                if not torch.equal(ours(model, batch), by_hand(model, batch)):
                    raise SystemExit(f"{name}: the outputs differ.")
                mine, other = attentions(model, batch)
                torch.testing.assert_close(mine(), other(), rtol=1e-4, atol=1e-5)
                found = {
                    "whole": in_turns(lambda: ours(model, batch), lambda: by_hand(model, batch), given.runs),  # noqa: B023
                    f"attention, {STEPS} steps": in_turns(mine, other, given.runs),
                    "load of the machine": round(os.getloadavg()[0], 1),
                    "wanted": WANTED,
                }
            print(f"{name}, {sentences} at a time:", found, flush=True)
            if given.record:
                facts = {"seconds": time.perf_counter() - started, "seeds": (SEED,), "details": found}
                metric = f"{name}, {sentences} at a time: times as fast as a loop by hand"
                note = "the loop is the measure, not a paper"
                print(keep("recurrent-decoding", metric, found["whole"]["ratio"], note=note, **facts))


if __name__ == "__main__":
    main()
