"""Location-aware attention: the additive score also sees the previous alignment, convolved.

    f_i = F * α_{i-1}                                      (equation 8)
    e[i, j] = wᵀ tanh(W s_{i-1} + V h_j + U f_{i,j} + b)   (equation 9)

    paper     here                   shape
    s_{i-1}   query                  (..., T, Dq)
    h_j       keys                   (..., S, Dk)
    α_{i-1}   history.previous       (..., 1, S)
    F         F                      `filters` kernels of width `width`
    W V U w   W, V, U, w             b is the bias of V

Chorowski, Bahdanau, Serdyuk, Cho, Bengio. Attention-based models for speech recognition. 2015.
https://arxiv.org/abs/1506.07503
"""

from torch import Tensor, nn

from regard.attention.forms import Additive
from regard.attention.history import History
from regard.attention.numerics import upcast
from regard.attention.scores.base import HistoryScore
from regard.catalog import card
from regard.errors import ConfigError, check_shapes, check_whole


@card(
    "score",
    "location-aware",
    title="Location-aware",
    authors="Chorowski et al.",
    year=2015,
    link="https://arxiv.org/abs/1506.07503",
    sentence="The additive score also sees the previous alignment, convolved.",
)
class LocationAwareScore(HistoryScore):
    """wᵀ tanh(W q + V k + U (F * α)); the previous alignment suggests where attention goes next."""

    positional = True

    def __init__(self, *, query: int, keys: int, hidden: int, filters: int, width: int) -> None:
        super().__init__()
        sizes = {"query": query, "keys": keys, "hidden": hidden, "filters": filters, "width": width}
        check_whole("LocationAwareScore", **sizes)
        if width % 2 == 0:
            raise ConfigError(f"LocationAwareScore: `width` has {width}; expected an odd number.")
        self.W = nn.Linear(query, hidden, bias=False)
        self.V = nn.Linear(keys, hidden)
        self.F = nn.Conv1d(1, filters, width, padding=width // 2, bias=False)
        self.U = nn.Linear(filters, hidden, bias=False)
        self.w = nn.Linear(hidden, 1, bias=False)

    def prepare(self, keys: Tensor) -> Tensor:
        check_shapes("LocationAwareScore", ("keys", keys, "... S Dk"), Dk=self.V.in_features)
        return self.V(keys)

    def forward(self, query: Tensor, keys: Tensor, history: History) -> Tensor:
        shapes = ("query", query, "... T Dq"), ("keys", keys, "... S D")
        check_shapes("LocationAwareScore", *shapes, Dq=self.W.in_features, D=self.w.in_features)
        keys = upcast(keys) + upcast(self._located(history.previous))
        query = query.to(self.w.weight.dtype)  # as in AdditiveScore
        return Additive(self.W(query), keys, self.w.weight).scores()

    def _located(self, previous: Tensor) -> Tensor:
        """(..., 1, S) -> U f (..., S, D)."""
        *lead, _, S = previous.shape
        if S == 0:  # a convolution needs at least one position
            return previous.new_zeros(*lead, 0, self.U.out_features)
        filtered = self.F(previous.to(self.F.weight.dtype).reshape(-1, 1, S)).mT  # (N, S, filters)
        located: Tensor = self.U(filtered.reshape(*lead, *filtered.shape[1:]))
        return located
