"""Pictures compared through a classifier: the distance and the score by hand, the whole on a small model."""

import math

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from seeds import offset_seed

from regard.data.pictures import to_network, to_pixels
from regard.evaluate.base import evaluate
from regard.evaluate.picture_classifier import PictureClassifier, shifted, spoilt, trained_classifier
from regard.evaluate.pictures import METRIC, classifier_score, draw, frechet_distance, noise, read_all
from regard.models.sagan import SAGAN, SAGANConfig
from regard.tasks.pictures import PairedShapesSettings, PairedShapesTask, Referee


def test_the_frechet_distance_of_shifted_and_stretched_gaussians_by_hand():
    """|μ - μ'|² + (σ - σ')² a dimension where the dimensions are independent."""
    a = torch.tensor([[-1.0, 0], [1, 0], [0, -1], [0, 1]]).double()  # variance 2/3 each
    assert frechet_distance(a, a) == pytest.approx(0, abs=1e-12)
    assert frechet_distance(a, a + torch.tensor([3.0, 4.0])) == pytest.approx(25)
    stretched = a * torch.tensor([3.0, 1.0])
    assert frechet_distance(a, stretched) == pytest.approx((2 * math.sqrt(2 / 3)) ** 2)


def test_the_frechet_distance_agrees_with_the_root_of_the_product():
    generator = torch.Generator().manual_seed(offset_seed(0))
    a, b = (torch.randn(50, 5, generator=generator) @ torch.randn(5, 5, generator=generator) for _ in "ab")
    A, B = np.cov(a.T.double().numpy()), np.cov(b.T.double().numpy())
    expected = np.trace(A + B - 2 * sqrtm(A @ B).real) + float((a.mean(0) - b.mean(0)).square().sum())
    assert frechet_distance(a, b) == pytest.approx(expected, rel=1e-4)


def test_the_score_is_1_for_guessing_and_the_number_of_classes_for_certainty_of_all():
    assert classifier_score(torch.full((8, 4), 0.25)) == pytest.approx(1)
    assert classifier_score(torch.eye(4).repeat(3, 1)) == pytest.approx(4)
    assert classifier_score(torch.eye(4)[:1].repeat(9, 1)) == pytest.approx(1)  # one class alone


def test_shifted_pictures_are_moved_whole_and_repeat_their_edge():
    pictures = torch.arange(2 * 1 * 5 * 5.0).view(2, 1, 5, 5)
    assert torch.equal(shifted(pictures, 0), pictures)
    torch.manual_seed(offset_seed(0))
    for moved, picture in zip(shifted(pictures, 2), pictures, strict=True):
        found = False
        for down in range(-2, 3):
            for right in range(-2, 3):
                rows = (torch.arange(5) + down).clamp(0, 4)
                columns = (torch.arange(5) + right).clamp(0, 4)
                found |= torch.equal(moved[0], picture[0][rows][:, columns])
        assert found


def test_spoilt_pictures_are_speckled_and_some_are_blurred():
    torch.manual_seed(offset_seed(0))
    board = torch.ones(400, 3, 8, 8)
    board[:, :, ::2, ::2] = -1.0
    found = spoilt(board)
    assert found.shape == board.shape
    assert found.abs().max() <= 1
    assert torch.equal(board[0], board[1])  # what came is left alone
    # a corner is -1, its blur is near 0.5; specks alone do not move the mean of a clean one so far
    middles = found[:, :, ::2, ::2].mean((1, 2, 3))
    assert 0.1 < float((middles > -0.5).double().mean()) < 0.4


@pytest.mark.slow
def test_noise_lies_farther_from_drawn_pictures_than_what_can_still_be_seen(tmp_path, monkeypatch):
    """Else the distance ranks noise before shapes that are a little out of focus."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    task, device = PairedShapesTask.create(PairedShapesSettings()), torch.device("cpu")
    classifier = trained_classifier(task, device)
    features = read_all(classifier, task.batch("valid", range(1000)).pictures, device)[0]

    def far(pictures):
        return frechet_distance(read_all(classifier, pictures, device)[0], features)

    real = task.batch("test", range(1000)).pictures
    x = to_network(real)
    speckled = x + 0.2 * torch.randn(x.shape, generator=torch.Generator().manual_seed(offset_seed(0)))
    blurred = torch.nn.functional.avg_pool2d(x, 3, stride=1, padding=1, count_include_pad=False)
    spoilt_ones = (to_pixels(each.clamp(-1, 1)) for each in (speckled, blurred))
    distances = [far(each) for each in (real, *spoilt_ones, noise(1000, 16))]
    assert distances == sorted(distances)
    assert distances[3] > 2 * distances[2]


@pytest.fixture
def task(tmp_path, monkeypatch):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(PairedShapesTask, "referee", Referee(width=4, steps=30, batch=16, lr=0.05))
    return PairedShapesTask.create(PairedShapesSettings(side=8, train=64, valid=40, test=60))


def build(**changes):
    torch.manual_seed(offset_seed(0))
    sizes = {"classes": 5, "side": 8, "noise": 4, "generator": 8, "discriminator": 8, "attention": (8,)}
    return SAGAN(SAGANConfig(**(sizes | changes)))


def test_a_model_is_measured_on_as_many_pictures_as_the_split_has(task):
    done = []
    found = evaluate(build(), task, "test", progress=done.append)
    assert sum(done) == found.count == 60
    name, value = found.headline()
    assert name == METRIC == "Fréchet distance in the features of our classifier"
    assert value > found.floor >= 0
    assert found.noise > found.floor
    assert found.summary()["distance_of_noise"] == round(found.noise, 4)
    assert 1 <= found.score <= 5
    assert found.real_checks["halves of one colour"] > 0.9
    assert 0 < found.accuracy <= 1
    shown = dict(found.measures())
    assert len(shown) == len(found.measures())
    assert {"accuracy of our classifier", "distance of real pictures", "distance of noise"} <= set(shown)
    assert not any("FID" in text or "Inception" in text for text in [*shown, found.note()])
    assert list(found.gammas) == ["generator.attentions.0", "average.attentions.0"]
    assert found.tables()[0].columns == ("attention layer", "γ")
    again = evaluate(build(), task, "test")
    assert again.summary() | {"seconds": 0} == found.summary() | {"seconds": 0}
    assert evaluate(build(attention=()), task, "valid").tables() == []


def test_the_classifier_is_trained_once_and_leaves_the_random_state_alone(task, tmp_path):
    torch.manual_seed(offset_seed(5))
    before = torch.get_rng_state()
    first = trained_classifier(task, torch.device("cpu"))
    [file] = (tmp_path / "cache" / "classifiers").iterdir()
    written = file.stat().st_mtime_ns
    second = trained_classifier(task, torch.device("cpu"))
    assert file.stat().st_mtime_ns == written
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    torch.set_rng_state(before)
    trained_classifier(PairedShapesTask.create(PairedShapesSettings(side=8, train=64)), torch.device("cpu"))
    assert len(list((tmp_path / "cache" / "classifiers").iterdir())) == 2  # other pictures, another one
    assert isinstance(first, PictureClassifier)
    assert not any(p.requires_grad for p in first.parameters())


def test_drawn_pictures_come_in_turn_by_class_and_from_their_seed(task):
    model = build()
    pictures, labels = draw(model, task, 12)
    assert pictures.shape == (12, 8, 8, 3)
    assert pictures.dtype == torch.uint8
    assert labels.tolist() == [0, 1, 2, 3, 4] * 2 + [0, 1]
    assert torch.equal(pictures, draw(model, task, 12)[0])
    assert not torch.equal(pictures, draw(model, task, 12, seed=2)[0])
    assert model.training
