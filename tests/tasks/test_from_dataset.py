"""Text tasks on rows in memory, given as `datasets` and others give them."""

from pathlib import Path

import pytest

import regard
from regard.data.entailment import LABELS
from regard.data.rows import Rows
from regard.errors import ConfigError, DataError
from regard.evaluate.base import evaluate
from regard.tasks.babi import BabiSettings, BabiTask
from regard.tasks.entailment import EntailmentSettings, EntailmentTask
from regard.tasks.language import LanguageSettings, LanguageTask, WordSettings
from regard.tasks.sentences import SentenceTask
from regard.train.config import load_recipe
from regard.train.loop import fit
from regard.train.run import build_model, open_run

SPLITS = ("train", "valid", "test")


class ClassLabel:
    """What a Dataset says of a column of labels."""

    def __init__(self, names):
        self.names = names


class Dataset:
    """Rows behind the part of a Dataset's interface that is used."""

    def __init__(self, rows, **features):
        self.rows, self.features = rows, features

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        return iter(self.rows)


class Frame:
    """The part of a pandas data frame that is used; its iteration gives the columns' names."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows[0])

    def iterrows(self):
        return enumerate(self.rows)

    def to_dict(self, orient):
        assert orient == "records"
        return self.rows


PAIRS = [
    {"premise": f"A man plays song {n}.", "hypothesis": "A man plays.", "label": n % 3} for n in range(100)
]
STORIES = [
    {
        "story": f"{name} took the lamp. {name} went to the {place}.",
        "question": "Where is the lamp?",
        "answer": place,
    }
    for name in ("Anna", "Ben", "Carl")
    for place in ("garden", "kitchen", "office", "attic")
]
TEXT = [{"text": f"The cat sleeps on mat {n}.\n\nA dog barks."} for n in range(60)]
NO_ROWS = "has 'dataset', and no rows are given; expected them in Python, by from_dataset(rows, settings)."
ENTAILMENT = EntailmentSettings(corpus="dataset")


def test_one_row_in_fifty_is_held_out_where_no_split_is():
    rows = Rows("task", [{"n": n} for n in range(1, 121)])
    assert [row["n"] for row in rows["valid"]] == [row["n"] for row in rows["test"]] == [50, 100]
    assert len(list(rows["train"])) == 118
    few = Rows("task", [{"n": 1}, {"n": 2}])
    assert [[row["n"] for row in few[split]] for split in SPLITS] == [[1, 2], [1], [1]]


@pytest.mark.parametrize("name", ["validation", "valid", "dev"])
def test_given_splits_are_taken_as_they_are(name):
    given = {"train": [{"n": n} for n in range(60)], name: [{"n": "v"}]}
    rows = Rows("task", given)
    assert [len(list(rows[split])) for split in SPLITS] == [60, 1, 1]
    rows = Rows("task", given | {"test": [{"n": "t"}] * 2})
    assert [row["n"] for row in rows["test"]] == ["t", "t"]
    only = Rows("task", {"train": given["train"], "test": [{"n": "t"}]})
    assert [len(list(only[split])) for split in SPLITS] == [59, 1, 1]


@pytest.mark.parametrize(
    "kind",
    [list, Dataset, Frame, lambda rows: {name: [row[name] for row in rows] for name in rows[0]}],
    ids=["list", "Dataset", "frame", "columns"],
)
def test_every_kind_of_table_gives_the_same_pairs(kind):
    task = EntailmentTask.from_dataset(kind(PAIRS), ENTAILMENT)
    assert [len(task.pairs(split)) for split in SPLITS] == [98, 2, 2]
    pair = task.pairs("train")[1]
    assert (pair.premise, pair.hypothesis) == (
        ("a", "man", "plays", "song", "1", "."),
        ("a", "man", "plays", "."),
    )
    assert LABELS[pair.label] == "neutral"


def test_labels_are_words_or_numbers_of_the_datasets_own_names():
    words = [{"premise": "a", "hypothesis": "b", "label": label} for label in ("Entailment", "CONTRADICTION")]
    task = EntailmentTask.from_dataset({"train": words, "validation": words}, ENTAILMENT)
    assert [LABELS[pair.label] for pair in task.pairs("train")] == ["entailment", "contradiction"]
    numbers = [{"premise": "a", "hypothesis": "b", "label": label} for label in (0, 2)]
    named = Dataset(numbers, label=ClassLabel(["contradiction", "entailment", "neutral"]))
    task = EntailmentTask.from_dataset({"train": named, "validation": named}, ENTAILMENT)
    assert [LABELS[pair.label] for pair in task.pairs("train")] == ["contradiction", "neutral"]


def test_pairs_without_a_label_are_left_out():
    rows = [{"premise": "a", "hypothesis": "b", "label": label} for label in (-1, "-", None, 1)]
    task = EntailmentTask.from_dataset({"train": rows, "validation": rows}, ENTAILMENT)
    assert [pair.label for pair in task.pairs("train")] == [1]


def test_columns_can_have_other_names():
    rows = [{"sentence_A": "One.", "sentence_B": "Two.", "entailment_label": "NEUTRAL"}] * 3
    columns = ("sentence_A", "sentence_B", "entailment_label")
    task = EntailmentTask.from_dataset(rows, ENTAILMENT, columns=columns)
    assert task.pairs("train")[0].premise == ("one", ".")
    text = LanguageTask.from_dataset(rows, LanguageSettings(corpus="dataset"), column="sentence_B")
    assert text.words.words == ("<eos>", "<unk>", ".", "two")


def test_language_tasks_read_every_line_of_a_text():
    language = LanguageTask.from_dataset(TEXT, LanguageSettings(corpus="dataset", predict=5))
    sentences = SentenceTask.from_dataset(TEXT, WordSettings(corpus="dataset"))
    assert language.words.words == sentences.words.words
    assert {"cat", "barks", "<eos>"} <= set(language.words.words)
    # 59 texts of two lines, of 8 and 5 words with their end marks
    assert len(sentences.evaluation_plan("train", batch=10**6)[0]) == 2 * 59
    counted = sum(
        int(language.batch("train", rows).counts.sum())
        for rows in language.evaluation_plan("train", batch=50)
    )
    assert counted == 59 * (8 + 5)


def test_rows_without_words_are_not_held_out():
    rows = [row for text in TEXT for row in (text, {"text": " "})]
    task = SentenceTask.from_dataset(rows, WordSettings(corpus="dataset"))
    assert [len(task.evaluation_plan(split, batch=10**6)[0]) for split in SPLITS] == [118, 2, 2]


def test_questions_take_a_story_as_text_or_as_sentences():
    task = BabiTask.from_dataset(STORIES, BabiSettings(set="dataset"))
    listed = [row | {"story": row["story"].split(". ")} for row in STORIES]
    other = BabiTask.from_dataset(listed, BabiSettings(set="dataset"))
    assert task.questions("train") == other.questions("train")
    assert task.questions("train")[0].story == (
        ("anna", "took", "the", "lamp"),
        ("anna", "went", "to", "the", "garden"),
    )


def entailment(rows, settings=ENTAILMENT):
    return EntailmentTask.from_dataset(rows, settings)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: entailment(PAIRS, EntailmentSettings()),
            "entailment: `task.corpus` has 'toy'; expected 'dataset'. Set task.corpus=dataset.",
        ),
        (
            lambda: LanguageTask.from_dataset(TEXT, LanguageSettings()),
            "language: `task.corpus` has 'grammar'; expected 'dataset'. Set task.corpus=dataset.",
        ),
        (
            lambda: BabiTask.from_dataset(STORIES, BabiSettings()),
            "babi: `task.set` has 'en'; expected 'dataset'. Set task.set=dataset.",
        ),
        (lambda: EntailmentTask.create(ENTAILMENT), f"entailment: `task.corpus` {NO_ROWS}"),
        (
            lambda: SentenceTask.create(WordSettings(corpus="dataset")),
            f"language: `task.corpus` {NO_ROWS}",
        ),
        (lambda: BabiTask.create(BabiSettings(set="dataset")), f"babi: `task.set` {NO_ROWS}"),
        (
            lambda: entailment([{"premise": "a", "label": 1}]),
            "entailment: a row of the dataset has premise, label; expected 'hypothesis' among them.",
        ),
        (lambda: entailment([]), "entailment: the dataset has no rows; expected rows of 'train'."),
        (
            lambda: entailment(iter(PAIRS)),
            "entailment: the dataset is list_iterator, of unknown length; expected all its rows. "
            "Load it with streaming=False.",
        ),
        (
            lambda: entailment([PAIRS[0] | {"label": 7}]),
            "entailment: a row of the dataset has the label 7; expected 0 to 2.",
        ),
        (
            lambda: entailment([PAIRS[0] | {"label": "maybe"}]),
            "entailment: a row of the dataset has the label 'maybe'; "
            "expected entailment, neutral, contradiction.",
        ),
        (
            lambda: LanguageTask.from_dataset([{"text": " "}], LanguageSettings(corpus="dataset")),
            "language: the dataset has no rows; expected rows of 'train'.",
        ),
        (
            lambda: LanguageTask.from_dataset([{"line": "a"}], LanguageSettings(corpus="dataset")),
            "language: a row of the dataset has line; expected 'text' among them.",
        ),
        (
            lambda: BabiTask.from_dataset(
                [STORIES[0] | {"answer": "the garden"}], BabiSettings(set="dataset")
            ),
            "babi: a row of the dataset has the answer 'the garden'; expected one word.",
        ),
        *(
            (
                lambda story=story: BabiTask.from_dataset(
                    [STORIES[0] | {"story": story}], BabiSettings(set="dataset")
                ),
                f"babi: a row of the dataset has the story {story!r}; "
                "expected a text or a list of sentences.",
            )
            for story in (None, ["Anna left.", 3])
        ),
    ],
)
def test_what_is_wrong_is_named(call, message):
    with pytest.raises((ConfigError, DataError)) as caught:
        call()
    assert str(caught.value) == message


def test_what_learnt_from_rows_is_loaded_without_them(tmp_path: Path):
    small = ["task.corpus=dataset", "train.steps=3", "train.evaluate_every=3", "model.hidden=8"]
    config = load_recipe("decomposable-toy", small)
    task = EntailmentTask.from_dataset(PAIRS, EntailmentSettings(**config.task_settings))
    fit(build_model(config, task), task, config, run=tmp_path / "pairs")
    found = regard.load(tmp_path / "pairs").entails("A man plays song 5.", "A man plays.")
    assert found.label in LABELS
    assert found.premise[:2] == ("a", "man")
    run = open_run(tmp_path / "pairs")
    with pytest.raises(DataError, match=r"^entailment: `task\.corpus` has 'dataset', and no rows are given"):
        evaluate(run.model, run.task)
