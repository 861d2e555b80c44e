"""Tasks on public corpora, with small ones of the same forms; joint vocabularies; given words; memory."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from encoded_lists import lists
from forking import forks
from seeds import offset_seed

from regard.attention.config import AttentionConfig
from regard.data.tokens import UNK, Tokenizer
from regard.errors import ConfigError, DataError
from regard.evaluate.alignment import Link
from regard.evaluate.translation import measure_alignment, word_links
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.tasks.corpus import CorpusSettings, CorpusTask, on_corpus
from regard.tasks.files import FilesSettings, FilesTask, guess_language

ROOT = Path(__file__).parents[2]


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Corpora in the layouts of the real ones."""
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    numbers = ["one", "two", "three", "four", "five", "six"]
    for split, count in (("train", 60), ("val", 6), ("test_2016_flickr", 5)):
        write(tmp_path, f"multi30k/{split}.en", [f"The {numbers[n % 6]} dogs see {n}." for n in range(count)])
        write(tmp_path, f"multi30k/{split}.de", [f"Die Hunde sehen {n}, viele." for n in range(count)])
    english = [f"I have {n} cats." for n in range(200)]
    write(tmp_path, "tatoeba/en-zh.txt", [])
    write(tmp_path, "cmn.txt", [f"{e}\t我有{n}只猫。\tCC" for n, e in enumerate(english)])
    write(tmp_path, "fra.txt", [f"{e}\tJ'ai {n} chats.\tCC" for n, e in enumerate(english)])
    write(tmp_path, "hansards/en-fr.src-tgt.txt", ["i have cats . ||| j' ai des chats .", "yes ! ||| oui !"])
    write(tmp_path, "hansards/en-fr.gold.txt", ["1-1 2-2 3-4 4-5 3p3", "1-1 2-2"])
    return str(tmp_path)


def write(folder, name, lines):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def make(data, **settings):
    return CorpusTask.create(CorpusSettings(**{"data": data, "size": 300, **settings}))


def test_a_corpus_has_its_own_splits(data):
    task = make(data)
    assert [len(task.encoded(split)) for split in ("train", "valid", "test")] == [60, 6, 5]
    assert task.languages == ("en", "de")
    assert task.target.decode(lists(task.encoded("test"))[3][1]) == "Die Hunde sehen 3, viele."


def test_a_joint_vocabulary_is_one_tokenizer_also_when_restored(data, tmp_path):
    task = make(data, joint=True)
    sizes = task.sizes()
    assert task.source is task.target
    assert sizes["source_vocab"] == sizes["target_vocab"]
    assert sizes["shared_vocab"] == 1
    (tmp_path / "run").mkdir()
    task.save(tmp_path / "run")
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["tokenizer.json"]
    again = CorpusTask.restore(task.settings, tmp_path / "run")
    assert again.source is again.target
    assert again.sizes() == sizes
    assert lists(again.encoded("test")) == lists(task.encoded("test"))


def test_two_vocabularies_stay_two(data, tmp_path):
    task = make(data)
    task.save(tmp_path)
    again = CorpusTask.restore(task.settings, tmp_path)
    assert task.sizes()["shared_vocab"] == again.sizes()["shared_vocab"] == 0
    assert {"source.tokenizer.json", "target.tokenizer.json"} <= {path.name for path in tmp_path.iterdir()}


def test_only_byte_pairs_can_be_joint(data):
    with pytest.raises(ConfigError, match="task: `joint` is true and `pieces` has 'words'; expected 'bpe'"):
        CorpusSettings(joint=True, pieces="words")


@pytest.mark.parametrize("pieces", ["words", "bpe"])
def test_chinese_is_cut_into_characters(data, pieces):
    task = make(data, corpus="tatoeba-en-zh", pieces=pieces)
    assert task.source.kind == pieces
    assert task.target.kind == "characters"
    assert task.target.pieces("我有猫。") == ["我", "有", "猫", "。"]


def test_text_can_be_lowercased(data):
    task = make(data, lowercase=True)
    assert task.source.decode(lists(task.encoded("test"))[0][0]) == "the one dogs see 0."
    assert task.examples("test")[0].source == "The one dogs see 0."  # what is measured against keeps its case


def test_long_sentences_are_left_out_of_training_alone(data):
    everything = make(data, pieces="characters", size=100)
    longest = int(everything.lengths("train").amax(1).min()) - 1  # of the shortest pair, eos not counted
    task = make(data, pieces="characters", size=100, longest=longest)
    assert 0 < len(task.encoded("train")) == len(task.examples("train")) < 60
    assert (task.lengths("train") <= longest + 1).all()
    assert len(task.encoded("valid")) == 6


def test_epochs_take_turns_with_cuts_that_leave_merges_out(data):
    task = make(data, bpe_dropout=0.3, bpe_samples=2)
    plain = task.encoded("train")
    texts = [task.target.decode(pair[1]) for pair in lists(plain)]
    plans = [task.plan(epoch, seed=1, batch=100) for epoch in range(3)]
    assert [{row // 60 for rows in plan for row in rows} for plan in plans] == [{1}, {2}, {1}]
    assert all(sorted(row % 60 for rows in plan for row in rows) == list(range(60)) for plan in plans)
    for cut in (1, 2):
        again = task.recut(cut)
        assert [task.target.decode(pair[1]) for pair in lists(again)] == texts
        assert again.lengths().sum() > plain.lengths().sum()
    assert lists(task.recut(1)) != lists(task.recut(2))
    rows = plans[1][0]
    batch = task.batch("train", rows)
    sources = [lists(task.recut(2))[row % 60][0] for row in rows]
    assert batch.source_lengths.tolist() == [len(source) + 1 for source in sources]
    assert batch.source[0, : len(sources[0])].tolist() == sources[0]


def test_cuts_are_the_same_in_a_restored_task_and_in_the_cache(data, tmp_path, monkeypatch):
    task = make(data, bpe_dropout=0.3)
    task.save(tmp_path)
    monkeypatch.setattr("regard.data.prepared.LARGE", 0)
    again = CorpusTask.restore(task.settings, tmp_path)
    assert lists(again.recut(3)) == lists(task.recut(3))
    assert len(list((tmp_path / "cache" / "encoded").glob("*-cut3"))) == 1


def sides(task, rows):
    """Both sides of training pairs as text."""
    batch = task.batch("train", rows)
    numbers = [
        [row[: n - 1] for row, n in zip(side.tolist(), lengths.tolist(), strict=True)]
        for side, lengths in ((batch.source, batch.source_lengths), (batch.target, batch.target_lengths))
    ]
    return [(task.source.decode(x), task.target.decode(y)) for x, y in zip(*numbers, strict=True)]


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_first_epochs_have_every_pair_both_ways_and_later_ones_have_it_once(data, dropout):
    task = make(data, joint=True, reversed_epochs=2, bpe_dropout=dropout, bpe_samples=3)
    pairs = [(example.source, example.target) for example in task.examples("train")]
    for epoch, expected in ((0, pairs + [pair[::-1] for pair in pairs]), (2, pairs)):
        plan = task.plan(epoch, seed=1, batch=300)
        found = [pair for rows in plan for pair in sides(task, rows)]
        assert sorted(found) == sorted(expected)
        for rows in plan:
            batch = task.batch("train", rows)
            assert len(rows) == 1 or batch.size * (batch.source.shape[1] + batch.target.shape[1]) <= 300
    mixed = [rows for rows in task.plan(0, seed=1, batch=300) if min(rows) < 0 <= max(rows)]
    assert mixed, "no batch holds both directions"
    assert task.plan(1, seed=1, batch=300) == make(
        data, joint=True, reversed_epochs=2, bpe_dropout=dropout, bpe_samples=3
    ).plan(1, seed=1, batch=300)


def test_a_task_that_once_learns_both_ways_is_measured_one_way(data):
    task, plain = make(data, joint=True, reversed_epochs=2), make(data, joint=True)
    assert task.plan(2, seed=1, batch=200) == plain.plan(2, seed=1, batch=200)
    for split in ("train", "valid", "test"):
        for rows in task.evaluation_plan(split, batch=200):
            assert torch.equal(task.batch(split, rows).target, plain.batch(split, rows).target)


def test_nothing_is_left_out_where_the_model_is_measured(data):
    task, plain = make(data, bpe_dropout=0.3), make(data)
    for split in ("train", "valid", "test"):
        for rows in task.evaluation_plan(split, batch=200):
            assert torch.equal(task.batch(split, rows).source, plain.batch(split, rows).source)


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"bpe_dropout": 1.0}, "task: `bpe_dropout` has 1.0; expected 0 or more, and less than 1."),
        (
            {"bpe_dropout": 0.1, "pieces": "words"},
            "task: `bpe_dropout` has 0.1 and `pieces` 'words'; expected 'bpe'.",
        ),
        ({"bpe_samples": 0}, "task: `bpe_samples` has 0; expected 1 or more."),
        (
            {"reversed_epochs": -1, "joint": True},
            "task: `reversed_epochs` has -1; expected 0 or more.",
        ),
        (
            {"reversed_epochs": 3},
            "task: `reversed_epochs` has 3 and `joint` is false; expected one vocabulary for both sides. "
            "Set task.joint=true.",
        ),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, text):
    with pytest.raises(ConfigError) as error:
        CorpusSettings(**settings)
    assert str(error.value) == text


@pytest.mark.parametrize("name", ["hansards", "multi30k-en-de-2017", "multi30k-en-fr-mscoco"])
def test_a_test_set_cannot_be_trained_on(data, name):
    with pytest.raises(
        ConfigError,
        match=rf"'{name}', a test set without training sentences.*regard evaluate RUN --on {name}",
    ):
        make(data, corpus=name)


def test_a_model_of_multi30k_is_measured_on_its_later_test_sets(data, tmp_path):
    for side, line in (("en", "The dogs see."), ("de", "Die Hunde sehen.")):
        write(tmp_path, f"multi30k/test_2018_flickr.{side}", [line])
    task = make(data)
    later = on_corpus(task, "multi30k-en-de-2018", data)
    assert [(e.source, e.target) for e in later.examples("test")] == [("The dogs see.", "Die Hunde sehen.")]
    assert later.source is task.source
    assert [e.source for e in task.examples("test")] != [e.source for e in later.examples("test")]


def test_a_corpus_of_other_languages_is_refused(data):
    with pytest.raises(DataError, match="hansards is en to fr; expected en to de, as the model was trained"):
        on_corpus(make(data), "hansards", data)


@pytest.mark.parametrize("pieces", ["words", "bpe", "characters"])
def test_given_words_are_not_cut_anew_and_every_piece_knows_its_word(data, pieces):
    task = on_corpus(make(data, corpus="tatoeba-en-fr", pieces=pieces), "hansards", data)
    example = task.examples("test")[0]
    assert (example.source, example.target) == ("i have cats.", "j'ai des chats.")
    assert example.links == ((0, 0), (1, 1), (2, 3), (3, 4))
    assert example.possible == ((2, 2),)
    encoded, owners = lists(task.encoded("test"))[0], task.owners(example)
    for numbers, own, words in zip(encoded, owners, example.words, strict=True):
        assert len(numbers) == len(own)
        assert {word for each in own for word in each} == set(range(len(words)))
        assert [each for each in own if each] == sorted(each for each in own if each)


def test_a_piece_that_two_words_share_belongs_to_both_and_a_space_to_none():
    merged = Tokenizer.train(['He said "yes!" "yes!"'] * 50, kind="bpe", size=300)
    numbers, owners = merged.encode_words(['"', "yes", "!", '"'])
    assert merged.decode(numbers) == '"yes!"'
    assert owners[-1] == (2, 3)
    letters = Tokenizer.train(["a b"], kind="characters")
    assert letters.encode_words(["a", "b"])[1] == [(0,), (), (1,)]


def test_a_given_word_is_one_piece_if_it_is_known_and_several_if_it_is_not():
    words = Tokenizer.train(["The dog's house.", "a Mr. Smith"], kind="words")
    numbers, owners = words.encode_words(["Mr.", "dog", "unknown"])
    assert owners == [(0,), (0,), (1,), (2,)]
    assert words.pieces_of(numbers[:3]) == ["Mr", ".", "dog"]
    assert numbers[3] == UNK


def test_words_are_linked_where_any_of_their_pieces_are():
    pieces = frozenset({Link(0, 0), Link(1, 2), Link(3, 3)})
    source, target = [(0,), (0,), (1,), ()], [(0,), (1,), (1, 2), (3,)]
    assert word_links(pieces, source, target) == {(0, 0), (0, 1), (0, 2)}


def test_alignments_on_hansards_count_sure_and_possible_links(data):
    torch.manual_seed(offset_seed(0))
    task = make(data, corpus="tatoeba-en-fr", pieces="words")
    sizes = {k: v for k, v in task.sizes().items() if k != "shared_vocab"}
    model = RNNsearch(
        RNNsearchConfig(**sizes, embedding=4, hidden=4, readout=4, attention=AttentionConfig("additive"))
    ).eval()
    other = on_corpus(task, "hansards", data)
    found = measure_alignment(model, other, "test")
    # 5 and 2 target words with one link each; 4 and 2 sure gold links
    assert (found.found, found.sure) == (7, 6)
    assert 0 <= found.found_sure <= found.found_possible <= 7
    assert measure_alignment(model, task, "test") is None  # no gold links
    without = Seq2Seq(Seq2SeqConfig(**sizes, embedding=4, hidden=4)).eval()
    assert measure_alignment(without, other, "test") is None  # no attention


def test_a_large_corpus_is_encoded_once_into_the_cache(data, tmp_path, monkeypatch):
    expected = lists(make(data).encoded("train"))
    monkeypatch.setattr("regard.data.prepared.LARGE", 100)
    task = make(data)
    with forks():
        assert lists(task.encoded("train")) == expected
    [folder] = (tmp_path / "cache" / "encoded").iterdir()
    before = (folder / "source.numbers").stat().st_mtime_ns
    assert lists(make(data).encoded("train")) == expected
    assert (folder / "source.numbers").stat().st_mtime_ns == before
    with forks():
        assert lists(make(data, longest=7).encoded("train")) != expected
    assert len(list((tmp_path / "cache" / "encoded").iterdir())) == 2
    write(tmp_path, "multi30k/train.de", ["Anders."] * 60)
    with forks():
        assert lists(make(data).encoded("train")) != expected


def test_files_can_be_joint_too(data):
    files = {"source": f"{data}/multi30k/train.en", "target": f"{data}/multi30k/train.de"}
    task = FilesTask.create(FilesSettings(**files, size=300, joint=True))
    assert task.sizes()["shared_vocab"] == 1


def test_two_thousand_pairs_are_enough_to_hold_out(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.data.rows.ENOUGH", 3)
    lines = [f"{n} a" for n in range(400)]
    write(tmp_path, "a.en", lines)
    task = FilesTask.create(
        FilesSettings(source=str(tmp_path / "a.en"), target=str(tmp_path / "a.en"), pieces="words")
    )
    assert [e.source for e in task.examples("valid")] == ["133 a", "267 a"]
    assert len(task.examples("train")) == 398


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("train.en", "en"),
        ("a/b/train.DE.gz", "de"),
        ("x.pt-BR", "pt"),
        ("x.cmn", "cmn"),
        ("train.txt", "und"),
        ("train", "und"),
    ],
)
def test_the_language_is_guessed_from_the_name(name, language):
    assert guess_language(name) == language


MEMORY = """
import resource, sys
from pathlib import Path
from regard.data import prepared
from regard.tasks.files import FilesSettings, FilesTask
prepared.LARGE = 1 << 16
folder, count = Path(sys.argv[1]), int(sys.argv[2])
for side in "ab":
    with (folder / f"{count}.{side}").open("w") as file:
        for n in range(count):
            file.write(f"{side}{n % 977} {side}{n % 331} {side}{n % 89} the end of {side}.\\n")
files = {"source": f"{folder}/{count}.a", "target": f"{folder}/{count}.b"}
task = FilesTask.create(FilesSettings(**files, pieces="words"))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
plan = task.plan(0, seed=1, batch=2048)
for rows in plan[:20]:
    task.batch("train", rows)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, len(task.encoded("train")))
"""


@pytest.mark.slow
def test_memory_hardly_grows_with_the_number_of_pairs(tmp_path):
    """Arrays cost some tens of bytes a pair; strings and lists of numbers would cost a thousand."""
    grown = {}
    for count in (5_000, 60_000):
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path), str(count)],
            env={"REGARD_CACHE": str(tmp_path / "cache"), "PATH": "", "OMP_NUM_THREADS": "1"},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        kilobytes, pairs = map(int, done.stdout.split())
        assert pairs == count - count // 50
        grown[count] = kilobytes
    assert (grown[60_000] - grown[5_000]) * 1024 < 200 * 55_000
