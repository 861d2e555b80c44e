"""The classifier whose features compare pictures: a small residual network, trained on the same data.

    h = stage_3(stage_2(stage_1(conv(x))))         width, 2 width, 4 width channels; the side halved twice
    features = mean over places of h               (B, 4 width)
    p(y | x) = softmax(W features + b)

It is trained once per task and size with a fixed seed, and cached under a digest of both. Distances in its
features can be compared with each other and with nothing else.

He, Zhang, Ren, Sun. Deep residual learning for image recognition. 2015. https://arxiv.org/abs/1512.03385
"""

import hashlib
import logging
import math
from itertools import chain, count

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from regard import storage
from regard.data.pictures import flipped, to_network
from regard.storage import cache_folder
from regard.tasks.pictures import PictureTask

FORMAT = 1  # increase it when the same digest would give another classifier
SEED = 20_180_521
BLURRED, SPECKLED = 0.3, 0.9  # share of blurred pictures; largest deviation of the noise
SHIFT = 4  # augmentation: largest shift of a picture of 32 pixels


class Stage(nn.Module):
    """Two convolutions with a skip connection; the first may halve the side."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        # a mean, not a stride: oneDNN aborts in the backward of strided 1 × 1 convolutions of few channels
        self.coarser = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        self.skip = nn.Conv2d(inputs, outputs, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(h)) + self.skip(self.coarser(x)))


class PictureClassifier(nn.Module):
    """(B, 3, H, W) from -1 to 1 -> (B, classes) scores."""

    def __init__(self, *, width: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            Stage(width, width, 1),
            Stage(width, 2 * width, 2),
            Stage(2 * width, 4 * width, 2),
        )
        self.W = nn.Linear(4 * width, classes)

    def features(self, pictures: Tensor) -> Tensor:
        """(B, 4 width) features."""
        return self.body(pictures.contiguous(memory_format=torch.channels_last)).float().mean((2, 3))

    def forward(self, pictures: Tensor) -> Tensor:
        return self.W(self.features(pictures))


def trained_classifier(task: PictureTask, device: torch.device) -> PictureClassifier:
    """The classifier for the task's pictures, from the cache or trained now and cached."""
    classifier = PictureClassifier(width=task.referee.width, classes=len(task.classes)).to(device)
    text = f"{FORMAT} {SEED} {task.digest()} {task.referee!r} {classifier!r}"
    path = cache_folder() / "classifiers" / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.safetensors"
    if path.exists():
        classifier.load_state_dict(load_file(path, device=str(device)))
    else:
        logging.getLogger("regard").info(
            "training the classifier that compares pictures; saving it as %s", path
        )
        devices = [device] if device.type == "cuda" else []
        with torch.random.fork_rng(devices), torch.enable_grad():  # may run inside an evaluation
            torch.manual_seed(SEED)
            classifier = PictureClassifier(width=task.referee.width, classes=len(task.classes)).to(device)
            _train(classifier, task, device)
        with storage.whole(path) as file:  # concurrent evaluations leave one file
            file.write(save({name: t.cpu().contiguous() for name, t in classifier.state_dict().items()}))
    return classifier.eval().requires_grad_(False)


def _train(classifier: PictureClassifier, task: PictureTask, device: torch.device) -> None:
    """SGD with Nesterov momentum; the learning rate rises for a fifth of the steps, then decays to 0."""
    how = task.referee
    optimizer = torch.optim.SGD(
        classifier.parameters(), lr=how.lr, momentum=0.9, weight_decay=5e-4, nesterov=True
    )
    endless = chain.from_iterable(task.plan(epoch, seed=SEED, batch=how.batch) for epoch in count())
    for step, rows in zip(range(how.steps), endless, strict=False):
        batch = task.batch("train", rows).to(device)
        pictures = to_network(batch.pictures)
        if task.flips:
            pictures = shifted(flipped(pictures), SHIFT * task.side // 32)
        if how.spoils:
            pictures = spoilt(pictures)
        progress = step / how.steps
        rate = progress / 0.2 if progress < 0.2 else 0.5 * (1 + math.cos(math.pi * (progress - 0.2) / 0.8))
        for group in optimizer.param_groups:
            group["lr"] = how.lr * max(rate, 0.01)
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            scores = classifier(pictures)
        optimizer.zero_grad()
        F.cross_entropy(scores.float(), batch.labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def spoilt(pictures: Tensor) -> Tensor:
    """(B, C, H, W) from -1 to 1: some slightly blurred, all with noise, few with much noise."""
    blur, share, speckle, strength = torch.rand(4, len(pictures), 1, 1, 1, device=pictures.device)
    smooth = F.avg_pool2d(pictures, 3, stride=1, padding=1, count_include_pad=False)
    mixed = torch.lerp(pictures, smooth, share * (blur < BLURRED))
    return (mixed + SPECKLED * speckle * strength * torch.randn_like(pictures)).clamp(-1, 1)


def shifted(pictures: Tensor, most: int) -> Tensor:
    """(B, C, H, W), each shifted by up to `most` pixels in both directions, with repeated edges."""
    if most == 0:
        return pictures
    (B, _, H, W), device = pictures.shape, pictures.device
    moves = torch.randint(-most, most + 1, (2, B, 1), device=device)
    down = (torch.arange(H, device=device) + moves[0]).clamp(0, H - 1)  # (B, H)
    right = (torch.arange(W, device=device) + moves[1]).clamp(0, W - 1)
    which = torch.arange(B, device=device)[:, None, None]
    last = pictures.permute(0, 2, 3, 1)
    return last[which, down[:, :, None], right[:, None]].permute(0, 3, 1, 2)


@torch.no_grad()
def read(classifier: PictureClassifier, pictures: Tensor) -> tuple[Tensor, Tensor]:
    """(B, H, W, 3) bytes -> (B, D) features, (B, classes) probabilities, as float64 on the CPU."""
    features = classifier.features(to_network(pictures))
    return features.double().cpu(), classifier.W(features).softmax(-1).double().cpu()
