"""The dispatcher's choices as a table: every score, normalizer, window and device, equal lines merged."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import product
from typing import Any, NamedTuple

import torch

from regard import catalog
from regard.attention import paths
from regard.attention.config import AttentionConfig
from regard.attention.forms import Additive
from regard.attention.history import History
from regard.attention.looks import Products
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead, SelfCall
from regard.attention.scores.cosine import CosineScore
from regard.attention.source import Source
from regard.kernels.decoder.decoder_cpu import TokenChoice
from regard.kernels.decoder.few_rows import Matrices
from regard.kernels.product.product_step import ProductStep
from regard.kernels.training.residual import Closing

COLUMNS = (
    "score",
    "normalizer",
    "window",
    "device",
    "queries",
    "forward",
    "with gradients",
    "with weights kept",
    "why not another",
)

# refusals of kernels that are for something else: another score, normalizer, window or device
ELSEWHERE = re.compile(
    r"score is |the query is on |there is no window|nobody reads the scores|window is "
    r"|normalizer is \w+, this kernel computes "
)
# parts of a reason that depend on the call, or repeat the line's own normalizer
PARTICULAR = {
    r"has \d+ numbers, fewer than": "has fewer numbers than",
    r"the reference's largest tensor has \d+ numbers, on a GPU this gains from (\d+)": (
        r"the largest tensor has fewer numbers than \1, from which on a band gains on a GPU"
    ),
    r"normalizer is \w+, whose": "its",
}


class Asked(NamedTuple):
    """A kind of call and its kernels; the first five fields list the values with the same answer."""

    score: tuple[str, ...]
    normalizer: tuple[str, ...]
    window: tuple[str, ...]
    device: tuple[str, ...]
    queries: tuple[str, ...]
    kernel: str
    backward: str  # the kernel if gradients are needed
    weights: str  # the kernel with `keep_weights=True`
    reason: str  # why the reference runs forward


@cache
def choices(device: str | None = None) -> tuple[Asked, ...]:
    """One line for each combination, with one query, many or thousands, on this device or on both."""
    found: list[Asked] = []
    for queries, T, S in (("many", 64, 64), ("thousands", 8192, 8192), ("one", 1, 1024)):
        answers = zip(
            table(T=T, S=S), table(T=T, S=S, training=True), table(T=T, S=S, keep_weights=True), strict=True
        )
        found += [
            Asked(*facts, c.kernel, trained.kernel, kept.kernel, shortened(c.reason))
            for c, trained, kept in answers
            if device in (None, c.device)
            for facts in [((c.score,), (c.normalizer,), (c.window,), (c.device,), (queries,))]
        ]
    return tuple(found)


def shortened(reason: str) -> str:
    """The reason without clauses of kernels for something else, and without numbers of the one call."""
    clauses = reason.split("; ") if reason else []
    own = [clause for clause in clauses if not ELSEWHERE.match(clause)]
    text = "; ".join(own) if own or not clauses else "no kernel computes this"
    for pattern, general in PARTICULAR.items():
        text = re.sub(pattern, general, text)
    return text


def joined(lines: Sequence[Asked]) -> list[Asked]:
    """The same facts in fewer lines: merge lines that differ in one column only, column by column."""
    order = [2, 4, 3, 1, 0]  # window, queries, device, normalizer, score: the least important first
    for column in order:
        groups: dict[tuple[object, ...], list[Asked]] = {}
        for line in lines:
            groups.setdefault((*line[:column], *line[column + 1 :]), []).append(line)
        lines = [_shared(group, column) for group in groups.values()]
    return sorted(lines, key=lambda line: line.kernel == "reference")


def _shared(group: Sequence[Asked], column: int) -> Asked:
    """One line for several that differ in one column."""
    cells: list[Any] = list(group[0])
    cells[column] = tuple(value for line in group for value in line[column])
    return Asked(*cells)


def rows(lines: Iterable[Asked]) -> list[tuple[str, ...]]:
    """The lines as words, with "any" for a column that lists all values that occur."""
    lines = list(lines)
    every = [{value for line in lines for value in line[column]} for column in range(5)]
    found = []
    for line in lines:
        words = [
            "any"
            if set(line[column]) == every[column] and len(every[column]) > 1
            else ", ".join(line[column])
            for column in range(5)
        ]
        found.append((*words, line.kernel, line.backward, line.weights, line.reason))
    return found


PLACES = ("place", "fused path", "on a CPU", "on a GPU, half precision")


def places() -> list[tuple[str, ...]]:
    """The fused paths besides Attention's: whether each runs a typical call on CPU and GPU, or why not.

    As in `table`, the tensors are fake and nothing is computed.
    """
    calls = {device: _typical(device) for device in ("cpu", "cuda")}
    found = []
    for place in paths.places():
        for path in paths.paths(place):
            with torch.no_grad():
                reasons = [path.refuses(calls[device][place]) for device in ("cpu", "cuda")]
            found.append((place, path.name, *("runs" if reason is None else reason for reason in reasons)))
    return found


def _typical(device: str) -> dict[str, Any]:
    """A typical call for each place that has a fused path."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    from regard.data.batches import PairBatch
    from regard.decode.base import WuPenalty
    from regard.decode.beam import Call, Options
    from regard.layers.fast_decoder import Steps
    from regard.layers.lstmn import LSTMNCell
    from regard.layers.transformer import LayerNorm
    from regard.models.ntm import NTM, NTMConfig
    from regard.models.transformer import Transformer, TransformerConfig

    half = torch.float32 if device == "cpu" else torch.bfloat16
    with torch.device("meta"):
        machine, cell = NTM(NTMConfig(inputs=9, outputs=8)), LSTMNCell(inputs=16, hidden=16)
        translator = Transformer(TransformerConfig(source_vocab=9, target_vocab=9))
        heads = MultiHead(16, 2)
        score, norm, dropout = CosineScore(), LayerNorm(16), torch.nn.Dropout(0.1)
    with FakeTensorMode(), torch.no_grad():
        x = torch.empty(2, 5, 16, device=device, dtype=half)
        keys, query = torch.empty(2, 8, 5, 2, device=device), torch.empty(2, 8, 2, device=device)
        sequence = machine._sequence(torch.empty(2, 5, 9, device=device))
        tape = cell._recurrence(torch.empty(2, 5, 80, device=device))
        steps = Steps(translator.decoder.eval(), translator.W.eval(), [Source(keys, keys, Mask())], [])
        scores = torch.empty(2, 9, device=device)
        words, lengths = (torch.empty(n, dtype=torch.long, device=device) for n in ((2, 9), (2,)))
        batch = PairBatch(words, lengths, words, lengths)
        for W in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
            W.weight = torch.nn.Parameter(torch.empty(16, 16, device=device, dtype=half))
        form = Additive(*(torch.empty(*size, device=device) for size in ((2, 99, 99), (2, 99, 99), (1, 99))))
        decoding = Call(translator, batch, Options(5, 1, 0, WuPenalty(0.6), attention=False), lengths, 20)
    return {
        "cosine-query": (score, x),
        "self-attention": SelfCall(heads, x, None, None),
        "ntm": sequence,
        "lstmn": tape,
        "residual-norm": Closing(x, x, norm, dropout, True),
        "cross-entropy": (x,),
        "decoder-step": steps,
        "best-tokens": TokenChoice(scores, 5, (0, 1)),
        "few-rows": Matrices(torch.nn.Linear(4, 4) if device == "cpu" else heads, list),
        "product-step": ProductStep(query, keys, keys, None, 1, 1.0),
        "top-k": Products(keys, keys, 1.0, Mask(), 2),
        "weights": Products(x, x, 1.0, Mask()),
        "scores": form,
        "decoding": decoding,
    }


class Choice(NamedTuple):
    """One line of the table of choices."""

    score: str
    normalizer: str
    window: str
    device: str
    kernel: str  # "reference" if no kernel runs
    reason: str  # why the reference runs; empty if a kernel does


def table(
    *, T: int = 64, S: int = 64, training: bool = False, keep_weights: bool = False
) -> Iterator[Choice]:
    """Every score × normalizer × window × device of the catalogue, with the kernels' own answers.

    The tensors are fake, float32, (2, T, 32), and nothing is computed, so this works for a GPU on a machine
    without one.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    fake = FakeTensorMode()
    parts = (catalog.names("score"), catalog.names("normalizer"), catalog.names("window"))
    for score, normalizer, window in product(*parts):
        with torch.device("meta"):
            config = AttentionConfig(score, normalizer=normalizer, window=window, positions=S, half_width=4)
            attention = config.build(query=32, keys=32, keep_weights=keep_weights).train(training)
        for device in ("cpu", "cuda"):
            with fake, torch.set_grad_enabled(training):
                keys = torch.empty(2, S, 32, device=device, requires_grad=training)
                source = Source(keys, keys, Mask())
                query = torch.empty(2, T, 32, device=device, requires_grad=training)
                choice = attention.explain(query, source, history=History.start(source))
            yield Choice(score, normalizer, window, device, choice.kernel, choice.why)
