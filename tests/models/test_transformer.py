"""The Transformer against the paper: its equations, what it may see, and one step at a time."""

import math

import pytest
import torch
from pairs import batch
from seeds import offset_seed

from regard import catalog
from regard.attention.compose import Attention
from regard.attention.config import AttentionConfig
from regard.attention.history import History
from regard.attention.in_order import InOrder
from regard.attention.mask import Mask
from regard.attention.multihead import MultiHead
from regard.attention.record import record
from regard.attention.scores.dot import DotScore
from regard.data.batches import PairBatch
from regard.decode.beam import beam_search
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from regard.errors import ConfigError, KernelRefused, ShapeError
from regard.layers.positions import TABLE, LearnedPositions, SinusoidalPositions, sinusoids
from regard.layers.transformer import BatchNorm, DecoderLayer, EncoderLayer, FeedForward, LayerNorm
from regard.models.base import teacher_inputs
from regard.models.transformer import Transformer, TransformerConfig


def mechanism(score="scaled-dot", **settings):
    return {"attention": AttentionConfig(score, **{"heads": 4} | settings)}


SIZES = {"source_vocab": 17, "target_vocab": 19, "layers": 2, "d_model": 16, "d_ff": 32}
OPTIONS = {
    "as printed": {},
    "pre-norm": {"norm": "pre"},
    "batch norm": {"norm_kind": "batch"},
    "learned positions": {"positions": "learned"},
    "no positions": {"positions": "none"},
    "restricted": {"restricted": 1},
    "d_k of its own": {"d_k": 3},
    "additive": mechanism("additive"),
    "cosine": mechanism("cosine"),
    "location": mechanism("location") | {"longest": 9},
    "coverage": mechanism("coverage"),
    "location-aware": mechanism("location-aware", filters=3, width=5),
    "coverage, restricted": mechanism("coverage") | {"restricted": 1, "norm": "pre"},
    "location-aware, sparsemax": mechanism("location-aware", normalizer="sparsemax"),
    "sparsemax": mechanism(normalizer="sparsemax"),
    "fewer decoder layers": {"decoder_layers": 1},
    "untied": {"tied": "none"},
    "reference kernel": mechanism(kernel="reference"),
}
LOOKING_BACK = [mechanism("coverage"), mechanism("location-aware")]
every_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
looking_back = pytest.mark.parametrize(
    "options", LOOKING_BACK, ids=lambda options: options["attention"].score
)
with_and_without_histories = pytest.mark.parametrize(
    "options", [{}, *LOOKING_BACK], ids=("scaled-dot", "coverage", "location-aware")
)


def build(**options):
    torch.manual_seed(offset_seed(0))
    model = Transformer(TransformerConfig(**(SIZES | {"dropout": 0.0} | mechanism() | options))).eval()
    for module in model.modules():  # running averages begin at 0 and 1, where nothing would be normalised
        if isinstance(module, BatchNorm):
            module.mean.normal_()
            module.variance.uniform_(0.5, 30.0)
    return model


def alone(both, row):
    """One row of a batch, without its padding."""
    S, T = int(both.source_lengths[row]), int(both.target_lengths[row])
    here = slice(row, row + 1)
    return PairBatch(
        both.source[here, :S], both.source_lengths[here], both.target[here, :T], both.target_lengths[here]
    )


def close(a, b):
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-4)


def test_a_whole_pass_is_the_papers_equations():
    model = build(layers=1).double()
    one = batch(lengths=(4,), targets=(3,))
    d, h = 16, 4

    def attention(m, x, y, causal):
        heads = []
        for i in range(h):
            part = slice(i * d // h, (i + 1) * d // h)
            Q, K, V = (w.weight[part] @ z.T for w, z in ((m.W_Q, x), (m.W_K, y), (m.W_V, y)))
            scores = (Q.T @ K) / math.sqrt(d / h)
            if causal:
                scores = scores + torch.full(scores.shape, -math.inf, dtype=torch.double).triu(1)
            heads.append(scores.exp() / scores.exp().sum(-1, keepdim=True) @ V.T)
        return torch.cat(heads, -1) @ m.W_O.weight.T

    def norm(x):  # gains are 1 and biases 0 before training
        centred = x - x.mean(-1, keepdim=True)
        return centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()

    def network(f, x):
        return (x @ f.W_1.weight.T + f.W_1.bias).clamp(min=0) @ f.W_2.weight.T + f.W_2.bias

    def words(E, tokens):
        x = E.weight[tokens] * math.sqrt(d)
        for pos in range(len(tokens)):
            for i in range(d // 2):
                x[pos, 2 * i] += math.sin(pos / 10000 ** (2 * i / d))
                x[pos, 2 * i + 1] += math.cos(pos / 10000 ** (2 * i / d))
        return x

    with torch.no_grad():
        layer, x = model.encoder.layers[0], words(model.E_source, one.source[0])
        x = norm(x + attention(layer.attention, x, x, causal=False))
        x = norm(x + network(layer.feed_forward, x))
        layer, y = model.decoder.layers[0], words(model.E, teacher_inputs(one)[0])
        y = norm(y + attention(layer.self_attention, y, y, causal=True))
        y = norm(y + attention(layer.source_attention, y, x, causal=False))
        y = norm(y + network(layer.feed_forward, y))
        torch.testing.assert_close(model(one)[0], y @ model.E.weight.T, atol=1e-6, rtol=1e-5)


@every_option
def test_one_step_at_a_time_equals_the_whole_pass(options):
    model, pairs = build(**options), batch()
    forced = model(pairs).log_softmax(-1)
    state, tokens = model.start(pairs), teacher_inputs(pairs)
    for t in range(tokens.shape[1]):
        log_probabilities, state = model.step(tokens[:, t], state)
        close(log_probabilities, forced[:, t])


@every_option
def test_a_sentence_does_not_see_the_padding_of_its_batch(options):
    model, both = build(**options), batch()
    close(model(both)[1:, :2], model(alone(both, 1)))


@every_option
def test_no_word_sees_those_after_it(options):
    model, pairs = build(**options), batch()
    before = model(pairs)
    for t in range(5):
        changed = pairs.target.clone()
        changed[0, t] = 4 + (changed[0, t] - 3) % 14
        after = model(PairBatch(pairs.source, pairs.source_lengths, changed, pairs.target_lengths))
        assert torch.equal(before[0, : t + 1], after[0, : t + 1])
        assert t == 4 or not torch.equal(before[0, t + 1], after[0, t + 1])


@every_option
def test_what_a_beam_finds_does_not_depend_on_the_batch(options):
    model, both = build(**options), batch()
    together = beam_search(model, both, width=3, nbest=3, maximum=6, attention=True)
    for row in range(2):
        [by_itself] = beam_search(model, alone(both, row), width=3, nbest=3, maximum=6, attention=True)
        for a, b in zip(together[row], by_itself, strict=True):
            assert a.tokens == b.tokens
            assert math.isclose(a.score, b.score, abs_tol=1e-4)
            assert a.attention.keys() == b.attention.keys()
            for path, weights in a.attention.items():
                close(weights, b.attention[path])


@with_and_without_histories
def test_a_beam_of_copies_finds_what_single_rows_find(options):
    """Hypotheses share the source of their sentence; a search that copies it must find the same."""
    model, pairs = build(**options), batch(lengths=(7, 3, 5), targets=(5, 2, 3))
    found = beam_search(model, pairs, width=4, nbest=4, maximum=7)
    select = model.select

    def copying(state, rows):
        sources = tuple(source.select(rows) for source in state.sources)
        return select(state, rows)._replace(sources=sources)

    model.select = copying
    copied = beam_search(model, pairs, width=4, nbest=4, maximum=7)
    assert [[h.tokens for h in each] for each in found] == [[h.tokens for h in each] for each in copied]


@with_and_without_histories
def test_a_step_leaves_its_state_as_it_was(options):
    model, pairs = build(**options), batch()
    state = model.start(pairs)
    _, state = model.step(torch.tensor([1, 1]), state)
    first, grown = model.step(torch.tensor([5, 6]), state)
    other, _ = model.step(torch.tensor([7, 8]), state)
    again, _ = model.step(torch.tensor([5, 6]), state)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    later, _ = model.step(torch.tensor([4, 4]), grown)  # the other steps have not written into this one
    fresh = model.start(pairs)
    for tokens in ([1, 1], [5, 6], [4, 4]):
        expected, fresh = model.step(torch.tensor(tokens), fresh)
    close(later, expected)


@with_and_without_histories
def test_gradients_pass_through_steps_as_through_the_whole(options):
    model, pairs = build(**options), batch()
    model(pairs).log_softmax(-1)[:, 2].sum().backward()
    expected = model.E_source.weight.grad.clone()
    model.zero_grad()
    state, tokens = model.start(pairs), teacher_inputs(pairs)
    for t in range(3):
        log_probabilities, state = model.step(tokens[:, t], state)
    log_probabilities.sum().backward()
    close(model.E_source.weight.grad, expected)


def test_without_positions_the_encoder_does_not_see_order():
    model, pairs = build(positions="none"), batch(lengths=(7,), targets=(5,))
    order = torch.randperm(7)
    turned = PairBatch(pairs.source[:, order], pairs.source_lengths, pairs.target, pairs.target_lengths)
    annotations, _ = model._encode(pairs)
    close(model._encode(turned)[0], annotations[:, order])
    close(model(turned), model(pairs))
    model = build()
    assert not torch.allclose(model(turned), model(pairs))


def test_one_head_is_plain_attention():
    heads = MultiHead(6, 1)
    for matrix in (heads.W_Q, heads.W_K, heads.W_V, heads.W_O):
        matrix.weight.data = torch.eye(6)
    x = torch.randn(2, 5, 6)
    weights = (x @ x.mT / math.sqrt(6)).softmax(-1)
    close(heads(x, heads.prepare(x)).context, weights @ x)


def test_padding_receives_exactly_no_weight():
    model, pairs = build(), batch()
    with record(model) as trace:
        model(pairs)
    for path, [result] in trace.items():
        assert result.weights.isfinite().all()
        if "self" not in path:
            assert (result.weights[1, :, :, 3:] == 0).all()
            close(result.weights[1].sum(-1), torch.ones(4, result.weights.shape[2]))


def test_a_row_of_padding_alone_gives_numbers():
    heads = MultiHead(8, 2)
    x = torch.randn(2, 3, 8)
    result = heads(x, heads.prepare(x, mask=Mask(lengths=torch.tensor([3, 0]))))
    assert (result.weights[1] == 0).all()
    assert (result.context[1] == 0).all()


def test_restricted_self_attention_reaches_its_neighbours_alone():
    model = build(restricted=2)
    with record(model) as trace:
        model(batch(lengths=(7,), targets=(6,)))
    own = trace["encoder.layers.0.attention.attention"][0].weights[0, 0]
    distance = (torch.arange(7)[:, None] - torch.arange(7)).abs()
    assert ((own > 0) == (distance <= 2)).all()
    own = trace["decoder.layers.0.self_attention.attention"][0].weights[0, 0]
    behind = torch.arange(6)[:, None] - torch.arange(6)
    assert ((own > 0) == ((behind >= 0) & (behind <= 2))).all()


@pytest.mark.parametrize(("size", "millions"), [("base", 63.0), ("big", 214.2)])
def test_the_papers_sizes_have_their_parameters(size, millions):
    with torch.device("meta"):
        model = Transformer(
            TransformerConfig(source_vocab=37_000, target_vocab=37_000, size=size, tied="all")
        )
    count = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert abs(count / millions - 1) < 0.005


@pytest.mark.parametrize(
    ("tied", "shared", "matrices"),
    [("all", 0, 1), ("target", 1, 2), ("none", 1, 3), ("auto", 1, 1), ("auto", 0, 2)],
)
def test_tied_embeddings_are_one_matrix(tied, shared, matrices):
    model = build(source_vocab=19, tied=tied, shared_vocab=shared)
    assert len({id(w) for w in (model.E_source.weight, model.E.weight, model.W.weight)}) == matrices


def test_first_words_and_first_scores_have_variance_one():
    torch.manual_seed(offset_seed(0))
    model = Transformer(
        TransformerConfig(source_vocab=500, target_vocab=500, size="tiny", d_model=256, positions="none")
    )
    words = model.E.weight.detach() * math.sqrt(256)
    assert abs(float(words.var()) - 1) < 0.05
    scores = model(PairBatch(*(torch.randint(4, 500, (8, 9)), torch.full((8,), 9)) * 2))
    assert 0.5 < float(scores.detach().var()) < 1.5


# positions


def test_the_table_is_the_papers_formula():
    table = sinusoids(40, 10)
    for pos in range(40):
        for i in range(5):
            angle = pos / 10000 ** (2 * i / 10)
            assert math.isclose(table[pos, 2 * i], math.sin(angle), abs_tol=1e-5)
            assert math.isclose(table[pos, 2 * i + 1], math.cos(angle), abs_tol=1e-5)
    assert torch.equal(sinusoids(40, 9), sinusoids(40, 9)[:, :9])
    assert sinusoids(3, 9).shape == (3, 9)
    assert torch.equal(sinusoids(40, 9, first=30), sinusoids(40, 9)[30:])


@pytest.mark.parametrize("k", [1, 7, 100])
def test_a_distance_is_a_rotation_of_every_pair(k):
    d = 32
    table = sinusoids(200, d).double()
    rotation = torch.zeros(d, d, dtype=torch.double)
    for i in range(d // 2):
        angle = k / 10000 ** (2 * i / d)
        block = [[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]
        rotation[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(block)
    torch.testing.assert_close(table[k:], table[:-k] @ rotation.T, atol=1e-5, rtol=0)


def test_positions_go_on_beyond_the_table_and_from_any_place():
    positions = SinusoidalPositions(6)
    nothing = torch.zeros(1, TABLE + 9, 6)
    every = positions(nothing)
    torch.testing.assert_close(every[0], sinusoids(TABLE + 9, 6))
    close(positions(nothing[:, :1], TABLE + 3), every[:, TABLE + 3 : TABLE + 4])


def test_learned_positions_end_and_say_so():
    positions = LearnedPositions(6, longest=4)
    close(positions(torch.zeros(1, 2, 6), 2)[0], positions.table[2:])
    message = r"LearnedPositions: `words` has position 4; expected positions below longest=4\. Sinusoidal"
    with pytest.raises(ShapeError, match=message):
        positions(torch.zeros(1, 3, 6), 2)


# the scale


@pytest.mark.parametrize(
    ("d_k", "entropy", "peak"),
    [(4, 2.80, 0.28), (16, 1.37, 0.58), (64, 0.60, 0.79), (256, 0.26, 0.90), (1024, 0.13, 0.95)],
)
def test_without_its_scale_the_softmax_of_wide_vectors_is_saturated(d_k, entropy, peak):
    def measure(score):
        weights = score(queries, keys).softmax(-1)
        return -(weights * weights.clamp(min=1e-30).log()).sum(-1).mean(), weights.amax(-1).mean()

    queries, keys = torch.randn(500, 8, d_k), torch.randn(500, 64, d_k)
    found = measure(DotScore(1.0))
    assert abs(found[0] - entropy) < 0.05
    assert abs(found[1] - peak) < 0.03
    found = measure(DotScore())
    assert abs(found[0] - 3.69) < 0.05
    assert abs(found[1] - 0.107) < 0.01


# norms


def test_layer_norm_ignores_scale_and_shift_of_a_position():
    norm, x = LayerNorm(8).double(), torch.randn(2, 3, 8, dtype=torch.double)
    scales = torch.rand(2, 3, 1, dtype=torch.double) + 0.5
    torch.testing.assert_close(norm(x * scales + 3.0), norm(x), atol=1e-4, rtol=0)


def test_batch_norm_counts_valid_positions_alone():
    norm, x = BatchNorm(5), 3 + 2 * torch.randn(4, 6, 5)
    valid = torch.arange(6) < torch.tensor([6, 1, 3, 4])[:, None]
    out = norm(x, valid)
    close(out[valid].mean(0), torch.zeros(5))
    close(out[valid].var(0, correction=0), torch.ones(5))
    noisy = torch.where(valid[..., None], x, 1e4)
    assert torch.equal(BatchNorm(5)(noisy, valid)[valid], BatchNorm(5)(x, valid)[valid])
    close(norm.mean, 0.1 * x[valid].mean(0))


def test_batch_norm_of_a_full_batch_is_pytorchs():
    norm, theirs = BatchNorm(5), torch.nn.BatchNorm1d(5)
    x = torch.randn(64, 5)
    close(norm(x[None])[0], theirs(x))
    close(norm.mean, theirs.running_mean)
    close(norm.variance, theirs.running_var)
    norm.eval(), theirs.eval()
    close(norm(x[None])[0], theirs(x))


def test_the_running_variance_of_batch_norm_is_unbiased_over_the_valid_positions():
    """Ioffe and Szegedy, algorithm 2: Var[x] = m/(m-1) E[σ²]; m counts no padding."""
    norm, x = BatchNorm(5, momentum=1.0), 3 + 2 * torch.randn(3, 4, 5)
    valid = torch.arange(4) < torch.tensor([1, 1, 2])[:, None]
    norm(x, valid)
    close(norm.variance, x[valid].var(0, correction=1))
    norm(x[:1, :1])
    assert torch.equal(norm.variance, torch.zeros(5)), "one position has no variance"


def test_in_training_batch_norm_lets_words_see_each_other_and_layer_norm_does_not():
    pairs = batch()
    changed = PairBatch(pairs.source, pairs.source_lengths, pairs.target.clone(), pairs.target_lengths)
    changed.target[1, 0] = 4 + (changed.target[1, 0] - 3) % 14
    for kind, sees in (("batch", True), ("layer", False)):
        model = build(norm_kind=kind).train()
        assert torch.equal(model(pairs)[0], model(changed)[0]) != sees


def test_the_network_is_the_same_at_every_position():
    network, x = FeedForward(4, 9), torch.randn(2, 3, 4)
    close(network(x)[1, 2], network(x[1, 2]))


# choices


@pytest.mark.parametrize("score", catalog.names("score"))
def test_any_score_can_be_the_attention(score):
    model = build(**mechanism(score), longest=9).train()
    model(batch()).logsumexp(-1).sum().backward()
    unused = {name for name, parameter in model.named_parameters() if parameter.grad is None}
    assert all(score == "location" and "W_K" in name for name in unused)  # which scores no keys
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)


@looking_back
def test_forced_decoding_shows_the_alignments_of_the_whole_pass(options):
    model, pairs = build(**options), batch(lengths=(7,), targets=(5,))
    with record(model) as trace:
        model(pairs)
    [track] = forced(model, pairs)
    for path, weights in track.attention.items():
        [result] = trace[path]
        assert weights.shape == result.weights[0].shape == (4, 5, 5 if "self" in path else 7)
        close(weights, result.weights[0])


@looking_back
def test_a_query_sees_where_those_before_it_attended(options):
    """In every attention: without what is handed on, all rows but the first are others."""
    model, pairs = build(**options), batch(lengths=(7,), targets=(5,))
    for name, part in model.named_modules():
        if isinstance(part, InOrder):
            query, keys = torch.randn(1, 4, 5, 4), torch.randn(1, 4, 7, 4)
            source = part.prepare(keys)
            whole = part(query, source).weights
            each = Attention(part.score)(query, source, history=History.start(source)).weights
            close(whole[..., :1, :], each[..., :1, :])
            assert not torch.isclose(whole[..., 1:, :], each[..., 1:, :], atol=1e-5).all(), name
    with record(model) as trace:
        model(pairs)
    assert len(trace) == 6


@pytest.mark.parametrize(
    "options", [mechanism(), *LOOKING_BACK], ids=("scaled-dot", "coverage", "location-aware")
)
def test_what_is_compiled_holds_no_loop(options):
    model = build(**options)
    found = {type(part) for part, _ in model.compilable()}
    assert found == (
        {EncoderLayer, DecoderLayer} if options["attention"].score == "scaled-dot" else {FeedForward}
    )


def test_sizes_of_filters_are_checked():
    with pytest.raises(ConfigError, match=r"^attention: `filters` has 0; expected 1 or more\.$"):
        mechanism("location-aware", filters=0)
    with pytest.raises(ConfigError, match=r"^LocationAwareScore: `width` has 4; expected an odd number\.$"):
        build(**mechanism("location-aware", width=4))
    aware = build(**OPTIONS["location-aware"]).encoder.layers[0].attention.attention.score
    assert aware.F.weight.shape == (3, 1, 5)


def test_scores_that_look_back_refuse_a_kernel_by_name():
    with pytest.raises(KernelRefused, match=r"kernel 'sdpa' cannot run queries in order: each reads the w"):
        build(**mechanism("coverage", kernel="sdpa"))


def test_impossible_sizes_are_refused():
    with pytest.raises(
        ConfigError, match=r"`attention.heads` has 3; expected a divisor of d_model=16\. Or give d_k\."
    ):
        build(**mechanism(heads=3))
    with pytest.raises(
        ConfigError, match=r"^transformer: `attention.window` has 'local-monotonic'; expected"
    ):
        build(**mechanism(window="local-monotonic"))
    with pytest.raises(
        ConfigError, match=r"`tied` has 'all' with 17 source and 19 target words; expected one"
    ):
        build(tied="all")
    with pytest.raises(ConfigError, match=r"`aligning_layer` has 2; expected the number of one of 2 decoder"):
        build(aligning_layer=2)


def test_the_aligner_is_the_attention_over_the_source():
    model = build(aligning_layer=-2)
    assert model.aligner == "decoder.layers.0.source_attention.attention"
    [found] = greedy(model, batch(lengths=(7,), targets=(5,)), maximum=4, attention=True)
    assert found.attention[model.aligner].shape[::2] == (4, 7)


def test_the_fused_kernel_runs_in_training():
    model = build().train()
    with record(model) as trace:
        model(batch())
    assert {result.kernel for results in trace.values() for result in results} == {"sdpa"}
