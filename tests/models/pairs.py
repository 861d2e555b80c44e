"""Two sentence pairs of different lengths, for translators of 17 source and 19 target words."""

import torch
from seeds import offset_seed

from regard.data.batches import PairBatch


def batch(lengths=(7, 3), targets=(5, 2)):
    torch.manual_seed(offset_seed(1))
    return PairBatch(
        torch.randint(4, 17, (len(lengths), max(lengths))),
        torch.tensor(lengths),
        torch.randint(4, 19, (len(targets), max(targets))),
        torch.tensor(targets),
    )
