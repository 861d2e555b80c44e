"""Show, attend and tell against scalar loops; its losses; REINFORCE against the exact expectation."""

from itertools import product

import numpy as np
import pytest
import torch
from oracles import show_attend_tell as oracle
from seeds import offset_seed

from regard.attention.config import AttentionConfig
from regard.attention.record import record
from regard.data.images import image_batch
from regard.data.tokens import BOS, EOS
from regard.decode.base import Decoding
from regard.decode.beam import beam_search
from regard.decode.captions import describe
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from regard.errors import ConfigError
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig, advantage, uneven

V, D, L = 9, 3, 4
CAPTIONS = [[4, 5, 6], [7], [8, 4]]


def make(normalizer="softmax", alignment=6, **settings):
    torch.manual_seed(offset_seed(0))
    attention = AttentionConfig("additive", normalizer=normalizer, hidden=alignment, kernel="reference")
    sizes = {"embedding": 4, "hidden": 5, "attention": attention, "dropout": 0.0}
    return ShowAttendTell(
        ShowAttendTellConfig(target_vocab=V, **{"features": D, "coverage": 0.0, **sizes, **settings})
    )


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(offset_seed(1))
    return image_batch(torch.randn(3, L, D, generator=generator, dtype=dtype), CAPTIONS)


def parameters(model):
    p = {name: each.tolist() for name, each in model.named_parameters()}
    names = {
        "att_W": "attention.score.W.weight",
        "att_U": "attention.score.U.weight",
        "att_b": "attention.score.U.bias",
        "start": "start_layer.weight",
        "start_b": "start_layer.bias",
        "b": "W.bias",
    }
    names |= {
        key: f"{key}.weight" for key in ("start_h", "start_c", "gate", "W", "U", "Z", "L_h", "L_z", "L_o")
    }
    names |= {f"{key}_b": f"{key}.bias" for key in ("start_h", "start_c", "gate", "L_h", "L_o")}
    return {key: p[name] for key, name in names.items()} | {"att_v": p["attention.score.v.weight"][0]}


@pytest.mark.parametrize(("kind", "normalizer"), [("soft", "softmax"), ("hard", "hard"), ("mean", "mean")])
def test_every_step_is_that_of_the_paper(kind, normalizer):
    model, pictures = make(normalizer=normalizer).double().eval(), batch()
    with record(model) as trace:
        logs = model(pictures).scores.log_softmax(-1)
    weights = torch.cat([result.weights for result in trace["attention"]], 1)
    table = model.E.weight.tolist()
    for row, caption in enumerate(CAPTIONS):
        words = [table[token] for token in [BOS, *caption]]
        assert words[0] == [0.0] * 4, "before the first word stands a zero"
        expected, alphas = oracle.caption(pictures.source[row].tolist(), words, parameters(model), kind)
        T = len(caption) + 1
        torch.testing.assert_close(
            logs[row, :T], torch.tensor(expected, dtype=torch.float64), atol=1e-10, rtol=0
        )
        torch.testing.assert_close(
            weights[row, :T], torch.tensor(alphas, dtype=torch.float64), atol=1e-10, rtol=0
        )


@pytest.mark.parametrize("normalizer", ["softmax", "hard", "mean", "gumbel-softmax"])
def test_one_step_at_a_time_is_all_at_once_and_rows_do_not_meet(normalizer):
    model, pictures = make(normalizer=normalizer).eval(), batch(torch.float32)
    each = model(pictures).scores.log_softmax(-1).gather(-1, pictures.target[..., None])[..., 0]
    for row, track in enumerate(forced(model, pictures, attention=False)):
        torch.testing.assert_close(track.log_probabilities, each[row, : len(track.tokens)].detach())
        alone = image_batch(pictures.source[row : row + 1], CAPTIONS[row : row + 1])
        torch.testing.assert_close(
            forced(model, alone, attention=False)[0].log_probabilities, track.log_probabilities
        )


def test_beam_search_is_at_least_as_good_as_greedy_and_width_one_is_greedy():
    model, pictures = make().eval(), batch(torch.float32)
    single = greedy(model, pictures, maximum=6)
    [same, wide] = [beam_search(model, pictures, width=width, maximum=6) for width in (1, 5)]
    for a, b, c in zip(single, same, wide, strict=True):
        assert a.tokens == b[0].tokens
        assert c[0].log_probability >= b[0].log_probability - 1e-5 or c[0].finished > b[0].finished
    found = describe(model, pictures, decoding=Decoding(beam=3, max_length=6))
    assert [caption.weights.shape[1] for caption in found] == [L] * 3
    assert all(len(caption.weights) == len(caption.tokens) + caption.finished for caption in found)


def test_the_penalty_is_that_of_equation_14_and_padding_counts_nothing():
    model, plain = make(coverage=0.5).double(), make().double()
    pictures = batch()
    expected = 0.0
    for row, caption in enumerate(CAPTIONS):
        words = [model.E.weight[token].tolist() for token in [BOS, *caption]]
        _, alphas = oracle.caption(pictures.source[row].tolist(), words, parameters(model), "soft")
        expected += 0.5 * oracle.penalty(alphas, 1.0)
    assert model(pictures).extra.item() == pytest.approx(expected, rel=1e-6)
    assert plain(pictures).extra.item() == 0.0
    assert model.eval()(pictures).extra.item() == 0.0, "validation measures the captions alone"
    more = pictures.rounded()
    assert more.target.shape[1] % 4 == 0
    wide = image_batch(pictures.source, CAPTIONS)
    wide = type(wide)(
        wide.source, wide.source_lengths, torch.nn.functional.pad(wide.target, (0, 3)), wide.target_lengths
    )
    assert model.train()(wide).extra.item() == pytest.approx(expected, rel=1e-6)


def test_an_even_share_asks_every_place_for_steps_over_places():
    alpha = torch.tensor([[[0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.0] * 4]])
    expected = oracle.penalty([[0.7, 0.1, 0.1, 0.1], [0.25] * 4], 0.5)
    assert uneven(alpha, share="even").item() == pytest.approx(expected)
    assert uneven(torch.full((1, 3, 4), 0.25), share="even").item() == 0.0


def test_the_share_that_is_asked_for_changes_the_penalty_by_a_constant_alone():
    found = {}
    for share in ("one", "even"):
        model = make(coverage=0.5, share=share).double()
        extra = model(batch()).extra
        extra.backward()
        found[share] = extra.item(), model.attention.score.v.weight.grad
    constant = sum(0.5 * L * (1 - (len(caption) + 1) / L) ** 2 for caption in CAPTIONS)
    assert found["one"][0] - found["even"][0] == pytest.approx(constant)
    torch.testing.assert_close(found["one"][1], found["even"][1])
    assert found["one"][1].abs().max() > 0


def test_a_location_answers_for_what_comes_after_it():
    told = torch.tensor([[-1.0, -2.0, -4.0, 0.0]])
    real = torch.tensor([[1.0, 1.0, 1.0, 0.0]])
    b = torch.tensor(-1.5)
    rest = advantage(told, real, b * real, b, credit="rest")
    assert rest.tolist() == [[-7 + 4.5, -6 + 3.0, -4 + 1.5, 0.0]]
    assert advantage(told, real, b * real, b, credit="caption").tolist() == [[-2.5, -2.5, -2.5, 0.0]]
    own = torch.tensor([[-3.0, -1.0, -4.0, 0.0]])
    assert advantage(told, real, own, b, credit="word").tolist() == [[2.0, -1.0, 0.0, 0.0]]
    assert advantage(told, real, own, b, credit="rest").tolist() == [[2.0 - 3.0, -1.0 - 2.5, 0.0, 0.0]]
    assert advantage(told, real, own, b, credit="caption").tolist() == [[2.0 - 3.0, -1.0 - 2.0, 0.0, 0.0]]


@pytest.fixture(scope="module")
def tiny():
    """A model with weights that matter, a picture of two places and a caption of two steps."""
    model = make(normalizer="hard", hidden=3, embedding=3, alignment=3).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.8, generator=torch.Generator().manual_seed(len(parameter)))
        model.E.weight[BOS] = 0
        model.baseline.fill_(-1.0)
    picture = (
        torch.randn(1, 2, D, generator=torch.Generator().manual_seed(offset_seed(3)), dtype=torch.float64) * 2
    )
    return model.state_dict(), picture


def sampled_gradients(tiny, credit, compared, rounds=10, N=10_000):
    """The mean over N samples, `rounds` times: of the attention's v, its U and the output's weights."""
    weights, picture = tiny
    model = make(
        normalizer="hard",
        sampled=1.0,
        credit=credit,
        compared=compared,
        hidden=3,
        embedding=3,
        alignment=3,
    ).double()
    model.load_state_dict(weights)
    single = image_batch(picture, [[4]])  # the word and eos
    many = type(single)(
        *(
            each.expand(N, *each.shape[1:])
            for each in (single.source, single.source_lengths, single.target, single.target_lengths)
        )
    )
    torch.manual_seed(offset_seed(5))
    means = []
    for _ in range(rounds):
        found = model(many)
        nll = torch.nn.functional.cross_entropy(
            found.scores.flatten(0, 1), many.target.flatten(), reduction="sum"
        )
        means.append([g / N for g in torch.autograd.grad(nll + found.extra, watched(model))])
        model.baseline.fill_(-1.0)
    return model, [torch.stack([mean[k] for mean in means]) for k in range(3)]


def watched(model):
    return [model.attention.score.v.weight, model.attention.score.U.weight, model.L_o.weight]


@pytest.mark.parametrize("compared", ["average", "expected"])
@pytest.mark.parametrize("credit", ["word", "rest", "caption"])
def test_the_gradient_of_sampling_is_that_of_the_exact_expectation(tiny, credit, compared):
    """Over all 2 × 2 choices, against the mean of many samples."""
    model, sampled = sampled_gradients(tiny, credit, compared)
    paths = list(every_path(model, tiny[1], [4, EOS]))
    if credit == "word":  # a place is paid for its own word: not the gradient of an expectation
        value = sum(
            (p.detach() * (logs_y.sum() + (logs_s * logs_y.detach()).sum()) for p, logs_s, logs_y in paths)
        )
    else:
        value = sum(p * logs_y.sum() for p, _, logs_y in paths)
    exact = torch.autograd.grad(-value, watched(model))
    for each, right in zip(sampled, exact, strict=True):
        error = each.std(0) / len(each) ** 0.5
        assert right.abs().max() > 1e-3
        assert ((each.mean(0) - right).abs() < 5 * error + 1e-6).all()
    # without its REINFORCE term the gradient of where to look would be zero, and so another
    assert exact[0].abs().max() > 5 * sampled[0].std(0).max() / len(sampled[0]) ** 0.5


def test_a_word_compared_with_its_expectation_is_less_noisy(tiny):
    noise = {
        (credit, compared): sampled_gradients(tiny, credit, compared, rounds=20, N=50)[1][0].std(0).norm()
        for credit in ("word", "caption")
        for compared in ("average", "expected")
    }
    assert noise["word", "expected"] < 0.7 * noise["word", "average"]
    assert noise["word", "expected"] < 0.7 * noise["caption", "average"]


def every_path(model, picture, target):
    """p(s), log p of each place and log p of each word, differentiable, of all sequences of places."""
    for places in product(range(picture.shape[1]), repeat=len(target)):
        h, c, source = model.start(image_batch(picture))
        logs_s, logs_y = [], []
        before = torch.tensor([BOS])
        for place, token in zip(places, target, strict=True):
            scores = model.attention.align(h[:, None], source).scores[0, 0]
            logs_s.append(scores.log_softmax(-1)[place])
            word = model.E(before)
            h, c, context = model._advance(model.W(word), h, c, picture[:, place])
            logs_y.append(model._tell(word, h, context).log_softmax(-1)[0, token])
            before = torch.tensor([token])
        yield sum(logs_s).exp(), torch.stack(logs_s), torch.stack(logs_y)


def test_only_reinforce_tells_a_sampled_place_where_to_be():
    gradients = {}
    for reward in (0.0, 1.0):
        model = make(normalizer="hard", sampled=1.0, reward=reward).double()
        found = model(batch())
        nll = torch.nn.functional.cross_entropy(found.scores.flatten(0, 1), batch().target.flatten())
        (nll + found.extra).backward()
        gradients[reward] = model.attention.score.v.weight.grad.abs().sum().item()
    assert gradients[0.0] == 0.0
    assert gradients[1.0] > 0.0


def test_in_the_soft_start_nothing_is_sampled():
    soft, hard = make().double(), make(normalizer="hard", sampled=1.0, soft_start=0.5).double()
    hard.load_state_dict(soft.state_dict())
    early = hard.at_step(5, 10)
    torch.testing.assert_close(soft(batch()).scores, hard(batch()).scores)
    late = hard.at_step(6, 10)
    assert early != late, "a captured step of one phase must not be replayed in the other"
    assert not torch.allclose(soft(batch()).scores, hard(batch()).scores)


def test_the_baseline_moves_towards_the_reward_in_training_alone():
    model, pictures = make(normalizer="hard").double(), batch()
    scores = model(pictures).scores.log_softmax(-1)
    told = sum(scores[r, t, token] for r, c in enumerate(CAPTIONS) for t, token in enumerate([*c, EOS]))
    assert model.baseline.item() == pytest.approx(0.1 * told.item() / 9)
    before = model.baseline.clone()
    model.eval()(pictures)
    assert torch.equal(model.baseline, before)
    assert "baseline" in model.state_dict()


def test_hard_attention_that_is_never_sampled_is_soft_attention():
    soft, hard = make().double(), make(normalizer="hard", sampled=0.0).double()
    hard.load_state_dict(soft.state_dict())
    torch.testing.assert_close(soft(batch()).scores, hard(batch()).scores)


def test_the_entropy_term_rewards_looking_everywhere():
    model = make(normalizer="hard", reward=0.0, entropy=1.0).double()
    with record(model) as trace:
        extra = model(batch()).extra
    entropy = 0.0
    for t, result in enumerate(trace["attention"]):
        alpha = result.scores.softmax(-1)
        each = -(alpha * alpha.log()).sum((-1, -2))
        entropy += sum(each[r].item() for r, caption in enumerate(CAPTIONS) if t <= len(caption))
    assert extra.item() == pytest.approx(-entropy)


@pytest.mark.parametrize("normalizer", ["softmax", "hard", "gumbel-softmax", "straight-through"])
def test_gradients_are_finite_and_reach_every_parameter(normalizer):
    model = make(normalizer=normalizer, coverage=1.0, features=0, annotation=D, channels=4)
    pixels = torch.from_numpy(
        np.random.default_rng(offset_seed(0)).integers(0, 256, (3, 16, 16, 3), dtype=np.uint8)
    )
    pictures = image_batch(pixels, CAPTIONS)
    torch.manual_seed(offset_seed(0))
    found = model(pictures)
    nll = torch.nn.functional.cross_entropy(found.scores.flatten(0, 1), pictures.target.flatten())
    (nll + found.extra).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"coverage": -1.0}, "show-attend-tell: `coverage` has -1.0; expected 0 or more."),
        ({"sampled": 1.5}, "show-attend-tell: `sampled` has 1.5; expected 0 to 1."),
        ({"soft_start": -0.1}, "show-attend-tell: `soft_start` has -0.1; expected 0 to 1."),
    ],
    ids=["coverage", "sampled", "soft-start"],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ConfigError) as error:
        make(**settings)
    assert str(error.value) == message
