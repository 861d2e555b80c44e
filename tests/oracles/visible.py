"""What a Mask leaves visible, one pair of positions at a time."""


def visible(t, s, *, causal=False, length=None, window=None, dense=None, offset=0):
    """Whether query t (counted from the offset) may attend source s; `dense` is the entry for this pair."""
    position = t + offset
    if causal and s > position:
        return False
    if length is not None and s >= length:
        return False
    if window is not None and not (position - window[0] <= s <= position + window[1]):
        return False
    return dense is None or bool(dense)
