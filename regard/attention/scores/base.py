"""The contract of a score: e[t, s] = score(q_t, k_s), unmasked and unnormalised."""

from torch import Tensor, nn

from regard.attention.history import History


class Score(nn.Module):
    """e[t, s] = score(q_t, k_s)."""

    def prepare(self, keys: Tensor) -> Tensor:
        """(..., S, Dk) -> (..., S, Dp): the work that depends on keys alone, done once per source."""
        return keys

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(..., T, Dq), (..., S, Dp) -> (..., T, S), unmasked and unnormalised."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(query, keys).")


class HistoryScore(nn.Module):
    """A score that also sees where earlier steps attended (location-aware, coverage).

    The history is the one before the first of the T queries: recurrent decoders ask with T = 1, and `InOrder`
    goes through many queries so.
    """

    def prepare(self, keys: Tensor) -> Tensor:
        """(..., S, Dk) -> (..., S, Dp): the work that depends on keys alone, done once per source."""
        return keys

    def forward(self, query: Tensor, keys: Tensor, history: History) -> Tensor:
        """(..., T, Dq), (..., S, Dp), history -> (..., T, S)."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(query, keys, history).")
