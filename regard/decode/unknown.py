"""Words the model has never seen are carried through from the source."""

from collections.abc import Sequence

from torch import Tensor

from regard.data.tokens import UNK_PIECE
from regard.errors import ShapeError


def carry_unknown(pieces_out: Sequence[str], pieces_in: Sequence[str], attention: Tensor) -> list[str]:
    """Each `<unk>` becomes the source piece that its row of (T, S) attends to most.

    T and S may count eos on either side; eos itself is never carried.
    """
    T, S = len(pieces_out), len(pieces_in)
    shape = tuple(attention.shape)
    if len(shape) != 2 or not (T <= shape[0] <= T + 1 and S <= shape[1] <= S + 1):
        raise ShapeError(
            f"carry_unknown: `attention` has shape {shape}; expected (T={T}, S={S}), or one more for eos."
        )
    if S == 0:
        return list(pieces_out)
    looked_at = attention[:T, :S].argmax(-1).tolist()
    return [
        pieces_in[s] if piece == UNK_PIECE else piece for piece, s in zip(pieces_out, looked_at, strict=True)
    ]
