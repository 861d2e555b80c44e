"""The step of a Transformer's decoder on a CPU."""
