"""Public corpora: found in every layout, split without leaks, fetched where they are not there."""

import gzip
import hashlib
import io
import tarfile
import threading
import zipfile
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from regard.data import corpora
from regard.data.corpora import CORPORA, PublicFile, find_corpus
from regard.data.fetch import fetch
from regard.data.parallel import Example
from regard.errors import ConfigError, DataError

GREEK = [f"Sentence {n} has {n * n} words." for n in range(400)]


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """No folder of this machine, and no network."""
    monkeypatch.delenv("REGARD_DATA", raising=False)
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))

    def refuse(url, path, *, sha256):
        raise DataError(f"{url}: the network cannot be reached; put the file at {path}.")

    monkeypatch.setattr(corpora, "fetch", refuse)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


@pytest.mark.parametrize(
    "layout",
    [
        "multi30k/{}.gz",
        "multi30k/{}",
        "data/task1/raw/{}.gz",
        "dataset/data/task1/raw/{}.gz",
        "multi30k-dataset/data/task1/raw/{}.gz",
        "{}.gz",
    ],
)
def test_captions_are_found_in_every_layout(tmp_path, layout):
    for name, text in (("val.en", "A dog.\nTwo men.\n"), ("val.de", "Ein Hund.\nZwei Männer.\n")):
        write(tmp_path / "data" / layout.format(name), text)
    found = list(find_corpus("multi30k-en-de").stream("valid", str(tmp_path / "data")))
    assert found == [Example("A dog.", "Ein Hund."), Example("Two men.", "Zwei Männer.")]


def test_the_data_folder_may_come_from_the_environment_or_the_cache(tmp_path, monkeypatch):
    corpus = find_corpus("multi30k-en-fr")
    for name in ("train.en", "train.fr"):
        write(tmp_path / "cache" / "data" / "multi30k" / name, "kept\n")
    assert list(corpus.stream("train")) == [Example("kept", "kept")]
    for name in ("train.en", "train.fr"):
        write(tmp_path / "mine" / "multi30k" / name, "mine\n")
    monkeypatch.setenv("REGARD_DATA", str(tmp_path / "mine"))
    assert list(corpus.stream("train")) == [Example("mine", "mine")]


def tatoeba(tmp_path, form):
    lines = []
    for n, english in enumerate(GREEK):
        lines += [f"{english}\tPhrase {n}.\tCC-BY 2.0", f"{english.upper()}\tAutre {n}.\tCC-BY 2.0"]
    text = "\n".join(lines) + "\n"
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "fra-eng.zip", "w") as packed:
            packed.writestr("_about.txt", "About.")
            packed.writestr("fra.txt", text)
    else:
        write(tmp_path / {"gz": "tatoeba/en-fr.txt.gz", "plain": "fra.txt"}[form], text)
    corpus = find_corpus("tatoeba-en-fr")
    return {split: list(corpus.stream(split, str(tmp_path))) for split in ("train", "valid", "test")}


@pytest.mark.parametrize("form", ["zip", "gz", "plain"])
def test_no_english_sentence_of_tatoeba_is_in_two_splits(tmp_path, form):
    splits = tatoeba(tmp_path, form)
    keys = {split: {pair.source.lower() for pair in pairs} for split, pairs in splits.items()}
    for one, other in (("train", "test"), ("train", "valid"), ("valid", "test")):
        assert keys[one].isdisjoint(keys[other])
    assert sum(map(len, keys.values())) == len(GREEK)
    assert len(splits["train"]) == 2 * len(keys["train"])  # all translations are trained on
    for split in ("valid", "test"):
        assert 2 <= len(splits[split]) == len(keys[split]) <= 20  # one is asked for; 2 % of 400 are 8


def test_the_split_of_a_sentence_does_not_change_and_the_attribution_is_left_out(tmp_path):
    splits = tatoeba(tmp_path, "plain")
    assert all("CC-BY" not in pair.target for pairs in splits.values() for pair in pairs)
    english = GREEK[0]
    key = "".join(c for c in english.lower() if c.isalnum())
    number = int(hashlib.sha256(key.encode()).hexdigest()[:16], 16) % 1000
    expected = "valid" if number < 20 else "test" if number < 40 else "train"
    assert english in {pair.source for pair in splits[expected]}


HANSARDS = Example(
    "the house", "la maison", ((0, 0), (1, 1)), ((0, 1),), (("the", "house"), ("la", "maison"))
)


def test_hansards_is_read_from_bars(tmp_path):
    write(tmp_path / "hansards" / "en-fr.src-tgt.txt", "the house   ||| la maison  \n")
    write(tmp_path / "hansards" / "en-fr.gold.txt", "1-1 2-2 1p2\n")
    assert list(find_corpus("hansards").stream("test", str(tmp_path))) == [HANSARDS]
    assert list(find_corpus("hansards").stream("train", str(tmp_path))) == []


@pytest.mark.parametrize("packed", [True, False])
def test_hansards_is_read_from_the_shared_tasks_archive(tmp_path, packed):
    files = {
        "test/test.e": "<s snum=0001> the house </s>\n<s snum=0002> été </s>\n",
        "test/test.f": "<s snum=0001> la maison </s>\n<s snum=0002> été </s>\n",
        "answers/test.wa.nonullalign": "0001 1 1 S\n0001 2 2 S\n0001 1 2 P\n0002 1 1\n",
    }
    if packed:
        with tarfile.open(tmp_path / "English-French.test.tar.gz", "w:gz") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(f"English-French/{name}")
                data = text.encode("latin-1")
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
    else:
        for name, text in files.items():
            write(tmp_path / "English-French" / name, text)
    first, second = find_corpus("hansards").stream("test", str(tmp_path))
    assert first == HANSARDS
    assert second == Example("été", "été", ((0, 0),), (), (("été",), ("été",)))


@pytest.mark.parametrize(
    ("text", "gold", "message"),
    [
        ("the house la maison", "1-1", r"pair 1 has no `\|\|\|` between its sides; expected one"),
        ("the ||| la maison", "2-1", "a link joins words 2 and 1 of `the`, which has 1 words and .* 2"),
        ("the ||| la", "1:1", "Pharaoh: line 1 has '1:1'; expected links such as"),
        ("the ||| la", "0-1", "Pharaoh: line 1 has '0-1'; expected positions from 1"),
    ],
)
def test_links_that_do_not_fit_are_told(tmp_path, text, gold, message):
    write(tmp_path / "hansards" / "en-fr.src-tgt.txt", text + "\n")
    write(tmp_path / "hansards" / "en-fr.gold.txt", gold + "\n")
    with pytest.raises(DataError, match=message):
        list(find_corpus("hansards").stream("test", str(tmp_path)))


def test_a_broken_archive_is_named(tmp_path):
    (tmp_path / "fra-eng.zip").write_bytes(b"no zip")
    with pytest.raises(DataError, match=r"fra-eng\.zip: not a complete zip file"):
        list(find_corpus("tatoeba-en-fr").stream("train", str(tmp_path)))
    (tmp_path / "English-French.test.tar.gz").write_bytes(b"no tar")
    with pytest.raises(DataError, match=r"test/test\.e cannot be read; expected the archive"):
        list(find_corpus("hansards").stream("test", str(tmp_path)))


def test_an_archive_with_a_password_is_refused(tmp_path):
    path = tmp_path / "fra-eng.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("fra.txt", "Run!\tCours !\n")
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.find(mark) + place] |= 1  # the flag of encryption, in both headers
    path.write_bytes(content)
    with pytest.raises(
        DataError, match=r"fra-eng\.zip: cannot be read \(.*encrypted.*\); expected a zip file"
    ):
        list(find_corpus("tatoeba-en-fr").stream("train", str(tmp_path)))


def test_a_line_without_english_is_left_out(tmp_path):
    write(tmp_path / "fra.txt", "\tBonjour.\tCC-BY\n" + "".join(f"Run {n}.\tCours {n}.\n" for n in range(9)))
    found = list(find_corpus("tatoeba-en-fr").stream("train", str(tmp_path)))
    assert found
    assert all(pair.source.startswith("Run") for pair in found)


def test_an_unknown_corpus_is_answered_with_those_there_are():
    with pytest.raises(ConfigError, match="unknown corpus 'multi30k-de'; known: multi30k-en-de, "):
        find_corpus("multi30k-de")


def test_a_data_folder_that_does_not_exist_is_told(tmp_path):
    with pytest.raises(
        DataError, match=r"the data folder .*nowhere does not exist; expected one with multi30k/val\.en\.gz"
    ):
        list(find_corpus("multi30k-en-de").stream("valid", str(tmp_path / "nowhere")))


def test_what_is_not_there_and_cannot_be_fetched_is_told_with_its_licence(tmp_path, caplog):
    with pytest.raises(
        DataError, match=r"was not found, and the download failed\. .*--data.* or REGARD_DATA"
    ) as told:
        list(find_corpus("multi30k-en-de").stream("valid", str(tmp_path)))
    assert f"{tmp_path}/multi30k/val.en.gz, {tmp_path}/cache/data/multi30k/val.en.gz" in str(told.value)
    assert "licence: captions of Flickr30k and their translations: research and education" in caplog.text


def test_a_fetched_file_is_kept_where_it_is_looked_for(tmp_path, monkeypatch):
    def deliver(url, path, *, sha256):
        write(path, f"{url.rpartition('/')[2]} {sha256[:4]}\n")

    monkeypatch.setattr(corpora, "fetch", deliver)
    corpus = find_corpus("multi30k-en-de")
    assert list(corpus.stream("valid")) == [Example("val.en.gz 14f7", "val.de.gz f0cb")]
    assert (tmp_path / "cache" / "data" / "multi30k" / "val.de.gz").exists()
    monkeypatch.setattr(corpora, "fetch", None)  # the second time nothing is fetched
    assert len(list(corpus.stream("valid"))) == 1


class Home(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize(
    ("later", "name"),
    [("2017", "test_2017_flickr"), ("2018", "test_2018_flickr"), ("mscoco", "test_2017_mscoco")],
)
def test_later_test_sets_of_multi30k_are_fetched_like_the_rest(tmp_path, monkeypatch, later, name):
    write(tmp_path / "home" / f"{name}.en.gz", "A cat.\nA boat.\n")
    write(tmp_path / "home" / f"{name}.fr.gz", "Un chat.\nUn bateau.\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Home, directory=str(tmp_path / "home")))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        monkeypatch.setattr(corpora, "fetch", fetch)
        monkeypatch.setattr(corpora, "_RAW", f"http://127.0.0.1:{server.server_address[1]}")
        corpus = corpora._multi30k("fr", later)
        found = list(corpus.stream("test", str(tmp_path)))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    assert found == [Example("A cat.", "Un chat."), Example("A boat.", "Un bateau.")]
    assert (tmp_path / "multi30k" / f"{name}.fr.gz").exists()
    assert list(corpus.stream("train", str(tmp_path))) == []
    named = find_corpus(f"multi30k-en-fr-{later}")
    assert list(named.stream("test", str(tmp_path))) == found  # found in the folder, not fetched again
    assert [file.url.rpartition("/")[2] for file in named.files["test"]] == [f"{name}.en.gz", f"{name}.fr.gz"]


def test_every_file_has_a_home_and_digests_where_the_home_is_steady():
    files: set[PublicFile] = {
        f for corpus in CORPORA.values() for part in corpus.files.values() for f in part
    }
    assert all(file.url.startswith("http") for file in files)
    checked = {file.path for file in files if file.sha256 is not None}
    first = ("multi30k/train.", "multi30k/val.", "multi30k/test_2016_flickr.")
    assert checked == {file.path for file in files if file.path.startswith(first)}
    assert all(len(file.sha256) == 64 for file in files if file.sha256 is not None)
