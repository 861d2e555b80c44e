"""Old keys: a person is told the new one, a run of an earlier version is translated as it is read."""

import hashlib
import json
import tomllib
from pathlib import Path

import pytest
import torch

from regard import catalog, renamed
from regard.attention.config import AttentionConfig
from regard.compare.comparison import plan
from regard.errors import ConfigError
from regard.train import fields
from regard.train.config import load_recipe, load_run, recipe_names, translate
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import create, open_run, reopen
from regard.train.run_folder import RunFolder

# config.toml as version 0.1 wrote it, by the recipe it came from; [train] and [decode] are what they were
OLD = {
    "rnnsearch-reverse": """
[model]
name = "rnnsearch"
embedding = 32
hidden = 64
alignment = 64
readout = 64
query = "state"
readout_state = "previous"
dropout = 0.0
initialization = "standard"
score = "additive"
normalizer = "softmax"
window = "global"
half_width = 10
positions = 128
kernel = "auto"
heads = 1

[task]
name = "reverse"
symbols = 16
shortest = 4
longest = 12
backwards = true
train = 20000
valid = 256
test = 256
seed = 1
smoothing = 0.0
""",
    "luong-local-m-dot": """
[model]
name = "luong"
embedding = 512
hidden = 512
layers = 2
encoder = "reversed"
attention = true
feed = true
score = "dot"
normalizer = "softmax"
window = "local-monotonic"
half_width = 10
alignment = 1000
positions = 128
tied = "none"
dropout = 0.2
initialization = "uniform"
kernel = "auto"

[task]
name = "corpus"
pieces = "words"
size = 8000
joint = false
lowercase = false
longest = 50
smoothing = 0.0
consistency = 0.0
dropped = 0.0
cuts = 8
both_ways = 0
corpus = "tatoeba-en-fr"
data = ""
""",
    "luong-base": """
[model]
name = "luong"
embedding = 512
hidden = 512
layers = 2
encoder = "reversed"
attention = false
feed = false
score = "general"
normalizer = "softmax"
window = "global"
half_width = 10
alignment = 1000
positions = 128
tied = "none"
dropout = 0.2
initialization = "uniform"
kernel = "auto"

[task]
name = "corpus"
pieces = "words"
size = 8000
longest = 50
corpus = "tatoeba-en-fr"
""",
    "transformer-multi30k-en-de": """
[model]
name = "transformer"
shared_vocab = 0
size = "base"
layers = 3
d_model = 512
d_ff = 1024
heads = 8
dropout = 0.3
norm = "post"
norm_kind = "layer"
positions = "sinusoidal"
longest = 256
tied = "all"
score = "scaled-dot"
normalizer = "softmax"
filters = 10
width = 15
restricted = 0
kernel = "auto"
aligning_layer = -1

[task]
name = "corpus"
pieces = "bpe"
size = 8000
joint = true
lowercase = false
longest = 100
smoothing = 0.1
consistency = 3.0
dropped = 0.0
cuts = 8
both_ways = 11
corpus = "multi30k-en-de"
data = ""
""",
    "sat-hard-shapes": """
[model]
name = "show-attend-tell"
features = 0
channels = 24
annotation = 64
embedding = 64
hidden = 128
alignment = 64
dropout = 0.0
normalizer = "hard"
temperature = 1.0
coverage = 0.0
share = "one"
sampled = 1.0
reward = 1.0
entropy = 0.0
credit = "word"
compared = "expected"
soft_start = 0.6

[task]
name = "shapes"
train = 50000
""",
    "decomposable-sick": """
[model]
name = "decomposable"
embedding = 32
hidden = 64
fixed = false
dropout = 0.1
intra = false
far = 10
normalizer = "softmax"
kernel = "auto"

[task]
name = "entailment"
corpus = "sick"
""",
    "memn2n-stories": """
[model]
name = "memn2n"
embedding = 20
linear_start = 0.1
normalizer = "softmax"

[task]
name = "stories"
facts = 0
sentences = 8
train = 10000
""",
    "attention-hull-5": """
[model]
name = "point-attention"
hidden = 96
kernel = "auto"

[task]
name = "hull"
shortest = 5
longest = 5
tests = [5]
train = 50000
""",
}


@pytest.mark.parametrize("recipe", OLD)
def test_the_config_of_an_old_run_is_that_of_its_recipe_today(recipe: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(OLD[recipe])
    old, new = load_run(tmp_path / "config.toml"), load_recipe(recipe)
    assert old.model_settings == new.model_settings
    assert old.task_settings == new.task_settings


@pytest.mark.parametrize(
    ("model", "task", "value"),
    [
        ("lstmn", "sentences", {"kernel": "tapes"}),
        ("ntm", "copy", {"kernel": "machine"}),
        ("rnnsearch", "reverse", {"normalizer": "count"}),
    ],
)
def test_old_values_of_an_old_run_are_translated(model: str, task: str, value: dict[str, str]) -> None:
    tables = translate({"model": {"name": model, **value}, "task": {"name": task}})
    new = {"tapes": "lstmn", "machine": "ntm", "count": "divide-by-length"}
    [(key, old)] = value.items()
    assert tables["model"].get(key, tables["model"].get(f"attention.{key}")) == new[old]


@pytest.mark.parametrize("recipe", recipe_names())
def test_a_config_of_today_is_translated_into_itself(recipe: str) -> None:
    config = load_recipe(recipe)
    tables = translate(config.tables())
    assert tables["model"] == {"name": config.model, **fields.flatten(config.model_settings)}
    assert tables["task"] == {"name": config.task, **config.task_settings}


def models_with(key: str) -> str:
    """A packaged recipe whose model or task has this key."""
    for name in recipe_names():
        config = load_recipe(name)
        kinds = {"model": catalog.find(config.model, "model").load().Config}
        kinds["task"] = catalog.find(config.task, "task").load().Settings
        table, _, inner = renamed.KEYS[key].partition(".")
        known = fields.keys(kinds[table])
        if inner in known and key.partition(".")[2] not in known:
            return name
    raise AssertionError(f"no recipe has {key}")


@pytest.mark.parametrize("key", renamed.KEYS)
def test_an_old_key_is_answered_with_the_new_one(key: str, tmp_path: Path) -> None:
    recipe, said = models_with(key), f"`{key}` is now `{renamed.KEYS[key]}`."
    with pytest.raises(ConfigError) as error:
        load_recipe(recipe, [f"{key}=1"])
    assert str(error.value) == f"--set: {said}"
    config = load_recipe(recipe)
    table, _, inner = key.partition(".")
    named = {"model": config.model, "task": config.task}
    lines = [
        f'[{kind}]\nname = "{name}"\n' + f"{inner} = 1\n" * (kind == table) for kind, name in named.items()
    ]
    (tmp_path / "own.toml").write_text("".join(lines))
    with pytest.raises(ConfigError) as error:
        load_recipe(tmp_path / "own.toml")
    assert str(error.value) == f"own.toml: {said}"


def test_a_key_that_another_model_still_has_is_its_own() -> None:
    assert load_recipe("ntm-copy", ["model.width=10", "model.kernel=reference"]).model_settings["width"] == 10
    assert load_recipe("snail-strokes", ["model.filters=8"]).model_settings["filters"] == 8
    assert load_recipe("transformer-reverse", ["model.positions=none"]).model_settings["positions"] == "none"
    with pytest.raises(ConfigError, match=r"--set: unknown key 'model\.score'; did you mean"):
        load_recipe("seq2seq-reverse", ["model.score=dot"])


@pytest.mark.parametrize(
    ("recipe", "override", "message"),
    [
        (
            "rnnsearch-reverse",
            "model.attention.normalizer=count",
            "normalizer' is 'count', which is now 'divide-",
        ),
        ("lstmn-recall", "model.kernel=tapes", r"'model.kernel' is 'tapes', which is now 'lstmn'\."),
        ("ntm-copy", "model.kernel=machine", r"'model.kernel' is 'machine', which is now 'ntm'\."),
    ],
)
def test_an_old_value_is_answered_with_the_new_one(recipe: str, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(recipe, [override])


def test_comparisons_answer_old_names_too() -> None:
    with pytest.raises(ConfigError, match=r"`model\.score` is now `model\.attention\.score`\."):
        plan("rnnsearch-reverse", vary=["model.score=dot,general"])
    with pytest.raises(ConfigError, match=r"unknown normalizer 'count'; it is now 'divide-by-length'\."):
        plan("rnnsearch-reverse", normalizers=["softmax", "count"])


def test_every_new_name_exists() -> None:
    for key in renamed.KEYS:
        models_with(key)
    for entry in renamed.ENTRIES.values():
        kind, _, key = entry.partition(":")
        catalog.find(key, kind)  # type: ignore[arg-type]


SMALL = [
    "model.embedding=4",
    "model.hidden=6",
    "model.readout=4",
    "task.train=40",
    "task.valid=4",
    "train.steps=2",
    "train.batch=60",
]


def test_a_run_of_an_earlier_version_opens_goes_on_and_is_stored_anew(tmp_path: Path) -> None:
    config = load_recipe("rnnsearch-reverse", [*SMALL, "model.attention.score=general"])
    model, task = create(config)
    fit(model, task, config, run=tmp_path / "run", progress=Quiet())
    as_written = (tmp_path / "run" / "config.toml").read_text()
    make_old(tmp_path / "run")
    run = open_run(tmp_path / "run", device="cpu")
    assert run.config.model_settings["attention"] == AttentionConfig(
        "general", heads=1, hidden=64, positions=128
    )
    for name, weight in model.state_dict().items():
        assert torch.equal(run.model.state_dict()[name], weight)
    RunFolder(tmp_path / "run").require_same(config)
    longer, model, task = reopen(tmp_path / "run", ["train.steps=3"])
    fit(model, task, longer, run=tmp_path / "run", progress=Quiet(), resume=True)
    assert (tmp_path / "run" / "config.toml").read_text() == as_written.replace("steps = 2", "steps = 3")
    changes = (tmp_path / "run" / "changes.jsonl").read_text().splitlines()
    assert [json.loads(line)["key"] for line in changes] == ["train.steps"]


def make_old(run: Path) -> None:
    """Write the config in the form of version 0.1."""
    path = run / "config.toml"
    before, _, rest = path.read_text().partition("\n[model.attention]\n")
    attention, _, rest = rest.partition("\n\n")
    new = ("filters", "width", "temperature")  # which RNNsearch did not have
    kept = [line for line in attention.splitlines() if not line.startswith(new)]
    text = before + "\n".join(kept).replace("hidden =", "alignment =") + "\n\n" + rest
    assert tomllib.loads(text)["model"]["alignment"] == 64
    path.write_text(text)
    digests = json.loads((run / "digests.json").read_text())
    digests["config.toml"] = [hashlib.sha256(text.encode()).hexdigest()]
    (run / "digests.json").write_text(json.dumps(digests))
