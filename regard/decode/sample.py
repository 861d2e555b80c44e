"""Sampling: tokens drawn from the model's distribution, or from its likelier part."""

from collections.abc import Sequence

import torch
from torch import Generator, Tensor

from regard.data.batches import PairBatch
from regard.decode.base import Hypothesis, Lengths, PowerPenalty, forbid, limits_of
from regard.decode.rollout import walk
from regard.errors import ConfigError, check_whole
from regard.models.base import State, StepDecoder


def sample(
    model: StepDecoder[State],
    batch: PairBatch,
    *,
    maximum: int | Lengths,
    minimum: int = 0,
    count: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    generator: Generator | Sequence[Generator] | None = None,
    attention: bool = False,
) -> list[list[Hypothesis]]:
    """`count` hypotheses for each sentence, in the order they were drawn; they may be equal.

    The distribution is sharpened by `temperature`, then cut to the `top_k` likeliest tokens (0: all), then to
    the fewest of those that hold `top_p` of the remaining mass. Log-probabilities stay the model's own. A
    single generator serves the sentences in order; with one for each sentence, a sentence's samples do not
    depend on the others in its batch.
    """
    _check(count, temperature, top_k, top_p)
    limits = limits_of(batch, maximum, minimum)
    chances = _chances(batch, limits, count, generator)

    def pick(step: int, rows: Tensor, log_probabilities: Tensor) -> Tensor:
        allowed = forbid(log_probabilities, step=step, minimum=minimum) / temperature
        return draw(allowed, chances[rows, step], top_k=top_k, top_p=top_p)

    tracks = walk(model, batch, pick=pick, limits=limits, copies=count, attention=attention)
    hypotheses = [track.hypothesis(PowerPenalty(0.0)) for track in tracks]
    return [hypotheses[row : row + count] for row in range(0, len(hypotheses), count)]


def draw(log_weights: Tensor, chance: Tensor, *, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """(R, V) unnormalised log-probabilities, (R,) uniform numbers in [0, 1] -> (R,) tokens."""
    tokens: Tensor | None = None
    if top_k:
        log_weights, tokens = log_weights.topk(min(top_k, log_weights.shape[-1]))
    elif top_p < 1.0:
        log_weights, tokens = log_weights.sort(dim=-1, descending=True)
    weights = log_weights.softmax(-1)
    if top_p < 1.0:
        before = weights.cumsum(-1) - weights  # the mass of the likelier tokens
        weights = weights.masked_fill(before >= top_p, 0.0)
    mass = weights.cumsum(-1)
    total = mass[:, -1:]
    # strictly below the total, or rounding could choose a token of probability zero
    point = torch.minimum(chance[:, None] * total, torch.nextafter(total, torch.zeros_like(total)))
    index = torch.searchsorted(mass, point, right=True)
    return (index if tokens is None else tokens.gather(-1, index)).squeeze(-1)


def _chances(
    batch: PairBatch, limits: Tensor, count: int, generator: Generator | Sequence[Generator] | None
) -> Tensor:
    """(B × count, T) uniform numbers, drawn on the generator's own device: the same on every machine."""
    if generator is None or isinstance(generator, Generator):
        generators: list[Generator | None] = [generator] * batch.size
    else:
        generators = list(generator)
    if len(generators) != batch.size:
        raise ConfigError(
            f"sample: `generator` has {len(generators)} items; expected {batch.size}, one for each sentence."
        )
    longest = int(limits.max()) if batch.size else 0
    chances = torch.zeros(batch.size, count, longest)
    for sentence, (limit, one) in enumerate(zip(limits.tolist(), generators, strict=True)):
        device = None if one is None else one.device
        chances[sentence, :, :limit] = torch.rand(count, limit, generator=one, device=device).cpu()
    return chances.flatten(0, 1).to(limits.device)


def _check(count: int, temperature: float, top_k: int, top_p: float) -> None:
    check_whole("sample", count=count)
    if not temperature > 0:
        raise ConfigError(
            f"sample: `temperature` has {temperature}; expected more than 0. For 0, use greedy()."
        )
    if top_k < 0:
        raise ConfigError(f"sample: `top_k` has {top_k}; expected 0 (all) or more.")
    if not 0 < top_p <= 1:
        raise ConfigError(f"sample: `top_p` has {top_p}; expected more than 0, at most 1.")
