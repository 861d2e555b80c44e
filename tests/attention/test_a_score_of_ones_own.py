"""A score that is one file gets kernels, laws, a page, the command line and recipes; and that page runs."""

import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
import torch
from kernels.error_rule import assert_rule
from safetensors.torch import load_file
from torch import nn
from torch.testing import assert_close

from regard import Attention, LocalMonotonic, Mask, MultiHead, Softmax, Sparsemax, catalog
from regard.attention.forms import Additive, Product
from regard.attention.scores.base import ProductScore, Score
from regard.kernels.local import local_attention

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "your-own-score.md"


class DiagonalScore(ProductScore):
    def __init__(self, features):
        super().__init__()
        self.w = nn.Parameter(torch.rand(features) + 0.5)

    def form(self, query, keys):
        return Product(query * self.w, keys)


class GatedAdditive(Score):
    """vᵀ tanh(g ∘ q + k): additive, without a matrix."""

    FORM = Additive

    def __init__(self, features):
        super().__init__()
        self.g, self.v = nn.Parameter(torch.randn(features)), nn.Parameter(torch.randn(1, features))

    def form(self, query, keys):
        return Additive(query * self.g, keys, self.v)


class Shifted(GatedAdditive):
    """The same, with keys that the form changes at every call."""

    def form(self, query, keys):
        return Additive(query, keys * self.g, self.v)


FUSED = {
    "sdpa": (DiagonalScore, {}, 6),
    "sparsemax": (DiagonalScore, {"normalizer": Sparsemax}, 6),
    "local": (DiagonalScore, {"window": lambda: LocalMonotonic(half_width=2)}, 40),
    "additive-cpu": (GatedAdditive, {}, 6),
    "sparsemax of additive": (GatedAdditive, {"normalizer": Sparsemax}, 6),
    "local additive": (GatedAdditive, {"window": lambda: LocalMonotonic(half_width=2)}, 40),
}


def outcome(score, parts, inputs, mask, kernel, dtype=torch.float32):
    attention = Attention(score.to(dtype), kernel=kernel, **{name: part() for name, part in parts.items()})
    query, keys = (x.detach().to(dtype).requires_grad_() for x in inputs)
    result = attention(query, attention.prepare(keys, mask=mask))
    leaves = [query, keys, *score.parameters()]
    gradients = torch.autograd.grad(result.context.square().sum(), leaves)
    return result.kernel, [result.context, *gradients]


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize("mask", [Mask(), Mask(causal=True)], ids=["all", "causal"])
def test_every_kernel_that_fits_its_form_computes_it(name, mask, monkeypatch):
    monkeypatch.setattr(local_attention, "LEAST", 0)
    kind, parts, S = FUSED[name]
    score, kernel = kind(12), name.split(" ")[0]
    inputs = torch.randn(2, S, 12), torch.randn(2, S, 12)
    ran, _ = outcome(score, parts, inputs, mask, "auto")
    assert ran == kernel
    assert_rule(
        (
            lambda: outcome(score, parts, inputs, mask, kernel)[1],
            lambda: outcome(score, parts, inputs, mask, "reference")[1],
            lambda: outcome(score, parts, inputs, mask, "reference", torch.float64)[1],
        )
    )


@pytest.mark.parametrize("kind", [GatedAdditive, Shifted])
def test_a_step_is_right_also_where_the_form_changes_the_keys(kind):
    score = kind(12)
    fused, plain = Attention(score), Attention(score, kernel="reference")
    query, keys = torch.randn(2, 1, 12), torch.randn(2, 9, 12)
    with torch.no_grad():
        ours, theirs = fused(query, fused.prepare(keys)), plain(query, plain.prepare(keys))
    assert ours.kernel == ("additive-step-cpu" if kind is GatedAdditive else "reference")
    assert_close(ours.context, theirs.context)


def test_a_look_shows_the_weights_of_the_call_after_the_parameters_have_changed():
    for kind in (DiagonalScore, GatedAdditive):
        attention, x = Attention(kind(12)), torch.randn(2, 6, 12)
        result = attention(x, attention.prepare(x))
        expected = attention.align(x, attention.prepare(x)).weights
        with torch.no_grad():
            for parameter in attention.parameters():
                parameter.mul_(-3.0)
        assert_close(result.weights, expected)


def test_it_can_have_heads_and_be_compiled():
    heads = MultiHead(24, 2, attention=Attention(DiagonalScore(12), normalizer=Softmax(temperature=2.0)))
    x = torch.randn(2, 5, 24)
    plain = heads(x, heads.prepare(x)).context
    compiled = torch.compile(lambda x: heads(x, heads.prepare(x)).context, backend="eager", fullgraph=True)
    assert_close(compiled(x), plain)


def blocks(language):
    """The blocks of the page that are written in this language."""
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def _own_rows(monkeypatch):
    """What a test enters into the catalogue is forgotten after it."""
    monkeypatch.setattr(catalog, "ROWS", dict(catalog.ROWS))


@pytest.mark.usefixtures("_own_rows")
def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # it saves pictures
    assert len(blocks("python")) == 9
    page = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", page)  # where the catalogue looks for what the page declares
    for block in blocks("python"):
        exec(compile(block, str(PAGE), "exec"), vars(page))
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "sdpa"
    assert said[1] == "torch.Size([2, 5, 9])"
    assert said[2] == "sparsemax"
    assert said[-2] == "torch.Size([2, 7, 64])"
    assert said[-1] == "reference"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """The page's file as an installed package: its folder, to be put on the path."""
    folder = tmp_path_factory.mktemp("site-packages")
    (folder / "my_scores").mkdir()
    (folder / "my_scores" / "__init__.py").touch()
    (folder / "my_scores" / "diagonal.py").write_text(
        next(block for block in blocks("python") if "@card" in block)
    )
    facts = folder / "my_scores-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: my-scores\nVersion: 1.0\n")
    points = tomllib.loads(blocks("toml")[0])["project"]["entry-points"]["regard"]
    lines = [f"{name} = {module}" for name, module in points.items()]
    (facts / "entry_points.txt").write_text("\n".join(["[regard]", *lines, ""]))
    return folder


def run(package, *words):
    """A Python with the package on its path; what it printed."""
    path = os.pathsep.join([str(package), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_package_is_listed(package):
    rows = json.loads(run(package, "-m", "regard", "list", "score", "--json"))
    assert [row["path"] for row in rows if row["key"] == "diagonal"] == ["my_scores.diagonal:DiagonalScore"]
    assert [row["key"] for row in rows[:-1]] == list(catalog.names("score"))


def test_its_score_obeys_the_laws(package):
    said = run(
        package,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/laws",
        "-k",
        "diagonal and not compiled",
    )
    passed = re.search(r"(\d+) passed", said)
    assert passed is not None
    assert int(passed[1]) > 100


@pytest.mark.usefixtures("_own_rows")
def test_its_page_says_what_is_known_of_it(package, monkeypatch):
    monkeypatch.syspath_prepend(package)
    monkeypatch.syspath_prepend(ROOT / "docs" / "generator")
    importlib.import_module("my_scores.diagonal")
    text = importlib.import_module("catalogue").page(catalog.find("diagonal", "score"))
    del sys.modules["my_scores.diagonal"]
    assert text.startswith("# Diagonal product\n\nAn inner product in which")
    assert "| Your name | 2026 |" in text
    assert "e[t, s] = Σ_d w_d q[t, d] k[s, d]" in text
    assert "Not measured yet." in text
    assert "DiagonalScore(features)" in text


def test_a_recipe_trains_it(package, tmp_path):
    recipe = tmp_path / "diagonal.toml"
    recipe.write_text(blocks("toml")[1])
    few = ("train.steps=1", "train.batch=32", "task.train=64", "task.valid=4", "train.threads=1")
    settings = [f"--set={each}" for each in few]
    run(package, "-m", "regard", "train", recipe, "--run", tmp_path / "run", *settings)
    trained = load_file(next((tmp_path / "run").rglob("model.safetensors")))
    assert not torch.equal(trained["attention.score.w"], torch.ones(64))
