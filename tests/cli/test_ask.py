"""regard ask: answers with the sentences it attended to; and evaluate and show on stories and texts."""

import json

import pytest

STORY = "Anna went to the kitchen.\nAnna took the lamp.\nOmar ran to the attic.\n"


def train(tmp_path_factory, recipe, *settings):
    from regard.train.config import load_recipe
    from regard.train.loop import fit
    from regard.train.progress import Quiet
    from regard.train.run import create

    folder = tmp_path_factory.mktemp(recipe) / "run"
    config = load_recipe(recipe, [*settings, "train.steps=8", "train.evaluate_every=4", "train.threads=1"])
    fit(*create(config), config, run=folder, progress=Quiet())
    return folder


@pytest.fixture(scope="module")
def stories(tmp_path_factory):
    sizes = ("task.train=100", "task.valid=8", "task.test=8", "task.memory=4")
    return train(tmp_path_factory, "memn2n-stories", *sizes)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("the cat sat on the mat and the dog saw the cat\n" * 40)
    sizes = (
        "task.corpus=grammar",
        f"task.text={path}",
        "task.context=5",
        "model.embedding=8",
        "model.hops=2",
    )
    return train(tmp_path_factory, "memn2n-ptb", *sizes)


def test_the_answer_comes_with_the_weight_of_each_sentence(command, stories, tmp_path):
    path = tmp_path / "story.txt"
    path.write_text(STORY)
    outcome = command("ask", stories, path, "Where is the lamp?", "--out", tmp_path / "a.png")
    assert outcome.status == 0
    lines = outcome.out.splitlines()
    assert lines[0].startswith("Where is the lamp? ")
    assert lines[1].split() == ["sentence", "hop", "1", "hop", "2", "hop", "3"]
    assert [line.split("  ")[0] for line in lines[2:]] == STORY.splitlines()
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_story_from_standard_input_and_the_answer_as_json(command, stories):
    outcome = command("ask", stories, "-", "Where is Anna?", "--json", stdin=STORY.encode())
    found = json.loads(outcome.out)
    assert found["sentences"] == STORY.splitlines()
    assert len(found["hops"]) == 3
    assert all(sum(row) == pytest.approx(1, abs=0.001) for row in found["hops"])
    assert found["unknown"] == []
    assert outcome.err == ""


def test_unknown_words_and_forgotten_sentences_are_named(command, stories):
    outcome = command(
        "ask", stories, "-", "Where is the wand?", stdin=(STORY + "Omar left.\nPaul ran to Rome.").encode()
    )
    assert outcome.status == 0
    assert outcome.err == (
        "regard: never seen in training: 'left', 'rome', 'wand' (left out).\n"
        "regard: the story has 5 sentences; the memory holds the last 4.\n"
    )


def test_what_cannot_be_asked_is_one_sentence(command, stories, words, tmp_path):
    def complaint(*arguments, stdin=b""):
        outcome = command("ask", *arguments, stdin=stdin)
        assert outcome.status == 2
        return outcome.err

    assert complaint(stories, "-", "Where is Anna?") == (
        "regard: ask: the story has no sentences; expected one per line, or several that end with full "
        "stops.\n"
    )
    missing = (
        'regard: ask: no question is given; expected one after the story, such as "Where is the lamp?".\n'
    )
    assert complaint(stories, "-", stdin=STORY.encode()) == missing
    assert complaint(stories, "-", " ", stdin=STORY.encode()) == missing
    assert "expected e.g. 'Where is the lamp?'" in complaint(stories, "-", "?", stdin=STORY.encode())
    assert "nowhere.txt: no such file or directory." in complaint(
        stories, tmp_path / "nowhere.txt", "Where is Anna?"
    )
    assert "`--out` has the ending '.gif'; expected .png or .svg." in complaint(
        stories, "-", "Who?", "--out", "a.gif"
    )
    assert "expected 'babi' or 'stories'." in complaint(words, "-", "Where?", stdin=STORY.encode())


def test_a_run_on_stories_is_measured_and_shown(command, stories, tmp_path):
    found = json.loads(command("evaluate", stories, "--json").out)
    assert found["questions"] == 8
    assert set(found["errors"]) == {"1", "2"}
    assert "mean error" in command("evaluate", stories).out
    for name in ("a.png", "a.svg", "a.html"):
        assert command("show", stories, "--out", tmp_path / name).status == 0
        assert (tmp_path / name).stat().st_size > 1000
    shown = command("show", stories, "Anna went to the attic. Where is Anna?", "--out", tmp_path / "b.png")
    assert shown.out.startswith("Where is Anna? ")
    alone = command("show", stories, "Where is Anna?", "--out", tmp_path / "b.png")
    assert (
        alone.err == "regard: show: the text has one sentence or none; expected a story, then a question.\n"
    )


def test_a_run_on_a_text_is_measured_and_shown(command, words, tmp_path):
    found = json.loads(command("evaluate", words, "--json").out)
    assert 1 < found["perplexity"] < 100
    for name in ("a.png", "a.html"):
        assert (
            command("show", words, "The cat saw a dog.", "--out", tmp_path / name).out.strip()
            == "the cat saw a dog ."
        )
        assert (tmp_path / name).stat().st_size > 1000
    assert command("show", words, "--out", tmp_path / "b.svg").out.strip().endswith("<eos>")
    assert command("show", words, "cat", "--out", tmp_path / "b.svg").err == (
        "regard: show: the text has 1 words; expected two or more.\n"
    )
