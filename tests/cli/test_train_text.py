"""regard train with files or a corpus by name, and regard evaluate --on another corpus."""

import json
import tomllib
from itertools import pairwise

import pytest

from regard.cli.text import Text
from regard.cli.train import choose_config
from regard.errors import ConfigError
from regard.train.own_text import FEWEST, SIZES, size_for

TINY = [
    word
    for setting in (
        "model.layers=1",
        "model.d_model=8",
        "model.d_ff=8",
        "model.attention.heads=2",
        "task.size=300",
        "train.steps=4",
        "train.warmup=0",
        "train.threads=1",
        "decode.beam=1",
    )
    for word in ("--set", setting)
]


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("REGARD_DATA", raising=False)
    write("mine/train.en", [f"I have {n} dogs." for n in range(120)] + ["", "alone"])
    write("mine/train.fr", [f"J'ai {n} chiens." for n in range(120)] + ["seul", ""])
    write("corpora/fra.txt", [f"I have {n} dogs.\tJ'ai {n} chiens." for n in range(200)])
    write("corpora/hansards/en-fr.src-tgt.txt", ["i have dogs . ||| j' ai des chiens ."])
    write("corpora/hansards/en-fr.gold.txt", ["1-1 2-2 3-4 4-5 3p3"])
    return tmp_path


def write(name, lines):
    from pathlib import Path

    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def test_two_files_become_a_translator(command, data, caplog):
    outcome = command("train", "--source", "mine/train.en", "--target", "mine/train.fr", *TINY)
    assert outcome.status == 0, outcome.err
    assert caplog.text.count("2 of 122 pairs have an empty side and are left out.") == 1
    config = tomllib.loads((data / "runs" / "en-fr" / "config.toml").read_text())
    task = config["task"]
    assert (task["source"], task["source_language"]) == (str(data / "mine" / "train.en"), "en")
    assert (task["target_language"], task["pieces"], task["joint"]) == ("fr", "bpe", True)
    assert config["model"]["name"] == "transformer"
    assert config["train"]["patience"] > 0
    assert command("translate", "runs/en-fr", "I have 3 dogs.").status == 0


def test_a_corpus_by_name_is_trained_on_and_measured_on_another(command, data):
    corpora = ["--data", "corpora"]
    outcome = command("train", "--corpus", "tatoeba-en-fr", *corpora, *TINY, "--set", "task.pieces=words")
    assert outcome.status == 0, outcome.err
    outcome = command("evaluate", "runs/tatoeba-en-fr", "--on", "hansards", *corpora, "--json")
    assert outcome.status == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["sentences"] == 1
    assert 0.0 <= found["alignment"]["error_rate"] <= 1.0
    assert found["bleu_lowercased"]["signature"].startswith("nrefs:1|case:lc")
    assert {"bleu", "signature", "bleu_moses", "chrf"} <= set(found)
    outcome = command("evaluate", "runs/tatoeba-en-fr", "--on", "hansards", *corpora)
    assert "hansards, test" in outcome.out
    outcome = command("evaluate", "runs/tatoeba-en-fr", "--on", "multi30k-en-de", *corpora)
    assert "multi30k-en-de is en to de; expected en to fr, as the model was trained" in outcome.err
    outcome = command("evaluate", "runs/tatoeba-en-fr", "--on", "hansards", *corpora, "--split", "valid")
    assert "the valid split has no sentences" in outcome.err


def own(source, target, *overrides, model="", **given):
    return choose_config(None, Text(source=source, target=target, **given), model, list(overrides))


def test_the_network_grows_with_the_text(data):
    write("many.en", ["word " * 10] * 25_000)
    few, many = own("mine/train.en", "mine/train.fr"), own("many.en", "many.en")
    for config in (few, many):
        assert (config.model, config.task_settings["joint"]) == ("transformer", True)
        assert config.model_settings["dropout"] > 0
    assert few.model_settings["d_model"] < many.model_settings["d_model"]
    assert few.train.batch < many.train.batch
    assert few.train.steps == FEWEST
    size = size_for(25_000)
    assert many.train.steps == size.passes * 2 * 49 * 25_000 // 4 // size.batch
    assert many.train.steps // 50 < many.train.evaluate_every < many.train.steps // 20
    assert own("many.en", "many.en", "train.steps=7", "model.d_model=64").train.steps == 7


def test_text_that_is_no_byte_pairs_on_both_sides_shares_no_vocabulary(data):
    for config in (
        own("mine/train.en", "mine/train.fr", source_language="en", target_language="zh"),
        own("mine/train.en", "mine/train.fr", "task.pieces=words"),
    ):
        assert (config.task_settings["joint"], config.model_settings["tied"]) == (False, "target")


def test_rows_of_the_table_are_in_order_and_make_sense():
    assert [size.pairs for size in SIZES] == sorted({size.pairs for size in SIZES})
    assert SIZES[0].pairs == 0
    assert size_for(10_000_000) is SIZES[-1]
    for below, size in pairwise(SIZES):
        assert size_for(size.pairs) is size
        assert size_for(size.pairs - 1) is below
        assert below.layers * below.d_model <= size.layers * size.d_model
        assert below.vocabulary <= size.vocabulary
        assert below.passes >= size.passes
        assert below.dropout >= size.dropout
    assert all(size.d_model % size.heads == 0 for size in SIZES)


@pytest.mark.parametrize("how", [{"model": "rnnsearch"}, {"overrides": ["model.name=rnnsearch"]}])
def test_a_model_that_is_named_is_trained_as_it_always_was(data, how):
    write("many.en", ["word " * 100] * 10_000)
    given = Text(source="many.en", target="many.en")
    config = choose_config(None, given, how.get("model", ""), how.get("overrides", []))
    assert (config.model, config.train.batch, config.train.patience) == ("rnnsearch", 4096, 0)
    assert config.train.steps == 10 * 2 * (501 * 10_000) // 4 // config.train.batch
    assert not config.task_settings["joint"]


def test_a_recipe_gives_its_model_to_other_text_and_keeps_how_it_cuts(data):
    config = choose_config(
        "translator",
        Text(source="mine/train.en", target="mine/train.fr", source_language="en", target_language="de"),
        "",
        [],
    )
    assert (config.train.steps, config.task_settings["size"]) == (4000, 8000)
    assert config.task_settings["target_language"] == "de"
    grammar = choose_config("rnnsearch-en-fr", Text(corpus="tatoeba-en-fr", data="corpora"), "", [])
    assert (grammar.task, grammar.model_settings["hidden"]) == ("corpus", 128)
    assert grammar.task_settings["corpus"] == "tatoeba-en-fr"


def test_a_model_can_be_named(data):
    config = choose_config(None, Text(source="mine/train.en", target="mine/train.fr"), "seq2seq", [])
    assert config.model == "seq2seq"


def test_data_alone_goes_to_the_recipes_own_task(data):
    with pytest.raises(ConfigError, match=r"unknown key 'task\.data'"):
        choose_config("rnnsearch-reverse", Text(data="corpora"), "", [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--source", "a.en"], "train: --source is given; expected both `--source` and `--target`."),
        (
            ["--valid-source", "a.en"],
            "train: --valid-source is given; expected both `--source` and `--target`",
        ),
        (
            ["--corpus", "hansards", "--source", "a.en", "--target", "a.fr"],
            "train: `--corpus` has hansards beside --source; expected one of them.",
        ),
        (["--corpus", "multi30k"], "corpus: unknown corpus 'multi30k'; known: multi30k-en-de, "),
        (["--source", "no.en", "--target", "no.fr"], "no.en: no such file or directory."),
        (["--corpus", "hansards", "--data", "corpora"], "a test set without training sentences"),
    ],
)
def test_bad_text_is_one_sentence(command, data, words, message):
    outcome = command("train", *words)
    assert (outcome.status, outcome.out) == (2, "")
    [*_, sentence] = outcome.err.splitlines()
    assert sentence.startswith("regard: ")
    assert message in sentence


def test_a_job_that_is_started_again_goes_on(command, data):
    words = ("train", "--source", "mine/train.en", "--target", "mine/train.fr", "--run", "runs/job", *TINY)
    outcome = command(*words, "--resume-or-start")
    assert outcome.status == 0, outcome.err
    assert command(*words).status == 2  # the folder holds a run
    outcome = command(*words, "--resume-or-start", "--set", "train.steps=6")
    assert outcome.status == 0, outcome.err
    names = json.loads((data / "runs" / "job" / "checkpoints.json").read_text())
    assert names["last"].startswith("step-00000006")
