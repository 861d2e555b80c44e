"""The algebra: attention is normalize(score(query, keys), mask) @ values."""

from regard import catalog
from regard.attention.attend import attend
from regard.attention.compose import Attention
from regard.attention.history import History
from regard.attention.in_order import InOrder, in_order
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.record import record
from regard.attention.result import Alignment, AttentionResult
from regard.attention.source import Source
from regard.attention.trace import Trace

__all__ = [
    "Alignment",
    "Attention",
    "AttentionResult",
    "History",
    "InOrder",
    "Mask",
    "MultiHead",
    "Source",
    "Trace",
    "attend",
    "in_order",
    "record",
]

catalog.complete()  # imports the kernels, which import the algebra; the algebra imports none of them
