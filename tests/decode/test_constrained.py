"""What a rule forbids is never said, greedily or by beam, and what it allows keeps its probability."""

import itertools

import pytest
import torch
from seeds import offset_seed

from regard.data.points import own_batch, point_batch
from regard.decode.base import Decoding
from regard.decode.beam import beam_search
from regard.decode.constrained import Barred
from regard.decode.forced import forced
from regard.decode.pointing import point
from regard.models.pointer import PointerConfig, PointerNetwork

SETS = [torch.rand(n, 2, generator=torch.Generator().manual_seed(n)) for n in (1, 2, 4, 5)]


@pytest.fixture(scope="module")
def model():
    """Untrained, with a large pointer: without a rule it says points twice."""
    torch.manual_seed(offset_seed(3))
    made = PointerNetwork(PointerConfig(dimension=2, hidden=8)).eval()
    with torch.no_grad():
        made.attention.score.v.weight.mul_(4)
    return made


@pytest.mark.parametrize("beam", [1, 3])
def test_every_tour_visits_each_point_once(model, beam):
    free = point(model, own_batch(SETS), rule="free", decoding=Decoding(beam=beam))
    assert any(sorted(f.order) != list(range(len(s))) for f, s in zip(free, SETS, strict=True))
    found = point(model, own_batch(SETS), rule="all", decoding=Decoding(beam=beam))
    for pointed, own in zip(found, SETS, strict=True):
        assert sorted(pointed.order) == list(range(len(own)))
        assert pointed.finished


@pytest.mark.parametrize("beam", [1, 3])
def test_no_point_comes_twice(model, beam):
    for pointed in point(model, own_batch(SETS), rule="once", decoding=Decoding(beam=beam)):
        assert len(set(pointed.order)) == len(pointed.order)


def test_a_wide_beam_finds_the_best_of_all_tours(model):
    own = SETS[2]
    orders = list(itertools.permutations(range(4)))
    sets = point_batch(own.expand(len(orders), 4, 2), torch.full((len(orders),), 4), torch.tensor(orders))
    best = max(forced(model, sets, attention=False), key=lambda track: track.log_probability)
    [found] = point(model, own_batch([own]), rule="all", decoding=Decoding(beam=24, length_penalty=0.0))
    assert found.log_probability == pytest.approx(best.log_probability, abs=1e-5)


def test_a_set_is_answered_the_same_in_any_batch(model):
    together = point(model, own_batch(SETS), rule="all", decoding=Decoding(beam=3))
    for pointed, own in zip(together, SETS, strict=True):
        [alone] = point(model, own_batch([own]), rule="all", decoding=Decoding(beam=3))
        assert alone.order == pointed.order


def test_the_n_best_are_distinct_tours(model):
    found = beam_search(Barred(model, "all"), own_batch(SETS[2:3]), width=6, nbest=6, maximum=5)
    assert len({hypothesis.tokens for hypothesis in found[0]}) == 6


def test_the_pointer_comes_back_with_its_own_columns(model):
    found = point(model, own_batch(SETS), rule="once", attention=True, decoding=Decoding(beam=2))
    for pointed, own in zip(found, SETS, strict=True):
        assert pointed.weights.shape == (len(pointed.order) + pointed.finished, len(own) + 1)
        torch.testing.assert_close(pointed.weights.sum(-1), torch.ones(len(pointed.weights)))
