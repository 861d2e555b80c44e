"""The table of contents: every mechanism, model and task as one row of strings.

The command line, the documentation and the law tests iterate over it. Nothing is imported until a row is
loaded. A released key keeps its meaning; a changed mechanism gets a new key.
"""

from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import Any, Literal

from regard.errors import ConfigError

Kind = Literal["score", "normalizer", "window", "memory", "layer", "kernel", "model", "task"]


@dataclass(frozen=True)
class Row:
    """One entry: where the idea comes from, and where it lives."""

    key: str
    kind: Kind
    path: str  # module:name
    title: str
    authors: str
    year: int
    link: str
    sentence: str

    @property
    def module(self) -> str:
        return self.path.partition(":")[0]

    @property
    def file(self) -> str:
        return self.module.replace(".", "/") + ".py"

    def load(self) -> Any:
        """Import the row's object."""
        module, _, name = self.path.partition(":")
        return getattr(import_module(module), name)


ROWS: tuple[Row, ...] = (
    Row(
        "dot",
        "score",
        "regard.attention.scores.dot:DotScore",
        "Dot product",
        "Luong, Pham, Manning",
        2015,
        "https://arxiv.org/abs/1508.04025",
        "Query and key are compared by their inner product.",
    ),
    Row(
        "scaled-dot",
        "score",
        "regard.attention.scores.dot:DotScore",
        "Scaled dot product",
        "Vaswani et al.",
        2017,
        "https://arxiv.org/abs/1706.03762",
        "The inner product divided by √D, so that wide vectors do not saturate the softmax.",
    ),
    Row(
        "general",
        "score",
        "regard.attention.scores.general:GeneralScore",
        "General (bilinear)",
        "Luong, Pham, Manning",
        2015,
        "https://arxiv.org/abs/1508.04025",
        "A learned matrix stands between query and key.",
    ),
    Row(
        "additive",
        "score",
        "regard.attention.scores.additive:AdditiveScore",
        "Additive",
        "Bahdanau, Cho, Bengio",
        2014,
        "https://arxiv.org/abs/1409.0473",
        "A one-hidden-layer network compares query and key.",
    ),
    Row(
        "concat",
        "score",
        "regard.attention.scores.additive:AdditiveScore",
        "Concat",
        "Luong, Pham, Manning",
        2015,
        "https://arxiv.org/abs/1508.04025",
        "The additive score, written as a function of the concatenation [q; k].",
    ),
    Row(
        "cosine",
        "score",
        "regard.attention.scores.cosine:CosineScore",
        "Content-based (cosine)",
        "Graves, Wayne, Danihelka",
        2014,
        "https://arxiv.org/abs/1410.5401",
        "Cosine similarity, sharpened by a key strength.",
    ),
    Row(
        "location",
        "score",
        "regard.attention.scores.location:LocationScore",
        "Location-based",
        "Luong, Pham, Manning",
        2015,
        "https://arxiv.org/abs/1508.04025",
        "Positions are scored from the query alone.",
    ),
    Row(
        "location-aware",
        "score",
        "regard.attention.scores.location_aware:LocationAwareScore",
        "Location-aware",
        "Chorowski et al.",
        2015,
        "https://arxiv.org/abs/1506.07503",
        "The additive score also sees the previous alignment, convolved.",
    ),
    Row(
        "coverage",
        "score",
        "regard.attention.scores.coverage:CoverageScore",
        "Coverage",
        "Tu, Lu, Liu, Liu, Li",
        2016,
        "https://arxiv.org/abs/1601.04811",
        "The additive score also sees how much of each source word has been translated.",
    ),
    Row(
        "feedforward",
        "score",
        "regard.attention.scores.feedforward:FeedForwardScore",
        "Feed-forward (decomposable)",
        "Parikh et al.",
        2016,
        "https://arxiv.org/abs/1606.01933",
        "Both sides pass through the same network, then a dot product.",
    ),
    Row(
        "softmax",
        "normalizer",
        "regard.attention.normalizers.softmax:Softmax",
        "Softmax (soft attention)",
        "Bahdanau, Cho, Bengio",
        2014,
        "https://arxiv.org/abs/1409.0473",
        "Weights are exponentials of the scores, divided by their sum.",
    ),
    Row(
        "sparsemax",
        "normalizer",
        "regard.attention.normalizers.sparsemax:Sparsemax",
        "Sparsemax",
        "Martins, Astudillo",
        2016,
        "https://arxiv.org/abs/1602.02068",
        "The scores projected onto the simplex; most weights are exactly zero.",
    ),
    Row(
        "hard",
        "normalizer",
        "regard.attention.normalizers.hard:Hard",
        "Hard attention",
        "Xu et al.",
        2015,
        "https://arxiv.org/abs/1502.03044",
        "One position is sampled in training and the likeliest is taken at evaluation.",
    ),
    Row(
        "straight-through",
        "normalizer",
        "regard.attention.normalizers.hard:StraightThrough",
        "Straight-through hard attention",
        "Bengio, Léonard, Courville",
        2013,
        "https://arxiv.org/abs/1308.3432",
        "A sampled choice whose gradient is that of the softmax.",
    ),
    Row(
        "gumbel-softmax",
        "normalizer",
        "regard.attention.normalizers.gumbel:GumbelSoftmax",
        "Gumbel-softmax",
        "Jang, Gu, Poole",
        2016,
        "https://arxiv.org/abs/1611.01144",
        "A sample of the softmax, relaxed so that it has a gradient.",
    ),
    Row(
        "mean",
        "normalizer",
        "regard.attention.normalizers.mean:Mean",
        "Mean (1/N)",
        "Wang, Girshick, Gupta, He",
        2018,
        "https://arxiv.org/abs/1711.07971",
        "Every visible position weighs the same: what attention replaces.",
    ),
    Row(
        "global",
        "window",
        "regard.attention.windows.everywhere:Everywhere",
        "Global attention",
        "Luong, Pham, Manning",
        2015,
        "https://arxiv.org/abs/1508.04025",
        "Every source position may be attended.",
    ),
    Row(
        "local-monotonic",
        "window",
        "regard.attention.windows.local_monotonic:LocalMonotonic",
        "Local attention, monotonic (local-m)",
        "Luong, Pham, Manning",
        2015,
        "https://arxiv.org/abs/1508.04025",
        "A window that moves on with the target position.",
    ),
    Row(
        "local-predictive",
        "window",
        "regard.attention.windows.local_predictive:LocalPredictive",
        "Local attention, predictive (local-p)",
        "Luong, Pham, Manning",
        2015,
        "https://arxiv.org/abs/1508.04025",
        "A window whose centre is predicted, with weights that fall off around it.",
    ),
    Row(
        "multi-head",
        "layer",
        "regard.attention.multihead:MultiHead",
        "Multi-head attention",
        "Vaswani et al.",
        2017,
        "https://arxiv.org/abs/1706.03762",
        "Several attentions side by side, each in its own subspace; any score can be multi-headed.",
    ),
    Row(
        "ntm-addressing",
        "memory",
        "regard.attention.memory.addressing:content_weights",
        "Neural Turing Machine addressing",
        "Graves, Wayne, Danihelka",
        2014,
        "https://arxiv.org/abs/1410.5401",
        "A memory row is found by content, then from where the head stood, shifted and sharpened.",
    ),
    Row(
        "ntm-memory",
        "memory",
        "regard.attention.memory.cells:write",
        "Neural Turing Machine reading and writing",
        "Graves, Wayne, Danihelka",
        2014,
        "https://arxiv.org/abs/1410.5401",
        "Reading is a weighted sum of rows; writing erases and then adds.",
    ),
    Row(
        "sdpa",
        "kernel",
        "regard.kernels.sdpa:ScaledDotKernel",
        "Fused dot-product attention",
        "PyTorch",
        2023,
        "https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html",
        "Dot, scaled dot, general and cosine attention on PyTorch's fused kernels, weights on demand.",
    ),
    Row(
        "additive-cpu",
        "kernel",
        "regard.kernels.additive_cpu:AdditiveCPU",
        "Fused additive attention on a CPU",
        "regard",
        2026,
        "https://arxiv.org/abs/1409.0473",
        "Additive attention without its (T, S, D) tensor: exponentials per position, memory linear.",
    ),
    Row(
        "additive-cuda",
        "kernel",
        "regard.kernels.additive_cuda:AdditiveCUDA",
        "Fused additive attention on an NVIDIA GPU",
        "regard",
        2026,
        "https://arxiv.org/abs/1409.0473",
        "The same in Triton; runs when asked for by name.",
    ),
    Row(
        "seq2seq",
        "model",
        "regard.models.seq2seq:Seq2Seq",
        "Sequence to sequence",
        "Sutskever, Vinyals, Le",
        2014,
        "https://arxiv.org/abs/1409.3215",
        "An encoder squeezes the sentence into one fixed vector; a decoder writes the translation from it.",
    ),
    Row(
        "rnnsearch",
        "model",
        "regard.models.rnnsearch:RNNsearch",
        "RNNsearch",
        "Bahdanau, Cho, Bengio",
        2014,
        "https://arxiv.org/abs/1409.0473",
        "The decoder searches the source sentence anew for each word it writes.",
    ),
    Row(
        "grammar",
        "task",
        "regard.tasks.grammar:GrammarTask",
        "The embedded corpus",
        "regard",
        2026,
        "",
        "English to French or Chinese from a synchronous grammar, with gold word links.",
    ),
    Row(
        "files",
        "task",
        "regard.tasks.files:FilesTask",
        "Your own files",
        "regard",
        2026,
        "",
        "Parallel text, one sentence a line, plain or .gz.",
    ),
    Row(
        "reverse",
        "task",
        "regard.tasks.reverse:ReverseTask",
        "Reverse and relabel",
        "regard",
        2026,
        "",
        "Random symbols to be written backwards under another alphabet: the alignment is the anti-diagonal.",
    ),
)


def rows(kind: Kind | None = None) -> tuple[Row, ...]:
    """All rows, or those of one kind, in the order of the catalogue."""
    return tuple(row for row in ROWS if kind is None or row.kind == kind)


def names(kind: Kind) -> tuple[str, ...]:
    """The keys of one kind."""
    return tuple(row.key for row in rows(kind))


def find(key: str, kind: Kind) -> Row:
    """The row of this key; an unknown key is answered with the nearest known one."""
    for row in rows(kind):
        if row.key == key:
            return row
    raise ConfigError(f"catalog: unknown {kind} {key!r}; {suggest(key, names(kind))}")


def suggest(word: str, known: tuple[str, ...] | list[str]) -> str:
    """The end of an error sentence: the nearest known word, or all of them."""
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}."
