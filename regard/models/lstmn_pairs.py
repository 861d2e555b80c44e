"""Two LSTMNs read a premise and a hypothesis; the means of their hidden tapes give the label.

    [h^a; c^a] = LSTMN(a),   [h^b; c^b] = LSTMN(b)                                no fusion
    [h^b; c^b] = LSTMN(b | h^a, c^a)            shallow or deep fusion, see regard.models.lstmn_fusion
    ŷ = H([1/I Σ_i h_i^a; 1/J Σ_j h_j^b])

    paper    here         shape
    a b      words        (B, T, n)     word vectors times P, which has no bias; NULL is the first word
    h^a c^a  premise      (B, I, 2 n)   hidden and memory tape
    h^b      hypothesis   (B, J, n)     with fusion each word also attends to the premise
    H        H            two layers of n rectified units and a linear one to the classes

With `span = 1` a cell sees only its last slot: without fusion the model is two LSTMs, the baseline.

Cheng, Dong, Lapata. Long short-term memory-networks for machine reading. 2016.
https://arxiv.org/abs/1601.06733
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from regard.catalog import card
from regard.data.entailment import PairTextBatch
from regard.layers.lstmn import LSTMN
from regard.models.base import Size
from regard.models.decomposable import BagOfWordsConfig, PairClassifier
from regard.models.lstmn import mean
from regard.models.lstmn_fusion import FUSIONS


@dataclass(frozen=True, kw_only=True)
class LSTMNPairsConfig(BagOfWordsConfig, key="lstmn-pairs"):
    """Sizes and choices; the paper's are embedding 300, hidden 100, 300 or 450."""

    fusion: Literal["none", "shallow", "deep"] = "deep"
    span: Size | None = None  # slots kept of each tape; None: the whole sentence
    kernel: str = "auto"


@card(
    "model",
    "lstmn-pairs",
    title="LSTMN for sentence pairs",
    authors="Cheng, Dong, Lapata",
    year=2016,
    link="https://arxiv.org/abs/1601.06733",
    sentence="Two LSTMNs read two sentences, the second in view of the first; their mean states label them.",
)
class LSTMNPairs(PairClassifier):
    """Reads the premise, then the hypothesis while attending to the premise, and compares the means."""

    Config = LSTMNPairsConfig
    reads = ("labelled pairs of sentences",)

    def __init__(self, config: LSTMNPairsConfig) -> None:
        super().__init__(config)
        n, span, kernel = config.hidden, config.span, config.kernel
        self.premise = LSTMN(inputs=n, hidden=n, span=span, kernel=kernel)
        self.hypothesis = (
            LSTMN(inputs=n, hidden=n, span=span, kernel=kernel)
            if config.fusion == "none"
            else FUSIONS[config.fusion](inputs=n, hidden=n, span=span)
        )
        self.aligner = None if config.fusion == "none" else "hypothesis.attention"
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, batch: PairTextBatch) -> Tensor:
        """(B, classes) scores."""
        a, b = (self.dropout(self.words(numbers)) for numbers in (batch.premise, batch.hypothesis))
        tapes = self.premise(a)  # (B, I, 2 n)
        if isinstance(self.hypothesis, LSTMN):
            hidden = self.hypothesis(b).chunk(2, -1)[0]
        else:
            hidden = self.hypothesis.read(b, self.hypothesis.start(tapes, batch.premise_lengths))
        h_a = mean(tapes.chunk(2, -1)[0], batch.premise_lengths)
        h_b = mean(hidden, batch.hypothesis_lengths)
        return self.H(torch.cat([h_a, h_b], -1))
