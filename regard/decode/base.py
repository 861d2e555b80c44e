"""Shared by all decoding: settings, hypotheses, length limits, length penalties."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Literal

import torch
from torch import Tensor, nn

from regard.attention import paths
from regard.attention.record import record_any
from regard.data.batches import PairBatch
from regard.data.tokens import BOS, EOS, PAD
from regard.decode.cancel import check_cancelled
from regard.errors import ConfigError, check_setting, check_whole
from regard.kernels.decoder.decoder_cpu import TokenChoice
from regard.kernels.decoder.few_rows import steady_weights
from regard.models.base import State, StepDecoder


@dataclass(frozen=True)
class Hypothesis:
    """One output. Finished hypotheses rank first, then those of higher score.

    A truncated hypothesis has not paid for its eos, and repeated words can cost almost nothing; so it ranks
    after every finished one, whatever its score.
    """

    tokens: tuple[int, ...]  # without bos and eos
    log_probability: float  # of tokens and eos, under the model itself
    score: float  # after the length penalty
    finished: bool  # ended by eos; False: cut at the maximum length
    attention: Mapping[str, Tensor] = field(default_factory=dict, compare=False, repr=False)
    """Module path -> (..., T, S), heads leading. T includes the eos step. S is the length of this sentence's
    source; for attention over the output so far it is T, and column 0 is bos."""


@dataclass(frozen=True)
class Lengths:
    """A maximum for each sentence by its source length: factor × source length + extra steps."""

    factor: float
    extra: int = 0

    def limits(self, source_lengths: Tensor) -> Tensor:
        """(B,) -> (B,), 1 or more."""
        return (source_lengths * self.factor + self.extra).floor().long().clamp(min=1)


@dataclass(frozen=True)
class LengthPenalty(ABC):
    """score = log-probability / divisor(length), eos included. The divisor never decreases with length."""

    alpha: float

    def __post_init__(self) -> None:
        if not self.alpha >= 0:
            raise ConfigError(f"{type(self).__name__}: `alpha` has {self.alpha}; expected 0 or more.")

    @abstractmethod
    def divisor(self, lengths: Tensor) -> Tensor:
        """Lengths -> divisors of the same shape."""


class PowerPenalty(LengthPenalty):
    """length^alpha. alpha = 0: the plain log-probability; alpha = 1: its mean over the steps."""

    def divisor(self, lengths: Tensor) -> Tensor:
        return lengths.float() ** self.alpha


class WuPenalty(LengthPenalty):
    """((5 + length) / 6)^alpha: Wu et al. 2016, equation 14, https://arxiv.org/abs/1609.08144."""

    def divisor(self, lengths: Tensor) -> Tensor:
        return ((5.0 + lengths.float()) / 6.0) ** self.alpha


PENALTIES: dict[str, type[LengthPenalty]] = {"power": PowerPenalty, "wu": WuPenalty}

Credit = Literal["written", "read"]  # the word to which a step's attention belongs: written or read
Dictionary = Mapping[str, str]  # source piece -> target piece, as `Tokenizer.pieces` shows them

WIDEST = 1000  # largest beam: ten times what papers use
LIMIT = Lengths(factor=2.0, extra=10)  # no translation between these languages is longer
_CALLER = {"recipe": False}  # not a key of recipes


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """Search settings: the table [decode] of a recipe, and options of the caller."""

    beam: int = 5  # hypotheses kept; 1 = greedy
    penalty: Literal["power", "wu"] = "power"  # score / length ** alpha, or / ((5 + length) / 6) ** alpha
    length_penalty: float = 1.0  # alpha; 0 = off
    max_length: int = 0  # longest output; 0 = from the length of the source
    credit: Credit = "written"  # the word that a step's attention belongs to
    nbest: int = field(default=1, metadata=_CALLER)  # outputs returned
    # what a word that the model cannot write becomes: looked up here, else copied; None leaves `<unk>`
    dictionary: Dictionary | None = field(default_factory=dict, metadata=_CALLER)

    def __post_init__(self) -> None:
        check_setting("decode.beam", self.beam, least=1, most=WIDEST)
        check_setting("decode.length_penalty", self.length_penalty)
        check_setting("decode.max_length", self.max_length)
        if self.penalty not in PENALTIES:
            raise ConfigError(f"'decode.penalty' is {self.penalty!r}; expected {' or '.join(PENALTIES)}.")

    @property
    def width(self) -> int:
        """A beam cannot return more than it keeps."""
        return max(self.beam, self.nbest)

    @property
    def maximum(self) -> int | Lengths:
        return self.max_length or LIMIT

    @property
    def rule(self) -> LengthPenalty:
        """The length penalty."""
        return PENALTIES[self.penalty](self.length_penalty)

    def with_beam(self, beam: int | None) -> "Decoding":
        """These settings with another beam, if one is given."""
        return self if beam is None else replace(self, beam=beam)


GREEDY = Decoding(beam=1)


def limits_of(batch: PairBatch, maximum: int | Lengths, minimum: int) -> Tensor:
    """(B,) the maximum number of steps of each sentence, eos included."""
    check_whole("decode", least=0, minimum=minimum)
    if isinstance(maximum, Lengths):
        return maximum.limits(batch.source_lengths)
    if maximum < max(1, minimum):
        raise ConfigError(f"decode: `maximum` has {maximum}; expected {max(1, minimum)} or more steps.")
    return torch.full_like(batch.source_lengths, maximum)


def forbidden(step: int, minimum: int) -> tuple[int, ...]:
    """Pad and bos, and eos until there are `minimum` tokens."""
    return (PAD, BOS, EOS) if step < minimum else (PAD, BOS)


def forbid(log_probabilities: Tensor, *, step: int, minimum: int) -> Tensor:
    """(R, V) with -inf at forbidden tokens."""
    allowed = log_probabilities.clone()
    for token in forbidden(step, minimum):
        allowed[:, token] = -torch.inf
    return allowed


def best_tokens(log_probabilities: Tensor, width: int, *, step: int, minimum: int) -> tuple[Tensor, Tensor]:
    """(R, V) -> the `width` best allowed tokens of each row: (R, m) log-probabilities, (R, m) tokens."""
    call = TokenChoice(log_probabilities, width, forbidden(step, minimum))
    if (path := paths.choose("best-tokens", call)) is not None:
        return path.run(call)
    allowed = forbid(log_probabilities, step=step, minimum=minimum)
    if width == 1 and allowed.is_cuda:  # topk launches a dozen kernels and does not order ties
        return allowed.max(-1, keepdim=True)
    return allowed.topk(min(width, allowed.shape[-1]))


def advance(
    model: StepDecoder[State], tokens: Tensor, state: State, *, attention: bool
) -> tuple[Tensor, State, dict[str, Tensor]]:
    """One step: (R, V) log-probabilities in float32 or better, next state, path -> (R, ..., S) weights."""
    check_cancelled()
    if not attention:
        log_probabilities, state = model.step(tokens, state)
        return _at_least_float(log_probabilities), state, {}
    if not isinstance(model, nn.Module):
        raise ConfigError(
            f"decode: `model` has type {type(model).__name__}; expected nn.Module to record attention."
        )
    with record_any(model) as trace:
        log_probabilities, state = model.step(tokens, state)
    weights = {path: results[-1].weights[..., -1, :] for path, results in trace.items()}
    return _at_least_float(log_probabilities), state, weights


def _at_least_float(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


_LOCK = Lock()
_MODES: dict[nn.Module, tuple[int, bool]] = {}  # of modules in `evaluating`: number of users, previous mode


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode without gradients; restores the mode of every module afterwards.

    If several threads share a module, the last to leave restores its mode.
    """
    modules = list(model.modules()) if isinstance(model, nn.Module) else []
    with _LOCK:
        for module in modules:
            users, mode = _MODES.get(module, (0, module.training))
            _MODES[module] = users + 1, mode
            if module.training:
                module.training = False
    try:
        # not inference_mode: a model may cache a table built here and use it in training later
        with torch.no_grad(), steady_weights():
            yield
    finally:
        with _LOCK:
            for module in modules:
                users, mode = _MODES.pop(module)
                if users > 1:
                    _MODES[module] = users - 1, mode
                elif module.training != mode:
                    module.training = mode
