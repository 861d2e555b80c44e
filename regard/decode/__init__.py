"""Greedy, beam and sampled decoding against the StepDecoder protocol."""
