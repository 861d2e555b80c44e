"""Entailment: the readers on made-up lines, the toy, words that training did not have, given vectors."""

import gzip
import json
import re

import pytest
import torch

from regard.data.entailment import LABELS, UNLABELLED, Pair, make_pairs, read_sick, read_snli, read_vectors
from regard.errors import ConfigError, DataError
from regard.evaluate.classification import Classification, evaluate_classification
from regard.models.decomposable import BagOfWords, BagOfWordsConfig
from regard.tasks.entailment import EntailmentSettings, EntailmentTask
from regard.train.config import RunConfig
from regard.train.run import create

HEADER = "pair_ID\tsentence_A\tsentence_B\tentailment_label\trelatedness_score\tSemEval_set"
SICK = [
    HEADER,
    "1\tThe green owl isn't asleep\tAn owl is awake\tENTAILMENT\t4.1\tTRAIN",
    "2\tThe green owl isn't asleep\tAn owl sleeps\tCONTRADICTION\t4.1\tTRIAL",
    "3\tA stone rolls\tA stone is heavy\tNEUTRAL\t2.0\tTEST",
]


def write_sick(folder, lines, ending=""):
    text = ("\n".join(lines) + "\n").encode()
    (folder / "sick").mkdir(exist_ok=True)
    (folder / "sick" / f"SICK.txt{ending}").write_bytes(gzip.compress(text) if ending else text)
    return str(folder)


@pytest.mark.parametrize("ending", ["", ".gz"], ids=["plain", "gz"])
def test_sick_is_read_by_its_columns(tmp_path, ending):
    data = write_sick(tmp_path, SICK, ending)
    [train], [valid], [test] = (read_sick(split, data=data) for split in ("train", "valid", "test"))
    assert train.hypothesis == ("an", "owl", "is", "awake")
    assert train.premise[:3] == ("the", "green", "owl")
    assert [LABELS[pair.label] for pair in (train, valid, test)] == ["entailment", "contradiction", "neutral"]


def test_snli_is_read_and_pairs_without_a_label_are_left_out(tmp_path):
    rows = [
        {"gold_label": "neutral", "sentence1": "A kite flies.", "sentence2": "It is red.", "pairID": "1"},
        {"gold_label": "-", "sentence1": "A kite flies.", "sentence2": "It is blue."},
    ]
    (tmp_path / "snli_1.0").mkdir()
    path = tmp_path / "snli_1.0" / "snli_1.0_dev.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    found = read_snli("valid", data=str(tmp_path))
    assert found == [Pair(("a", "kite", "flies", "."), ("it", "is", "red", "."), 1)]


TABBED = "gold_label\tsentence1_binary_parse\tsentence1\tsentence2\tpairID\tlabel1\tlabel2"


@pytest.mark.parametrize("ending", ["", ".gz"], ids=["plain", "gz"])
def test_snli_is_read_from_its_tab_separated_files_too(tmp_path, ending):
    rows = [
        TABBED,
        "neutral\t( A kite )\tA kite flies.\tIt is red.\t1\tneutral\t",
        "-\t( A kite )\tA kite flies.\tIt is blue.\t2\tneutral\tentailment",
        "entailment\t( A kite )\tA kite flies.\tA kite is up.\t3\t\t",
    ]
    text = "\n".join(rows).encode()
    (tmp_path / f"snli_1.0_test.txt{ending}").write_bytes(gzip.compress(text) if ending else text)
    found = read_snli("test", data=str(tmp_path))
    assert [LABELS[pair.label] for pair in found] == ["neutral", "entailment"]
    assert found[0] == Pair(("a", "kite", "flies", "."), ("it", "is", "red", "."), 1)


def test_a_wrong_tab_separated_file_of_snli_is_explained(tmp_path):
    path = tmp_path / "snli_1.0_test.txt"
    for text, message in (
        ("a\tb\n", "the first line has no column gold_label; expected the header of SNLI's .txt files."),
        ("", "the first line has no column gold_label; expected the header of SNLI's .txt files."),
        (f"{TABBED}\n\nneutral\tx\n", "line 3 has 2 columns; expected 7."),
    ):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match=re.escape(f"{path}: {message}")):
            read_snli("test", data=str(tmp_path))


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        (["a\tb"], "the first line has no column sentence_A; expected the header of SICK.txt."),
        ([HEADER, "1\tx"], "line 2 has 2 columns; expected 6."),
        ([HEADER, "1\tx\ty\tMAYBE\t1\tTRAIN"], "line 2 has the label 'maybe'; expected entailment, neutral,"),
        ([HEADER], "has no train pairs; expected one or more."),
    ],
    ids=["header", "columns", "label", "none"],
)
def test_a_wrong_sick_file_is_explained(tmp_path, lines, text):
    with pytest.raises(DataError, match=re.escape(text)):
        read_sick("train", data=write_sick(tmp_path, lines))


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("{", "line 1 is not JSON; expected one object a line."),
        ("[1]", "line 1 has other fields; expected the texts gold_label, sentence1, sentence2."),
        ('{"gold_label": "yes", "sentence1": "a", "sentence2": "b"}', "line 1 has the label 'yes'; expected"),
    ],
    ids=["json", "fields", "label"],
)
def test_a_wrong_snli_file_is_explained(tmp_path, line, text):
    (tmp_path / "snli_1.0_train.jsonl").write_text(line, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(text)):
        read_snli("train", data=str(tmp_path))


@pytest.mark.parametrize(
    ("corpus", "home"),
    [("sick", "https://zenodo.org/records/2787612"), ("snli", "https://nlp.stanford.edu/projects/snli/")],
)
def test_without_the_corpus_its_public_home_is_named(monkeypatch, tmp_path, corpus, home):
    monkeypatch.delenv("REGARD_DATA", raising=False)
    with pytest.raises(DataError, match=f"^{corpus}: no data folder is given; .*{re.escape(home)}"):
        EntailmentTask.create(EntailmentSettings(corpus=corpus))
    with pytest.raises(DataError, match=f"^{corpus}: no file .* was found in .*{re.escape(home)}"):
        EntailmentTask.create(EntailmentSettings(corpus=corpus, data=str(tmp_path)))


def test_the_toys_labels_are_right():
    for pair in make_pairs("train", 300, seed=1):
        assert len(set(pair.premise)) == 8
        assert len(pair.hypothesis) == 4
        new = [word for word in pair.hypothesis if word not in pair.premise]
        opposite = [word for word in new if word.removeprefix("-") in pair.premise]
        expected = {(0, 0): "entailment", (1, 0): "neutral", (1, 1): "contradiction"}
        assert LABELS[pair.label] == expected[len(new), len(opposite)]


def test_the_toys_splits_have_no_pair_in_common():
    train, test = (set(make_pairs(split, 2000, seed=1)) for split in ("train", "test"))
    assert not train & test


TOY = EntailmentTask.create(EntailmentSettings(train=90, valid=30, test=30))


def test_an_epoch_has_every_pair_once_and_depends_on_the_seed():
    plan = TOY.plan(0, seed=1, batch=16)
    assert sorted(number for rows in plan for number in rows) == list(range(90))
    assert plan == TOY.plan(0, seed=1, batch=16) != TOY.plan(0, seed=2, batch=16)


def test_sentences_begin_with_null_and_unknown_words_keep_their_number(tmp_path):
    batch = TOY.tensors([TOY.read("w1 kite ||| kite -w1")])
    assert batch.premise[0, 0] == batch.hypothesis[0, 0] == 0
    assert batch.premise[0, 2] == batch.hypothesis[0, 1]
    assert 1 <= batch.premise[0, 2] <= 100
    assert batch.labels.tolist() == [UNLABELLED]
    TOY.save(tmp_path)
    assert EntailmentTask.restore(TOY.settings, tmp_path).numbers(["w1", "kite"]) == TOY.numbers(
        ["w1", "kite"]
    )


def test_rows_that_fill_a_batch_up_count_nothing():
    batch = TOY.batch("train", range(5))
    loss = TOY.loss(lambda batch: torch.zeros(batch.size, 3), batch.rounded())
    assert int(loss.count) == 5
    torch.testing.assert_close(loss.total, 5 * torch.tensor(3.0).log())


@pytest.mark.parametrize("text", ["w1", "w1 |||", "||| w1", "w1 ||| w2 ||| w3"])
def test_what_is_no_pair_is_refused(text):
    expected = f"entailment: {text!r} is not a pair; expected two sentences, PREMISE ||| HYPOTHESIS."
    with pytest.raises(DataError, match=re.escape(expected)):
        TOY.read(text)


def test_given_vectors_become_the_embeddings_one_long(tmp_path):
    path = tmp_path / "vectors.txt"
    path.write_text("w1 3 4\nw2 0 2\n. . . 1 1\nnever 1 0\n", encoding="utf-8")
    settings = {"vectors": str(path), "train": 90, "valid": 30, "test": 30}
    config = RunConfig(
        model="bag-of-words",
        model_settings={"embedding": 2, "hidden": 4, "fixed": True},
        task="entailment",
        task_settings=settings,
    )
    model, task = create(config)
    rows = model.E.weight[task.numbers(["w1", "w2", "w3"])]
    torch.testing.assert_close(rows[1:3], torch.tensor([[0.6, 0.8], [0.0, 1.0]]))
    torch.testing.assert_close(rows.norm(dim=-1), torch.ones(4))
    unknown = model.E.weight[1:101]
    assert (unknown == rows[3]).all(1).any()  # w3 has no vector and takes one of the hundred
    assert len(unknown.unique(dim=0)) == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("w1 3 4 5\nw2 1 2\n", "line 2 is not a vector; expected a word and 3 numbers, as in GloVe."),
        ("9 2\nw1 3 nan\n", "line 2 is not a vector; expected a word and 2 numbers, as in GloVe."),
        ("w1 3 4\nw2 1\n", "line 2 is not a vector; expected a word and 2 numbers, as in GloVe."),
        ("w1 3 x\n", "line 1 is not a vector; expected a word and 2 numbers, as in GloVe."),
        ("w1\n", "line 1 is not a vector; expected a word and its numbers, as in GloVe."),
    ],
    ids=["one-short", "no-number", "short", "letters", "none"],
)
def test_a_wrong_file_of_vectors_is_explained(tmp_path, text, message):
    path = tmp_path / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=re.escape(f"{path}: {message}")):
        read_vectors(path, ["w1", "w2"])


def test_a_header_and_spaces_at_the_end_of_lines_are_passed_over(tmp_path):
    path = tmp_path / "vectors.vec"
    path.write_text("2 3 \nw1 1 2 3 \nw2 4 5 6 \n", encoding="utf-8")
    assert read_vectors(path, ["w1", "w2"]) == {"w1": [1, 2, 3], "w2": [4, 5, 6]}


def test_vectors_that_are_not_there_or_not_wanted_are_refused(tmp_path):
    with pytest.raises(
        DataError,
        match=r"^entailment: `vectors` has .*gone\.txt, which is not a file; expected one of GloVe's",
    ):
        EntailmentTask.create(EntailmentSettings(vectors=str(tmp_path / "gone.txt")))
    path = tmp_path / "vectors.txt"
    path.write_text("never 1 0\n", encoding="utf-8")
    task = EntailmentTask.create(EntailmentSettings(vectors=str(path), train=9, valid=3, test=3))
    with pytest.raises(DataError, match="no word of the corpus is in it"):
        task.vectors()
    with pytest.raises(ConfigError, match=r"^entailment: `vectors` are given, but Linear takes none"):
        task.fill(torch.nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"train": 0}, "entailment: `train` has 0; expected 1 or more."),
        (
            {"size": 101},
            "entailment: `size` has 101; expected more than 101, which are NULL and the 100 unknown",
        ),
    ],
    ids=["train", "size"],
)
def test_settings_that_cannot_be_are_refused(settings, text):
    with pytest.raises(ConfigError, match=re.escape(text)):
        EntailmentSettings(**settings)


def test_a_classification_is_counted_by_class():
    found = Classification("test", ("a", "b", "c"), ((3, 1, 0), (2, 4, 0), (0, 0, 0)))
    assert found.headline() == ("accuracy", 0.7)
    assert found.recall(0) == 0.75
    assert found.precision(0) == 0.6
    assert found.recall(2) is None
    assert found.precision(2) is None
    assert found.measures()[1] == ("always the most frequent label", "0.600")
    each, confusion = found.tables()
    assert each.rows[0] == ("a", "4", "0.750", "0.600")
    assert confusion.rows[1] == ("b", "2", "4", "0")
    assert json.loads(json.dumps(found.summary()))["confusion"] == [[3, 1, 0], [2, 4, 0], [0, 0, 0]]


def test_every_pair_of_a_split_is_labelled_once():
    model = BagOfWords(BagOfWordsConfig(**TOY.sizes(), embedding=4, hidden=4))
    told = []
    found = evaluate_classification(model, TOY, "test", progress=told.append)
    assert found.examples == sum(told) == 30
    assert [sum(row) for row in found.counts] == [10, 10, 10]
