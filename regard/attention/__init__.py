"""The algebra: attention is normalize(score(query, keys), mask) @ values."""

from regard import catalog
from regard.attention.attend import attend as attend
from regard.attention.compose import Attention as Attention
from regard.attention.history import History as History
from regard.attention.in_order import InOrder as InOrder
from regard.attention.in_order import in_order as in_order
from regard.attention.mask import Mask as Mask
from regard.attention.multihead import MultiHead as MultiHead
from regard.attention.record import record as record
from regard.attention.result import Alignment as Alignment
from regard.attention.result import AttentionResult as AttentionResult
from regard.attention.source import Source as Source
from regard.attention.trace import Trace as Trace

catalog.complete()  # imports the kernels, which import the algebra; the algebra imports none of them
