"""Classifiers that differ only in their pooling: attention with a learnt query, or the mean.

    pictures    ŷ = W pool(CNN(picture)) + b                       pool over the places of a grid
    sentences   ŷ = H([pool(G(a)); pool(G(b))])                     pool over the words of each sentence

    here       shape
    CNN        (B, 3, H, W) -> (B, L, D): convolutions of 3 × 3, batch norm, ReLU; the first two halve a side
    G H        two layers of rectified units; H has one more, linear, to the classes
    pool       see layers/pooling.py

Yang, Yang, Dyer, He, Smola, Hovy. Hierarchical attention networks for document classification. 2016.
https://aclanthology.org/N16-1174
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.mask import Mask
from regard.catalog import card
from regard.data.entailment import PairTextBatch
from regard.data.pictures import PictureBatch, to_network
from regard.layers.pooling import PoolingName, build_pooling
from regard.models.base import Model, Settings, Size
from regard.models.decomposable import BagOfWordsConfig, PairClassifier, feed_forward


@dataclass(frozen=True, kw_only=True)
class PooledPicturesConfig(Settings, key="pooled-pictures"):
    """Sizes and the pooling."""

    classes: int
    side: int  # of a picture
    channels: tuple[Size, ...] = (32, 64, 64)
    hidden: Size = 64  # of the pooling's score
    pooling: PoolingName = "attention"


@card(
    "model",
    "pooled-pictures",
    title="Pooled pictures",
    authors="Yang et al.; Lin, Chen, Yan",
    year=2016,
    link="https://aclanthology.org/N16-1174",
    sentence=(
        "Convolutions, then attention or a mean over all places: one vector, which gives the picture's class."
    ),
)
class PooledPictures(Model):
    """Convolutions, pooling, one linear layer."""

    Config = PooledPicturesConfig
    reads = ("labelled pictures",)
    aligner = "pool.attention"

    def __init__(self, config: PooledPicturesConfig) -> None:
        super().__init__(config)
        layers: list[nn.Module] = []
        before = 3
        for number, channels in enumerate(config.channels):
            layers += [
                nn.Conv2d(before, channels, 3, padding=1, bias=False),  # batch norm has one
                nn.BatchNorm2d(channels),
                *([nn.MaxPool2d(2)] if number < 2 else []),
                nn.ReLU(),
            ]
            before = channels
        self.cnn = nn.Sequential(*layers)
        self.pool = build_pooling(config.pooling, inputs=before, hidden=config.hidden)
        self.W = nn.Linear(before, config.classes)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster

    def forward(self, batch: PictureBatch) -> Tensor:
        """(B, classes) scores."""
        grid = self.cnn(to_network(batch.pictures))  # (B, D, h, w)
        return self.W(self.pool(grid.flatten(2).mT))


@dataclass(frozen=True, kw_only=True)
class PooledSentencesConfig(BagOfWordsConfig, key="pooled-sentences"):
    """Sizes and the pooling."""

    pooling: PoolingName = "attention"


@card(
    "model",
    "pooled-sentences",
    title="Pooled sentences",
    authors="Yang et al.; Lin, Chen, Yan",
    year=2016,
    link="https://aclanthology.org/N16-1174",
    sentence=(
        "Attention or a mean turns the words of each sentence into one vector; the vectors give the label."
    ),
)
class PooledSentences(PairClassifier):
    """A bag of words with pooling instead of the sum."""

    Config = PooledSentencesConfig
    reads = ("labelled pairs of sentences",)
    aligner = "pool.attention"

    def __init__(self, config: PooledSentencesConfig) -> None:
        super().__init__(config)
        self.G = feed_forward(config.hidden, config.hidden, config.dropout)
        self.pool = build_pooling(config.pooling, inputs=config.hidden, hidden=config.hidden)

    def forward(self, batch: PairTextBatch) -> Tensor:
        """(B, classes) scores."""
        v_1 = self.pool(self.G(self.words(batch.premise)), Mask(lengths=batch.premise_lengths))
        v_2 = self.pool(self.G(self.words(batch.hypothesis)), Mask(lengths=batch.hypothesis_lengths))
        return self.H(torch.cat([v_1, v_2], -1))
