"""Greedy, beam and sampled decoding against the StepDecoder protocol."""

import regard.decode.captured  # noqa: F401 - it registers itself
