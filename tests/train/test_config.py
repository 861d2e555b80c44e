import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from train_support import make_config

from regard.errors import ConfigError
from regard.train import toml
from regard.train.config import RunConfig, TrainConfig, load_recipe, recipe_names

pytestmark = pytest.mark.usefixtures("_tiny_rows")

RECIPE = """
[model]
name = "tiny"
hidden = 16
[task]
name = "tiny-task"
target = "zh"
[train]
steps = 1500
lr = 1
betas = [0.9, 0.98]
[decode]
beam = 3
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(RECIPE)
    return path


def edited(recipe: Path, old: str, new: str) -> Path:
    text = recipe.read_text()
    assert old in text
    recipe.write_text(text.replace(old, new))
    return recipe


def test_a_recipe_becomes_a_config_with_every_default_filled_in(recipe: Path) -> None:
    config = load_recipe(recipe)
    assert (config.model, config.task) == ("tiny", "tiny-task")
    assert config.model_settings["hidden"] == 16
    assert config.model_settings["sizes"] == (1, 2)
    assert "vocab" not in config.model_settings
    assert config.task_settings == {"examples": 40, "vocab": 7, "target": "zh", "poison": ()}
    assert config.train == TrainConfig(steps=1500, lr=1.0, betas=(0.9, 0.98))
    assert isinstance(config.train.lr, float)
    assert config.decode.beam == 3


def test_a_config_written_and_read_again_is_the_same(recipe: Path, tmp_path: Path) -> None:
    config = load_recipe(recipe, ['model.note=a "quoted"\\ line', "train.lr=1e-7", "model.sizes=[3, 5, 7]"])
    config.write(tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml") == config


@pytest.mark.parametrize(
    "text", ['say "so"', "back\\slash", "line\nbreak\ttab", "été 中文 🙂", "\x00\x7f\u2028", ""]
)
def test_any_string_survives_toml(text: str, recipe: Path, tmp_path: Path) -> None:
    config = load_recipe(recipe)
    config = replace(config, model_settings={**config.model_settings, "note": text})
    config.write(tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml").model_settings["note"] == text


def test_what_toml_cannot_hold_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"config: `when` has type object; expected a string, number, boolean"
    ):
        toml.dumps({"model": {"when": object()}})


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("hidden", "hiden", r"tiny.toml: unknown key 'model.hiden'; did you mean 'model.hidden'\?"),
        ("target", "tarjet", r"tiny.toml: unknown key 'task.tarjet'; did you mean 'task.target'\?"),
        ("steps", "step", r"tiny.toml: unknown key 'train.step'; did you mean 'train.steps'\?"),
        ("beam", "beams", r"tiny.toml: unknown key 'decode.beams'; did you mean 'decode.beam'\?"),
        ("[decode]", "[decoder]", r"tiny.toml: unknown table 'decoder'; did you mean 'decode'\?"),
        ('"tiny"', '"tini"', r"tiny.toml: unknown model 'tini'; did you mean 'tiny'\?"),
        ('"tiny-task"', '"tinytask"', r"tiny.toml: unknown task 'tinytask'; did you mean 'tiny-task'\?"),
        ('name = "tiny"\n', "", r"tiny.toml: 'model.name' is missing; expected one of .*tiny"),
        ("1500", '"many"', r"tiny.toml: 'train.steps' is 'many'; expected an integer\."),
        ("1500", "1.5", r"tiny.toml: 'train.steps' is 1.5; expected an integer\."),
        ("1500", "true", r"tiny.toml: 'train.steps' is True; expected an integer\."),
        ("1500", "0", r"tiny.toml: 'train.steps' is 0; expected at least 1\."),
        ("lr = 1", "lr = nan", r"tiny.toml: 'train.lr' is nan; expected at least 0\."),
        (
            "[0.9, 0.98]",
            "0.9",
            r"tiny.toml: 'train.betas' is 0.9; expected a list of 2: a number, a number\.",
        ),
        ("[0.9, 0.98]", "[0.9]", r"tiny.toml: 'train.betas' is \[0.9\]; expected a list of 2"),
        (
            "hidden = 16",
            "kind = 'bad'",
            r"tiny.toml: 'model.kind' is 'bad'; expected one of 'plain', 'tied'\.",
        ),
        ("hidden = 16", "bias = 1", r"tiny.toml: 'model.bias' is 1; expected true or false\."),
        ("hidden = 16", "note = 1", r"tiny.toml: 'model.note' is 1; expected a string\."),
        (
            "hidden = 16",
            "sizes = ['a']",
            r"'model.sizes' is \['a'\]; expected a list, each item an integer\.",
        ),
        ("beam = 3", "beam = ", r"tiny.toml: not valid TOML: Invalid value \(at line 13, column 8\)\."),
    ],
)
def test_a_mistake_in_a_recipe_gets_its_remedy(recipe: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(edited(recipe, old, new))


def test_a_value_where_a_table_belongs_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("model = 3\n")
    with pytest.raises(ConfigError, match=r"a.toml: 'model' is 3; expected a table, \[model\]\."):
        load_recipe(tmp_path / "a.toml")


def test_overrides_change_values_and_words_need_no_quotes(recipe: Path) -> None:
    overrides = [
        "train.steps=7",
        "train.schedule=cosine",
        "task.target = 'fr'",
        "model.sizes=[4]",
        "decode.beam=1",
    ]
    config = load_recipe(recipe, overrides)
    assert (config.train.steps, config.train.schedule) == (7, "cosine")
    assert (config.task_settings["target"], config.model_settings["sizes"]) == ("fr", (4,))
    assert config.decode.beam == 1


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.hiden=3", r"--set: unknown key 'model.hiden'; did you mean 'model.hidden'\?"),
        ("trian.steps=3", r"--set: unknown table 'trian'; did you mean 'train'\?"),
        ("train.steps=soon", r"--set: 'train.steps' is 'soon'; expected an integer\."),
        ("train.steps=-1", r"--set: 'train.steps' is -1; expected at least 1\."),
        ("train.steps", r"--set: 'train.steps' is not table.key=value; expected e.g. train.steps=2000\."),
        ("steps=3", r"--set: 'steps=3' is not table.key=value"),
        ("model.name=tini", r"--set: unknown model 'tini'; did you mean 'tiny'\?"),
        ("decode.nbest=3", r"--set: unknown key 'decode.nbest'; did you mean 'decode.beam'\?"),
        ("train.lr=1\nsteps=2", r"--set: 'train.lr' is '1\\nsteps=2'; expected a number\."),
    ],
)
def test_overrides_are_checked_as_strictly(recipe: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(recipe, [override])


def test_an_inner_table_keeps_the_defaults_of_its_model() -> None:
    for name, score, hidden in (
        ("rnnsearch-reverse", "additive", 64),
        ("transformer-reverse", "scaled-dot", None),
    ):
        plain = load_recipe(name).model_settings["attention"]
        assert (plain.score, plain.hidden) == (score, hidden)
        changed = load_recipe(name, ["model.attention.score=general"]).model_settings["attention"]
        assert changed == replace(plain, score="general")


@pytest.mark.parametrize("name", recipe_names())
def test_every_recipe_survives_being_written(name: str, tmp_path: Path) -> None:
    config = load_recipe(name)
    config.write(tmp_path / "again.toml")
    assert load_recipe(tmp_path / "again.toml") == config


@pytest.mark.parametrize(
    ("name", "override", "message"),
    [
        (
            "rnnsearch-reverse",
            "model.attention.scor=dot",
            r"--set: unknown key 'model\.attention\.scor'; did you mean 'model\.attention\.score'\?",
        ),
        (
            "rnnsearch-reverse",
            "model.attention=dot",
            r"--set: unknown key 'model\.attention'; did you mean 'model",
        ),
        ("rnnsearch-reverse", "model.hidden={a=1}", r"--set: unknown key 'model\.hidden\.a'; did you mean"),
        (
            "rnnsearch-reverse",
            "model.attention.heads=0",
            r"--set: attention: `heads` has 0; expected 1 or more\.",
        ),
        ("luong-reverse", "model.attention=false", r"--set: `model\.attention` is now `model\.attends`\."),
        ("luong-reverse", "model.attention.heads=2", r"'model\.attention\.heads' is 2; expected nothing\."),
        (
            "transformer-reverse",
            "model.attention.window=local-monotonic",
            r"--set: 'model\.attention\.window' is 'local-monotonic'; expected 'global'\.",
        ),
        (
            "memn2n-stories",
            "model.attention.score=general",
            r"'model\.attention\.score' is 'general'; expected 'dot'",
        ),
        (
            "snail-strokes",
            "model.attention.score=dot",
            r"--set: unknown key 'model\.attention\.score'; did you mean",
        ),
    ],
)
def test_an_inner_table_is_checked_as_strictly(name: str, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_recipe(name, [override])


def test_a_whole_table_may_be_given_at_once() -> None:
    plain = load_recipe("rnnsearch-reverse")
    assert load_recipe("rnnsearch-reverse", ["model.attention={}"]) == plain
    both = load_recipe("rnnsearch-reverse", ['model.attention={score="dot", heads=2}'])
    attention = replace(plain.model_settings["attention"], score="dot", heads=2)
    assert both.model_settings["attention"] == attention


def test_recipes_are_found_by_name(monkeypatch: pytest.MonkeyPatch, recipe: Path) -> None:
    monkeypatch.setattr("regard.train.config.resources.files", lambda package: recipe.parent)
    assert recipe_names() == ("tiny",)
    assert load_recipe("tiny").train.steps == 1500
    with pytest.raises(ConfigError, match=r"recipes: unknown recipe 'tinny'; did you mean 'tiny'\?"):
        load_recipe("tinny")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"nowhere/a.toml: cannot be read: No such file or directory\."):
        load_recipe("nowhere/a.toml")


def test_configs_check_their_ranges() -> None:
    for bad in ({"batch": 0}, {"accumulate": 0}, {"clip": -1.0}, {"patience": -1}, {"seed": -1}):
        with pytest.raises(ConfigError, match="expected at least"):
            TrainConfig(**bad)  # type: ignore[arg-type]


def test_reading_a_config_imports_no_accelerate() -> None:
    code = "import sys, regard.train.config; print('accelerate' in sys.modules, 'torch.optim' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "False"


def test_a_config_by_hand_equals_its_file(tmp_path: Path) -> None:
    config = make_config()
    config.write(tmp_path / "a.toml")
    loaded = load_recipe(tmp_path / "a.toml")
    assert isinstance(loaded, RunConfig)
    assert loaded.train == config.train
