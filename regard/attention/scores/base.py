"""The contract of a score: e[t, s] = score(q_t, k_s), unmasked and unnormalised."""

from typing import Any, ClassVar

from torch import Tensor

from regard.attention.forms import Additive, Form, Product
from regard.attention.history import History
from regard.attention.parts import Part
from regard.errors import check_shapes


class Score(Part):
    """e[t, s] = score(q_t, k_s).

    A score that is a product or additive once its keys are prepared sets FORM and defines `form`, which
    `forward` and the fused kernels compute from. Any other score defines `forward`.
    """

    FORM: ClassVar[type[Product] | type[Additive] | None] = None
    why_reference: ClassVar[str] = ""  # a clause, if no kernel could be faster

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "forward" in vars(cls) and "form" not in vars(cls):
            cls.FORM = None  # its own equation, which no kernel knows

    def prepare(self, keys: Tensor) -> Tensor:
        """(..., S, Dk) -> (..., S, Dp): the work that depends on keys alone, done once per source."""
        return keys

    def form(self, query: Tensor, keys: Tensor) -> Form:
        """(..., T, Dq), (..., S, Dp) -> the form that the scores are computed from."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(query, keys).")

    def half_form(self, query: Tensor, keys: Tensor) -> Form:
        """The form for kernels that multiply in half precision; it differs where `form` is in float32."""
        return self.form(query, keys)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """(..., T, Dq), (..., S, Dp) -> (..., T, S), unmasked and unnormalised."""
        check_shapes(type(self).__name__, ("query", query, "... T Dq"), ("keys", keys, "... S Dp"))
        return self.form(query, keys).scores()


class ProductScore(Score):
    """A score that is scale · q · k once the keys are prepared; a subclass defines `form`."""

    FORM = Product


class HistoryScore(Part):
    """A score that also sees where earlier steps attended (location-aware, coverage).

    All T queries see the history before the first of them: recurrent decoders call with T = 1, and `InOrder`
    runs many queries that way.
    """

    def prepare(self, keys: Tensor) -> Tensor:
        """(..., S, Dk) -> (..., S, Dp): the work that depends on keys alone, done once per source."""
        return keys

    def forward(self, query: Tensor, keys: Tensor, history: History) -> Tensor:
        """(..., T, Dq), (..., S, Dp), history -> (..., T, S)."""
        raise NotImplementedError(f"{type(self).__name__} defines no forward(query, keys, history).")
