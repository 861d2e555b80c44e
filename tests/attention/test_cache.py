"""A cache that grows by a position a step, and sources that several rows of the query share."""

import pytest
import torch
from built import built
from seeds import offset_seed

from regard import catalog
from regard.attention.cache import Cache
from regard.attention.compose import Attention
from regard.attention.history import History
from regard.attention.mask import Mask
from regard.attention.normalizers.hard import Hard
from regard.attention.parts import Sizes
from regard.attention.scores.additive import AdditiveScore
from regard.attention.scores.base import HistoryScore
from regard.attention.scores.dot import DotScore
from regard.attention.source import Source
from regard.attention.windows.local_monotonic import LocalMonotonic
from regard.errors import MaskError

SIZES = Sizes(query=6, keys=6, hidden=5, positions=9)


def grown(attention, x, mask=None, T=None):
    """The cache after T positions, one by one."""
    cache = Cache.of(attention.prepare(x[:, :0]), mask or Mask(causal=True))
    for t in range(x.shape[1] if T is None else T):
        cache = cache.append(attention.prepare(x[:, t : t + 1]))
    return cache


@pytest.mark.parametrize("window", [None, (2, 0)])
def test_step_by_step_equals_all_at_once(window):
    attention, x = Attention(DotScore()), torch.randn(3, 40, 6)
    mask = Mask(causal=True, window=window)
    expected = attention(x, attention.prepare(x, mask=mask)).context
    cache = Cache.of(attention.prepare(x[:, :0]), mask)
    for t in range(40):
        cache = cache.append(attention.prepare(x[:, t : t + 1]))
        assert cache.length == cache.source.S == t + 1
        found = attention(x[:, t : t + 1], cache.source).context
        torch.testing.assert_close(found[:, 0], expected[:, t])


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("window", [None, (2, 0)])
@pytest.mark.parametrize("chunks", [(1,) * 9, (4, 1, 1, 3), (9,), (2, 7)], ids=str)
def test_positions_appended_together_do_not_see_those_after_them(chunks, window, kernel):
    attention, x = Attention(DotScore(), kernel=kernel), torch.randn(3, 9, 6)
    mask = Mask(causal=True, window=window)
    expected = attention(x, attention.prepare(x, mask=mask))
    cache = Cache.of(attention.prepare(x[:, :0]), mask)
    source = attention.prepare(x[:, :0], mask=mask)
    for part in x.split(chunks, 1):
        cache, source = (grows.append(attention.prepare(part)) for grows in (cache, source))
        end, T = cache.length, part.shape[1]
        for seen in (cache.source, source):
            result = attention(part, seen)
            torch.testing.assert_close(result.context, expected.context[:, end - T : end])
            torch.testing.assert_close(result.weights, expected.weights[:, end - T : end, :end])
            last = attention(part[:, -1:], seen).context  # the last of them alone
            torch.testing.assert_close(last, expected.context[:, end - 1 : end])


def test_a_cache_refuses_what_it_would_not_keep():
    attention, x = Attention(DotScore()), torch.randn(2, 3, 6)
    padded = attention.prepare(x, mask=Mask(lengths=torch.tensor([3, 1])))
    text = (
        r"^Cache: `source` has a mask of its own; expected none\. `Cache.of\(source, mask\)` takes causality"
    )
    for refused in (lambda: Cache.of(padded, Mask()), lambda: grown(attention, x).append(padded)):
        with pytest.raises(MaskError, match=text):
            refused()
    with pytest.raises(
        MaskError, match=r"^Cache: `mask` has lengths or a dense part; expected only causality"
    ):
        Cache.of(attention.prepare(x), padded.mask)


def test_a_cache_grown_twice_keeps_both_continuations():
    attention, x = Attention(DotScore()), torch.randn(2, 5, 6)
    cache = grown(attention, x, T=3)
    one, other = (cache.append(attention.prepare(x[:, t : t + 1])) for t in (3, 4))
    assert torch.equal(one.source.keys, x[:, [0, 1, 2, 3]])
    assert torch.equal(other.source.keys, x[:, [0, 1, 2, 4]])
    assert torch.equal(cache.source.keys, x[:, :3])
    longer = one.append(attention.prepare(x[:, :1]))
    assert torch.equal(longer.source.keys, x[:, [0, 1, 2, 3, 0]])


def test_growing_writes_the_new_position_alone():
    attention, x = Attention(DotScore()), torch.randn(2, 200, 6)
    cache = grown(attention, x, T=1)
    made, memory = 1, cache.buffer.keys.data_ptr()
    for t in range(1, 200):
        cache = cache.append(attention.prepare(x[:, t : t + 1]))
        made += cache.buffer.keys.data_ptr() != memory
        memory = cache.buffer.keys.data_ptr()
    assert made < 200 / 8
    assert torch.equal(cache.source.keys, x)


@pytest.mark.parametrize("wanted", ["query", "keys", "values", "query, keys, values"])
def test_gradients_of_steps_are_those_of_all_at_once(wanted):
    attention, mask = Attention(DotScore()), Mask(causal=True)
    x = {name: torch.randn(2, 6, 5).requires_grad_(name in wanted) for name in ("query", "keys", "values")}
    query, keys, values = x.values()
    cache, steps = Cache.of(attention.prepare(keys[:, :0], values[:, :0]), mask), []
    for t in range(6):
        cache = cache.append(attention.prepare(keys[:, t : t + 1], values[:, t : t + 1]))
        steps.append(attention(query[:, t : t + 1], cache.source).context)
    once = attention(query, attention.prepare(keys, values, mask)).context
    leaves = [tensor for name, tensor in x.items() if name in wanted]
    found, expected = (torch.autograd.grad(y.square().sum(), leaves) for y in (torch.cat(steps, 1), once))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_cache_of_a_shared_source_has_a_row_for_each_hypothesis():
    source = shared_source().share(GROUPED)
    assert torch.equal(Cache.of(source, Mask()).source.keys, source.spread().keys)


def test_selected_rows_are_copies_that_grow_apart():
    attention, x = Attention(DotScore()), torch.randn(3, 4, 6)
    cache = grown(attention, x, T=3)
    chosen = cache.select(torch.tensor([2, 0, 0]))
    assert torch.equal(chosen.source.keys, x[[2, 0, 0], :3])
    chosen = chosen.append(attention.prepare(x[:, 3:]))
    assert torch.equal(chosen.source.keys[:, :3], x[[2, 0, 0], :3])
    assert torch.equal(chosen.source.keys[:, 3], x[:, 3])
    assert torch.equal(cache.source.keys, x[:, :3])


# sources that are shared

GROUPED = torch.tensor([1, 1, 0, 0, 2, 2])


def shared_source(mask=None, attention=None):
    keys = torch.randn(3, 5, 6)
    return (attention or Attention(DotScore())).prepare(keys, mask=mask)


def test_rows_of_one_sentence_share_its_source_without_a_copy():
    source = shared_source(Mask(lengths=torch.tensor([5, 2, 4])))
    same = source.share(torch.tensor([0, 0, 1, 1, 2, 2]))
    assert (same.copies, same.keys is source.keys) == (2, True)
    again = same.share(torch.tensor([1, 1, 2, 3, 4, 5]))  # hypotheses change places within their sentence
    assert (again.copies, again.keys is source.keys) == (2, True)
    fewer = same.share(torch.tensor([0, 1, 1, 4, 5, 4]))  # the second sentence is over
    assert (fewer.copies, fewer.keys.shape[0]) == (3, 2)
    assert torch.equal(fewer.spread().keys, source.keys[[0, 0, 0, 2, 2, 2]])
    assert fewer.mask.lengths.tolist() == [5, 4]


@pytest.mark.parametrize("rows", [[0, 1, 1], [2, 0, 0, 1], [0, 1, 0, 1], [], [2, 1, 0], [1, 1, 1, 1]])
def test_sharing_gives_the_rows_that_selecting_gives(rows):
    source = shared_source(Mask(lengths=torch.tensor([5, 2, 4])))
    rows = torch.tensor(rows, dtype=torch.long)
    mine, expected = source.share(rows).spread(), source.select(rows)
    assert torch.equal(mine.keys, expected.keys)
    assert torch.equal(mine.values, expected.values)
    assert torch.equal(mine.mask.lengths, expected.mask.lengths)


WITHOUT_HISTORY = [row.key for row in catalog.rows("score") if not issubclass(row.load(), HistoryScore)]


@pytest.mark.parametrize("kernel", ["auto", "reference"])
@pytest.mark.parametrize("score", WITHOUT_HISTORY)
def test_shared_rows_attend_as_rows_of_their_own(score, kernel):
    attention = Attention(built(score, SIZES).score, kernel=kernel).eval()
    source = shared_source(Mask(lengths=torch.tensor([5, 2, 4])), attention)
    query = torch.randn(6, 1, 6)
    mine, expected = (attention(query, s(GROUPED)) for s in (source.share, source.select))
    torch.testing.assert_close(mine.context, expected.context)
    torch.testing.assert_close(mine.weights, expected.weights)
    torch.testing.assert_close(mine.rows(torch.tensor([0])), expected.weights)
    torch.testing.assert_close(attention.align(query, source.share(GROUPED)).weights, expected.weights)


@pytest.mark.parametrize(
    "mask",
    [Mask(causal=True, offset=2), Mask(window=(1, 1), offset=2), None],
    ids=["causal", "window", "dense"],
)
def test_masks_that_depend_on_the_query_are_kept(mask):
    attention, mask = Attention(DotScore()), mask or Mask(dense=torch.rand(4, 5) > 0.3)
    T = 1 if mask.dense is None else 4
    source, query = shared_source(mask), torch.randn(6, T, 6)
    mine, expected = (attention(query, s(GROUPED)) for s in (source.share, source.select))
    torch.testing.assert_close(mine.context, expected.context)


def test_windows_and_histories_see_rows_of_their_own():
    attention = Attention(DotScore(), window=LocalMonotonic(half_width=1))
    source, query = shared_source(), torch.randn(6, 1, 6)
    mine, expected = (attention(query, s(GROUPED).at(3)) for s in (source.share, source.select))
    torch.testing.assert_close(mine.context, expected.context)
    attention = Attention(built("coverage", SIZES).score)
    source = shared_source(attention=attention)
    history = History.start(source.select(GROUPED))
    mine, expected = (attention(query, s(GROUPED), history=history) for s in (source.share, source.select))
    torch.testing.assert_close(mine.context, expected.context)
    assert History.start(source.share(GROUPED)).previous.shape == history.previous.shape


def test_a_choice_of_a_shared_row_is_the_one_that_was_made():
    attention = Attention(DotScore(), normalizer=Hard())
    source = shared_source().share(GROUPED)
    result = attention(torch.randn(6, 1, 6), source, generator=torch.Generator().manual_seed(offset_seed(1)))
    torch.testing.assert_close(result.context, result.weights @ source.spread().values)
    assert result.log_probability.shape == (6, 1)


def test_appending_to_a_shared_source_gives_each_row_its_own():
    source = shared_source().share(GROUPED)
    more = Source(torch.randn(6, 1, 6), torch.randn(6, 1, 6), Mask())
    longer = source.append(more)
    assert (longer.copies, tuple(longer.keys.shape)) == (1, (6, 6, 6))
    assert torch.equal(longer.keys[:, 5:], more.keys)


def test_threads_that_grow_one_cache_do_not_write_over_each_other():
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier

    rounds, threads = 60, 4
    start = Cache.of(Source(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3), Mask()), Mask(causal=True))
    together = Barrier(threads)

    def grow(number):
        together.wait()
        row = torch.full((1, 1, 3), float(number))
        return start.append(Source(row, row, Mask()))

    with ThreadPoolExecutor(threads) as pool:
        for _ in range(rounds):
            start = start.append(Source(torch.zeros(1, 1, 3), torch.zeros(1, 1, 3), Mask()))
            for number, cache in enumerate(pool.map(grow, range(threads))):
                assert (
                    cache.source.keys[0, -1].tolist() == cache.source.values[0, -1].tolist() == [number] * 3
                )


def test_what_was_made_of_a_shared_source_serves_every_step_of_a_beam():
    attention = Attention(AdditiveScore(query=4, keys=4, hidden=8))
    source = attention.prepare(torch.randn(2, 5, 4), mask=Mask(lengths=[5, 3]))
    query = torch.randn(6, 1, 4)
    made = []
    for step in range(3):  # every step chooses the hypotheses that go on
        source = source.share(
            torch.tensor([0, 0, 0, 1, 1, 1]) if step == 0 else torch.tensor([1, 1, 2, 3, 5, 4])
        )
        with torch.no_grad():
            attention(query, source.at(step))
        made.append(source.__dict__["_made"].get("exponentials"))
    assert made[0] is made[1] is made[2]
