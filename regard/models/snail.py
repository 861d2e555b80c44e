"""SNAIL for few-shot classification: labelled examples are read as a sequence whose last one has no label.

    x_t = [e(image_t); one-hot(label_t)]   t ≤ N K        x_T = [e(query); 0]        T = N K + 1
    h = A_3(TC_2(A_2(TC_1(A_1(x)))))
    p(y | episode) = softmax(W h_T + b)

    paper                   here            shape
    e                       embed           image (28, 28) -> 64, see OmniglotEmbedding
    AttentionBlock(K, V)    A of `blocks`   keys 64, 256, 512; values 32, 128, 256; see layers/temporal.py
    TCBlock(T, D)           TC of `blocks`  filters 128
    1 × 1 convolution       W               (N, C), on the last step alone: only that one is asked

Attention finds the examples that look like the query, and their labels with them; the convolutions combine
neighbouring steps. Every attention block is initialized to compare like with like (`alike`): with
independent matrices nothing tells it at first that similarity matters, and 20 classes were not told apart for
a thousand updates or more. Without `attention` or without `convolutions` those blocks are left out: the
paper's two ablations.

The examples do not depend on the query, which comes last. So an episode may have Q queries: its examples are
embedded and read once, and each query ends the same sequence. The paper has Q = 1.

Mishra, Rohaninejad, Chen, Abbeel. A simple neural attentive meta-learner. 2018.
https://arxiv.org/abs/1707.03141
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.catalog import card
from regard.data.episodes import EpisodeBatch
from regard.errors import ConfigError, check_shapes
from regard.layers.temporal import AttentionBlock, Blocks, Dilations, TCBlock
from regard.models.base import Model, Settings, Size


@dataclass(frozen=True, kw_only=True)
class SNAILConfig(Settings, key="snail"):
    """Sizes and choices; the defaults are the paper's."""

    ways: int  # N, classes per episode
    steps: int  # T of the longest episode; determines the number of dense blocks in a TC block
    embedding: Size = 64
    channels: Size = 64  # of the embedding's convolutions
    keys: tuple[Size, ...] = (64, 256, 512)
    values: tuple[Size, ...] = (32, 128, 256)
    filters: Size = 128
    dilations: Dilations = "doubling"  # or "printed", as in the paper's text; see layers/temporal.py
    attention: bool = True
    convolutions: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.keys) != len(self.values) or len(self.keys) < 2:
            raise ConfigError(
                f"snail: `keys` has {len(self.keys)} sizes and `values` {len(self.values)}; expected the "
                "same number, two or more: one for each attention block."
            )
        if not (self.attention or self.convolutions):
            raise ConfigError(
                "snail: `attention` and `convolutions` are both false; expected one of them to be true. "
                "Otherwise the query is classified without its episode."
            )


class OmniglotEmbedding(nn.Sequential):
    """(B, 28, 28) ink, 0 to 1 -> (B, D): four times 3 × 3 convolution, batch norm, ReLU, 2 × 2 max-pool."""

    def __init__(self, *, channels: int, outputs: int) -> None:
        layers: list[nn.Module] = [nn.Unflatten(1, (1, 28))]  # (B, 1, 28, 28)
        for i in range(4):
            layers += [
                nn.Conv2d(channels if i else 1, channels, 3, padding=1, bias=False),  # batch norm has one
                nn.BatchNorm2d(channels),
                nn.MaxPool2d(2),
                nn.ReLU(),  # after the pooling: the same values at a quarter of the cost
            ]
        super().__init__(*layers, nn.Flatten(), nn.Linear(channels, outputs))  # 28, 14, 7, 3, 1
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # twice as fast on a CPU


@card(
    "model",
    "snail",
    title="SNAIL",
    authors="Mishra, Rohaninejad, Chen, Abbeel",
    year=2018,
    link="https://arxiv.org/abs/1707.03141",
    sentence=(
        "Temporal convolutions and causal attention in turn read labelled examples, then name a new one."
    ),
)
class SNAIL(Model):
    """An embedding of images, then blocks over their sequence."""

    Config = SNAILConfig
    reads = ("episodes of few examples",)

    def __init__(self, config: SNAILConfig) -> None:
        super().__init__(config)
        self.embed = OmniglotEmbedding(channels=config.channels, outputs=config.embedding)
        width = config.embedding + config.ways
        blocks: list[TCBlock | AttentionBlock] = []
        for number, (keys, values) in enumerate(zip(config.keys, config.values, strict=True)):
            if config.convolutions and number > 0:  # between the attention blocks
                blocks.append(
                    TCBlock(
                        inputs=width, steps=config.steps, filters=config.filters, dilations=config.dilations
                    )
                )
                width = blocks[-1].outputs
            if config.attention:
                blocks.append(AttentionBlock(inputs=width, keys=keys, values=values, alike=True))
                width = blocks[-1].outputs
        self.blocks = Blocks(*blocks)
        self.W = nn.Linear(width, config.ways)
        if config.attention:
            self.aligner = f"blocks.{len(blocks) - 1}.attention"

    def forward(self, batch: EpisodeBatch) -> Tensor:
        """(B, Q, N) scores of the classes for each query."""
        check_shapes("SNAIL", ("support", batch.support, "B S H W"), ("queries", batch.queries, "B Q H W"))
        Q = batch.queries.shape[1]
        h = self.blocks(self.sequences(batch), Q)  # (B, S + Q, C)
        return self.W(h[:, -Q:])

    def sequences(self, batch: EpisodeBatch) -> Tensor:
        """(B, S + Q, D + N): the labelled examples, then the queries without labels."""
        (B, S), Q = batch.support.shape[:2], batch.queries.shape[1]
        images = torch.cat([batch.support, batch.queries], 1).flatten(0, 1)
        ink = images.to(self.W.weight.dtype) / 255
        embedded = self.embed(ink).view(B, S + Q, -1)  # (B, S + Q, D)
        classes = torch.arange(self.config.ways, device=embedded.device)
        labels = (batch.labels[..., None] == classes).to(embedded.dtype)  # one-hot
        return torch.cat([embedded, F.pad(labels, (0, 0, 0, Q))], -1)
