"""Compares generated pictures with real ones, in the features of a classifier of the same data.

    d² = |μ - μ'|² + tr(Σ + Σ' - 2 (Σ Σ')^½)      Fréchet distance of two Gaussians, fitted to the features
    exp(E_x KL(p(y | x) ‖ p(y)))                  classifier score: from 1 to the number of classes

for as many generated pictures as the split has, cycling through the classes. Both use the features of our
classifier (picture_classifier.py), trained on the task's own training pictures: they compare regard models on
one task, and cannot be compared with figures based on another network. For reference, the evaluation
includes the values of real pictures (the distance between validation and the measured split), those of
noise (random pixels), and the classifier's accuracy. A classifier that has never seen noise may rate it no
worse than a blurred picture: a model's distance means little unless it is well below that of noise.

Heusel et al. GANs trained by a two time-scale update rule. 2017. https://arxiv.org/abs/1706.08500
Salimans et al. Improved techniques for training GANs. 2016. https://arxiv.org/abs/1606.03498
"""

from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor

from regard.data.pictures import to_pixels
from regard.decode.base import Decoding, evaluating
from regard.evaluate.base import Advance, Evaluation, MeasureTable, evaluator
from regard.evaluate.picture_classifier import PictureClassifier, read, trained_classifier
from regard.models.base import Model
from regard.models.sagan import SAGAN
from regard.tasks.base import Split
from regard.tasks.pictures import PictureTask

BATCH = 250
SEED = 1  # of the noise, the same for all models
METRIC = "Fréchet distance in the features of our classifier"


@dataclass(frozen=True)
class PictureEvaluation(Evaluation):
    """Measurements of generated pictures, and the same of real ones."""

    count: int  # of generated pictures, and of real ones
    distance: float  # between the generated pictures and the split
    floor: float  # between other real pictures (validation, or test if that is the split) and the split
    noise: float  # between random pixels and the split
    score: float
    real_score: float
    named: float  # share of generated pictures that the classifier assigns to the requested class
    accuracy: float  # of the classifier, on the split
    checks: dict[str, float]  # what the task can check without the classifier
    real_checks: dict[str, float]
    gammas: dict[str, float] = field(default_factory=dict)

    def headline(self) -> tuple[str, float]:
        return METRIC, self.distance

    def measures(self) -> list[tuple[str, str]]:
        return [
            (METRIC, f"{self.distance:.3f}"),
            ("distance of real pictures", f"{self.floor:.3f}"),
            ("distance of noise", f"{self.noise:.3f}"),
            ("classifier score", f"{self.score:.3f}"),
            ("score of real pictures", f"{self.real_score:.3f}"),
            ("of the class asked for", f"{100 * self.named:.1f} %"),
            ("accuracy of our classifier", f"{100 * self.accuracy:.1f} %"),
            *((name, f"{100 * share:.1f} %") for name, share in self.checks.items()),
            ("pictures", str(self.count)),
        ]

    def tables(self) -> list[MeasureTable]:
        if not self.gammas:
            return []
        return [MeasureTable(("attention layer", "γ"), [(p, f"{g:+.4f}") for p, g in self.gammas.items()])]

    def summary(self) -> dict[str, Any]:
        return {
            "split": self.split,
            "pictures": self.count,
            "distance": round(self.distance, 4),
            "distance_of_real_pictures": round(self.floor, 4),
            "distance_of_noise": round(self.noise, 4),
            "score": round(self.score, 4),
            "score_of_real_pictures": round(self.real_score, 4),
            "of_the_class_asked_for": round(self.named, 4),
            "classifier_accuracy": round(self.accuracy, 4),
            "checks": {name: round(share, 4) for name, share in self.checks.items()},
            "checks_of_real_pictures": {name: round(share, 4) for name, share in self.real_checks.items()},
            # absolute values: W_v may flip the sign too, and a mean over seeds would cancel it
            "gammas": {path: round(abs(gamma), 5) for path, gamma in self.gammas.items()},
            "seconds": round(self.seconds, 1),
        }

    def note(self) -> str:
        return (
            "Distance and score use the features of a small classifier trained on the same data. Compare "
            "them between models of this task only, not with figures from another network."
        )


@evaluator
def evaluate_pictures(
    model: Model, task: PictureTask, split: Split, decoding: Decoding, progress: Advance
) -> PictureEvaluation:
    """Generate as many pictures as the split has, and compare."""
    device = next(model.parameters()).device
    classifier = trained_classifier(task, device)
    real = task.batch(split, range(task.count(split)))
    features, chances = read_all(classifier, real.pictures, device)
    other: Split = "valid" if split != "valid" else "test"
    others = read_all(classifier, task.batch(other, range(task.count(other))).pictures, device)[0]
    labels, count = real.labels, real.size
    drawn, asked = draw(model, task, count, progress=progress)
    made, guessed = read_all(classifier, drawn, device)
    speckled, _ = read_all(classifier, noise(count, task.side), device)
    return PictureEvaluation(
        split=split,
        count=count,
        distance=frechet_distance(made, features),
        floor=frechet_distance(others, features),
        noise=frechet_distance(speckled, features),
        score=classifier_score(guessed),
        real_score=classifier_score(chances),
        named=float((guessed.argmax(-1) == asked).double().mean()),
        accuracy=float((chances.argmax(-1) == labels).double().mean()),
        checks=task.checks(drawn),
        real_checks=task.checks(real.pictures[:2000]),
        gammas=cast(SAGAN, model).gammas(),
    )


def draw(
    model: Model, task: PictureTask, count: int, *, seed: int = SEED, progress: Advance | None = None
) -> tuple[Tensor, Tensor]:
    """(count, H, W, 3) bytes generated for the classes in turn, and these (count,); both on the CPU."""
    sampler, device = cast(SAGAN, model), next(model.parameters()).device
    noise = torch.randn(count, sampler.config.noise, generator=torch.Generator().manual_seed(seed))
    labels = torch.arange(count) % len(task.classes)
    drawn = []
    with evaluating(model):
        for i in range(0, count, BATCH):
            part = sampler.sample(noise[i : i + BATCH].to(device), labels[i : i + BATCH].to(device))
            drawn.append(to_pixels(part).cpu())
            if progress is not None:
                progress(len(part))
    return torch.cat(drawn), labels


def noise(count: int, side: int) -> Tensor:
    """(count, side, side, 3) random bytes."""
    chance = torch.Generator().manual_seed(SEED)
    return torch.randint(0, 256, (count, side, side, 3), generator=chance, dtype=torch.uint8)


def read_all(classifier: PictureClassifier, pictures: Tensor, device: torch.device) -> tuple[Tensor, Tensor]:
    """(N, H, W, 3) bytes -> (N, D) features, (N, classes) probabilities, batch by batch."""
    found = [read(classifier, pictures[i : i + BATCH].to(device)) for i in range(0, len(pictures), BATCH)]
    features, chances = (torch.cat(parts) for parts in zip(*found, strict=True))
    return features, chances


def frechet_distance(a: Tensor, b: Tensor) -> float:
    """(N, D), (M, D) features -> the squared Fréchet distance of the Gaussians fitted to them.

    tr (Σ Σ')^½ is the sum of the square roots of the eigenvalues of Σ^½ Σ' Σ^½, which is symmetric.
    """
    a, b = a.double(), b.double()
    A, B = (torch.cov(x.T).reshape(x.shape[1], x.shape[1]) for x in (a, b))
    values, vectors = torch.linalg.eigh(A)
    root = vectors * values.clamp(min=0).sqrt() @ vectors.T
    mixed = torch.linalg.eigvalsh(root @ B @ root).clamp(min=0).sqrt().sum()
    gap = (a.mean(0) - b.mean(0)).square().sum()
    return max(float(gap + A.trace() + B.trace() - 2 * mixed), 0.0)


def classifier_score(chances: Tensor) -> float:
    """(N, K) probabilities of the classes -> exp(E KL(p(y | x) ‖ p(y)))."""
    p = chances.double().clamp(min=1e-12)
    return float((p * (p.log() - p.mean(0).log())).sum(1).mean().exp())
