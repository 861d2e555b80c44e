"""What `regard.load` gives for each kind of run: methods that take one or many, results that can be seen."""

import html
import re

import numpy as np
import pytest
import torch
from PIL import Image

import regard
from regard.errors import ConfigError, DataError, RegardError, ShapeError
from regard.systems.caption_system import CaptionSystem
from regard.systems.entailment_system import EntailmentSystem
from regard.systems.few_shot_system import FewShotSystem
from regard.systems.language_system import LanguageSystem
from regard.systems.machine_system import MachineSystem
from regard.systems.memory_system import MemorySystem
from regard.systems.picture_system import PictureSystem
from regard.systems.pointer_system import PointerSystem
from regard.systems.translation_system import TranslationSystem

POINTS = [[0.1, 0.2], [0.9, 0.1], [0.5, 0.9], [0.4, 0.4], [0.6, 0.3], [0.2, 0.8]]
BITS = [[1, 0, 1, 0, 1, 0, 1, 0], [0, 1, 1, 0, 0, 1, 1, 0]]
STORY = "Anna took the lamp. Anna went to the garden."


def drawings(count):
    chance = np.random.default_rng(3)
    return [(chance.random((28, 28)) < 0.2).astype(np.uint8) * 255 for _ in range(count)]


def pictures(count):
    chance = np.random.default_rng(4)
    return [chance.integers(0, 256, (70, 80, 3), dtype=np.uint8) for _ in range(count)]


# recipe, class, how one is asked, how several are
CASES = [
    (
        "rnnsearch-reverse",
        TranslationSystem,
        lambda s: s.translate("a b c", beam=1),
        lambda s: s.translate(["a b c", "d e"], beam=1),
    ),
    ("pointer-hull", PointerSystem, lambda s: s.point(POINTS), lambda s: s.point([POINTS, POINTS[:5]])),
    (
        "pointer-sort",
        PointerSystem,
        lambda s: s.point([0.3, 0.1, 0.2]),
        lambda s: s.point([[0.3, 0.1, 0.2], [0.9, 0.8]]),
    ),
    ("ntm-copy", MachineSystem, lambda s: s.run(BITS), lambda s: s.run([BITS, BITS[:1]])),
    (
        "ntm-recall",
        MachineSystem,
        lambda s: s.run(torch.ones(3, 3, 6), ask=1),
        lambda s: s.run([torch.ones(3, 3, 6), torch.zeros(2, 3, 6)], ask=[1, 0]),
    ),
    (
        "memn2n-stories",
        MemorySystem,
        lambda s: s.ask(STORY, "Where is the lamp?"),
        lambda s: s.ask([STORY, "Omar went to the attic."], ["Where is the lamp?", "Where is Omar?"]),
    ),
    (
        "lstmn-sentences",
        LanguageSystem,
        lambda s: s.score("the cat sleeps ."),
        lambda s: s.score(["the cat sleeps .", "she is eating a green apple ."]),
    ),
    (
        "sat-shapes",
        CaptionSystem,
        lambda s: s.caption(pictures(1)[0]),
        lambda s: s.caption(pictures(2)),
    ),
    (
        "snail-strokes",
        FewShotSystem,
        lambda s: s.classify(drawings(5), "abcde", drawings(6)[5]),
        lambda s: s.classify(drawings(5), "abcde", drawings(7)[5:]),
    ),
    (
        "decomposable-toy",
        EntailmentSystem,
        lambda s: s.entails("w1 w2 w3", "w2 w3"),
        lambda s: s.entails(["w1 w2 w3", "w4 w5"], ["w2 w3", "-w4"]),
    ),
]
NAMES = [recipe for recipe, *_ in CASES]


def content(result):
    """What is compared: the line that a result prints, and its weights."""
    weights = result.alignment if hasattr(result, "alignment") else getattr(result, "weights", None)
    if weights is None:
        return [torch.zeros(0)]
    return list(weights) if isinstance(weights, tuple) else [weights]


@pytest.mark.parametrize(("recipe", "kind", "one", "many"), CASES, ids=NAMES)
def test_one_in_one_out_and_many_in_many_out_with_the_same_content(trained, recipe, kind, one, many):
    system = regard.load(trained(recipe), device="cpu")
    assert type(system) is kind
    alone, first = one(system), many(system)[0]
    assert len(many(system)) == 2
    assert repr(alone) == repr(first)
    for a, b in zip(content(alone), content(first), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("recipe", "kind", "one", "many"), CASES, ids=NAMES)
def test_every_result_prints_in_a_line_and_is_drawn_saved_and_framed(
    trained, tmp_path, recipe, kind, one, many
):
    result = one(regard.load(trained(recipe)))
    assert repr(result).startswith(f"<{type(result).__name__} ")
    assert "tensor(" not in repr(result)
    assert len(repr(result).splitlines()) == 1
    starts = {".png": b"\x89PNG", ".svg": b"<?xml", ".html": b"<!doctype html>"}
    for ending, start in starts.items():
        path = result.save(tmp_path / f"x{ending}")
        assert path.read_bytes().startswith(start)
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    framed = result._repr_html_()
    assert framed.startswith("<iframe srcdoc=")
    assert len(framed) < 3_000_000
    with pytest.raises(
        RegardError, match=r"\.save: `path` has the ending '.gif' .*; expected .png, .svg, .html"
    ):
        result.save(tmp_path / "x.gif")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize(("recipe", "kind", "one", "many"), CASES, ids=NAMES)
def test_other_precisions_compute_in_them(trained, recipe, kind, one, many, dtype):
    plain = one(regard.load(trained(recipe), device="cpu"))
    system = regard.load(trained(recipe), device="cpu", dtype=dtype)
    assert (system.dtype, system.device.type) == (dtype, "cpu")
    try:
        found = one(system)
    except ConfigError:
        if dtype != torch.bfloat16:
            raise
        with pytest.raises(ConfigError, match="in which this CPU cannot run a layer of the model"):
            one(system)  # oneDNN has no LSTM in half precision for every CPU
        return
    assert all(weights.isfinite().all() for weights in content(found))
    if dtype == torch.float64:
        assert repr(found) == repr(plain)
        for a, b in zip(content(found), content(plain), strict=True):
            torch.testing.assert_close(a.double(), b.double(), rtol=1e-3, atol=1e-4)


def test_a_system_says_what_it_is(trained):
    system = regard.load(trained("pointer-hull"), device="cpu")
    assert repr(system).startswith("<PointerSystem pointer-hull: pointer, ")
    assert repr(system).endswith("parameters, float32 on cpu>")


def test_a_translation_has_its_text_pieces_alignment_and_beam(trained):
    system = regard.load(trained("rnnsearch-reverse"))
    found = system.translate("a b c", beam=3, nbest=2)
    assert str(found) == found.text == found.beam[0].text
    assert len(found.beam) == 2
    assert found.alignment.shape == (len(found.pieces), len(found.source_pieces))
    assert found.source_pieces == ("a", "b", "c")


def test_a_model_without_attention_translates_and_cannot_be_drawn(trained, tmp_path):
    found = regard.load(trained("seq2seq-reverse")).translate("a b c")
    assert found.alignment is None
    with pytest.raises(RegardError, match="the model has no attention; nothing can be shown"):
        found.save(tmp_path / "x.png")
    assert found._repr_html_() == f"<p>{html.escape(repr(found))}</p>"


def test_points_come_as_lists_arrays_or_tensors_and_are_checked(trained):
    system = regard.load(trained("pointer-hull"))
    orders = [
        system.point(given).order
        for given in (POINTS, np.array(POINTS), torch.tensor(POINTS, dtype=torch.float64))
    ]
    assert orders[0] == orders[1] == orders[2]
    stacked = system.point(np.array([POINTS, POINTS]))
    assert [each.order for each in stacked] == orders[:2]
    assert system.point(POINTS).right == [0, 1, 2, 5]
    with pytest.raises(RegardError, match=r"^point: `points` has shape \(6, 1\)"):
        system.point([[x] for x, _ in POINTS])
    with pytest.raises(RegardError, match=r"^point: `points` has no rows; expected one or more\.$"):
        system.point(np.zeros((0, 2)))
    with pytest.raises(RegardError, match=r"point, set 1: point 0 has \[nan, 0.0\]"):
        system.point([POINTS, [[float("nan"), 0.0]] * 5])


def test_a_machine_copies_the_bits_it_is_given_and_counts_its_mistakes(trained):
    system = regard.load(trained("ntm-copy"))
    found = system.run(BITS)
    assert found.right.tolist() == BITS
    assert found.bits.shape == (2, 8)
    assert found.wrong == int((found.bits != torch.tensor(BITS)).sum())
    assert len(system.example(7).right) == 7
    with pytest.raises(ShapeError, match=r"run: `bits` has shape \(2, 3\); expected \(L, 8\)"):
        system.run([[1, 0, 1], [0, 0, 1]])
    with pytest.raises(RegardError, match="numbers other than 0 and 1"):
        system.run([[2] * 8])


def test_a_machine_recalls_the_item_after_the_one_it_is_asked_for(trained):
    items = torch.zeros(3, 3, 6)
    items[2] = 1
    found = regard.load(trained("ntm-recall")).run(items, ask=1)
    assert found.right.tolist() == items[2].long().tolist()
    with pytest.raises(RegardError, match="`ask` has 2; expected 0 to 1: an item with a next one"):
        regard.load(trained("ntm-recall")).run(items, ask=2)


def test_a_machine_whose_task_makes_its_own_inputs_shows_examples_only(trained):
    system = regard.load(trained("ntm-sort"))
    assert system.example().right.shape == (16, 8)
    with pytest.raises(RegardError, match="the task is 'priority-sort', which makes its own inputs"):
        system.run(BITS)


def test_a_story_is_a_text_or_sentences_and_may_have_several_questions(trained):
    system = regard.load(trained("memn2n-stories"))
    text = system.ask(STORY, "Where is the lamp?")
    listed = system.ask(["Anna took the lamp.", "Anna went to the garden."], "Where is the lamp?")
    assert repr(text) == repr(listed)
    both = system.ask(STORY, ["Where is the lamp?", "Where is Anna?"])
    assert [each.question for each in both] == ["Where is the lamp?", "Where is Anna?"]
    assert text.weights.shape == (3, 2)
    with pytest.raises(RegardError, match="ask: `story` has 1 entries and `question` 2; expected as many"):
        system.ask([STORY], ["Where is the lamp?", "Where is Anna?"])


def test_a_sentence_is_scored_as_the_task_does_and_the_next_words_are_probabilities(trained):
    system = regard.load(trained("lstmn-sentences"), device="cpu")
    text = "the cat sleeps ."
    words, batch = system.task.read(text)
    with torch.no_grad():
        loss = system.task.loss(system.trained.model, batch)
    found = system.score(text)
    assert found.words == tuple(words)
    assert found.log_probability == pytest.approx(-float(loss.total), rel=1e-4)
    assert found.weights.shape == (len(words) + 1, len(words) + 1)
    size = len(system.task.words)
    assert sum(p for _, p in system.next("the cat", count=size)) == pytest.approx(1, abs=1e-4)
    assert len(system.next()) == 5


def test_an_ink_drawing_is_the_same_on_white_and_on_black_ground(trained):
    system = regard.load(trained("snail-strokes"))
    bright = system.classify(drawings(5), range(5), drawings(6)[5])
    dark = system.classify([255 - each for each in drawings(5)], range(5), 255 - drawings(6)[5])
    assert bright.probabilities == dark.probabilities
    assert bright.label in "01234"
    assert sum(bright.probabilities.values()) == pytest.approx(1, abs=1e-5)
    with pytest.raises(RegardError, match="`labels` has 5 labels of 4 classes; expected 5 classes"):
        system.classify(drawings(5), "abcdd", drawings(1)[0])


def test_a_generator_draws_the_same_for_one_seed_and_in_the_classes_asked_for(trained, tmp_path):
    system = regard.load(trained("sagan-shapes"))
    assert type(system) is PictureSystem
    found = system.sample(5, classes=["circle", "cross"], seed=7)
    assert found.labels == ("circle", "cross", "circle", "cross", "circle")
    assert found.pictures.shape == (5, 16, 16, 3)
    assert (found.pictures == system.sample(5, classes=["circle", "cross"], seed=7).pictures).all()
    assert found.save(tmp_path / "x.html").stat().st_size > 1000
    with pytest.raises(RegardError, match="`classes` has 'dog'"):
        system.sample(1, classes=["dog"])
    assert system.sample(2).pictures.dtype == torch.uint8
    regard.load(trained("sagan-shapes"), dtype=torch.bfloat16).sample(2)


def test_words_that_are_filled_up_in_a_batch_do_not_reach_the_weights(trained):
    system = regard.load(trained("decomposable-toy"))
    long, short = system.entails(["w1 w2 w3 w4", "w5"], ["w2 w3 w9", "w5"])
    assert [tuple(each.shape) for each in long.weights] == [(5, 4), (4, 5)]
    assert [tuple(each.shape) for each in short.weights] == [(2, 2), (2, 2)]
    assert sum(short.probabilities.values()) == pytest.approx(1, abs=1e-5)


def test_a_given_translation_is_aligned_as_the_models_own():
    system = regard.load("demo-rnnsearch", device="cpu")
    own = system.translate("The cat sleeps.")
    given = system.align("The cat sleeps.", own.text)
    assert given.text == own.text
    assert given.pieces == own.pieces
    assert torch.allclose(given.alignment, own.alignment, atol=1e-5)
    assert given.best.log_probability == pytest.approx(own.best.log_probability, abs=1e-4)
    several = system.align(["The cat sleeps.", "", "A cat."], ["Le chat dort.", "x", "Un zyzzyva."])
    assert [len(each.pieces) for each in several] == [4, 0, 3]
    assert several[2].pieces[1] == "zyzzyva"
    with pytest.raises(DataError, match="expected as many"):
        system.align(["a", "b"], ["c"])


def test_every_head_of_a_transformer_is_there_and_its_last_layer_is_the_alignment():
    system = regard.load("en-fr", device="cpu")
    assert system.layers == {"encoder": 4, "decoder": 4, "heads": 4}
    found = system.heads("A green apple.", "Une pomme verte.")
    S, T = len(found.source), len(found.target)
    assert found.encoder.shape == (4, 4, S, S)
    assert found.decoder.shape == (4, 4, T, T)
    assert found.cross.shape == (4, 4, T, S)
    assert len(found.read) == T
    own = system.align("A green apple.", "Une pomme verte.").alignment
    assert torch.allclose(found.cross[-1].mean(0)[:-1, :-1], own, atol=1e-5)
    recurrent = regard.load("demo-rnnsearch", device="cpu")
    assert recurrent.layers is None
    with pytest.raises(DataError, match="expected 'transformer'"):
        recurrent.heads("A cat.")


def test_the_tree_of_a_beam_ends_in_its_hypotheses():
    system = regard.load("demo-rnnsearch", device="cpu")
    tree = system.tree("She is eating an apple.", beam=4)
    beam = system.translate("She is eating an apple.", beam=4, nbest=4).beam
    for way, hypothesis in zip(tree.hypotheses, beam, strict=True):
        assert [tree.pieces[n] for n in way] == [*hypothesis.pieces, "<eos>"]
        assert tree.nodes[way[-1]].log_probability == pytest.approx(hypothesis.log_probability, abs=1e-4)
    assert all(sum(node.step == step for node in tree.nodes) <= 4 for step in range(8))
    assert system.tree("").nodes == ()


@pytest.mark.parametrize("name", ["ntm-copy", "ntm-recall"])
def test_the_stages_of_addressing_end_in_the_weights_of_the_tape(name):
    system = regard.load(name, device="cpu")
    run = system.example()
    stages = system.stages(run)
    weights = torch.cat([run.tape.read_weights[0], run.tape.write_weights[0]], 1)
    assert torch.allclose(stages.sharpened, weights, atol=1e-6)
    assert torch.allclose(stages.content.sum(-1), torch.ones(()), atol=1e-4)
    R = run.tape.read_weights.shape[2]
    reads = torch.einsum("trn,tnm->trm", stages.sharpened[:, :R], stages.cells)
    assert torch.allclose(reads, run.tape.reads[0], atol=1e-5)


def test_sampled_pictures_have_maps_when_asked():
    system = regard.load("sagan-shapes", device="cpu")
    assert system.sample(2).weights is None
    found = system.sample(3, maps=2)
    assert found.weights.shape[0] == 2
    assert torch.allclose(found.weights.sum(-1), torch.ones(()), atol=1e-4)
    assert (found.pictures == system.sample(3).pictures).all()


def test_a_precision_can_be_named_and_what_is_none_is_refused():
    assert regard.load("stories", device="cpu", dtype="float64").dtype == torch.float64
    for wrong, said in (
        ("int8", "torch.int8"),
        ("float7", "float7"),
        (torch.float8_e5m2, "torch.float8_e5m2"),
    ):
        with pytest.raises(ConfigError) as caught:
            regard.load("stories", dtype=wrong)
        expected = "expected one of float32, float64, bfloat16, float16."
        assert str(caught.value) == f"load: `dtype` has {said}; {expected}"


@pytest.mark.parametrize("device", ["cuda:0", "gpu", "float16", "", "meta"])
def test_a_device_that_is_not_there_is_named(monkeypatch, device):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    said = rf"^load: `device` has {device}, which PyTorch does not find here; expected cpu\.$"
    with pytest.raises(ConfigError, match=said):
        regard.load("stories", device=device)


@pytest.mark.parametrize("text", [" ", "\n", " \t\r\n", " " * 5000])
def test_a_blank_text_has_an_empty_translation(text):
    system = regard.load("en-fr", device="cpu")
    assert system.translate(text).text == ""
    assert system.align(text, "x").pieces == ()
    assert system.heads(text, "x").source == ("<eos>",)
    assert system.tree(text).nodes == ()


@pytest.mark.parametrize("text", [" The cat sleeps.", "The cat sleeps.\r\n", "\tThe cat\nsleeps. "])
def test_spaces_and_line_breaks_that_no_training_line_has_change_no_translation(text):
    system = regard.load("en-fr", device="cpu")
    plain, found = system.translate(["The cat sleeps.", text], beam=1)
    assert found.text == plain.text
    assert found.source_pieces == plain.source_pieces
    assert found.source == text
    aligned, same = system.align(["The cat sleeps.", text], [plain.text] * 2)
    assert same.source_pieces == aligned.source_pieces == plain.source_pieces


def test_a_long_text_is_translated_by_sentences_and_one_without_an_end_is_refused():
    system = regard.load("demo-rnnsearch", device="cpu")
    once = system.translate("The cat sleeps.", beam=1)
    found = system.translate("The cat sleeps. " * 101, beam=1)
    assert found.text == " ".join([once.text] * 101)
    with pytest.raises(DataError, match=r"^translate: text 1 has 500 pieces, 500 of them in one sentence"):
        system.translate(["The cat.", "cat " * 500])


@pytest.mark.parametrize(
    ("name", "call", "said"),
    [
        (
            "demo-rnnsearch",
            lambda s: s.translate(None),
            "translate: `text` has None; expected text, or a list",
        ),
        ("demo-rnnsearch", lambda s: s.translate(["a", 5]), "translate: `text` has 5; expected text"),
        ("demo-rnnsearch", lambda s: s.translate(b"a"), "translate: `text` has a bytes; expected text"),
        (
            "demo-rnnsearch",
            lambda s: s.translate("caf\udce9"),
            r"translate: 'caf\udce9' is not UTF-8; expected",
        ),
        ("demo-rnnsearch", lambda s: s.align("a", None), "align: `target` has None; expected text"),
        (
            "demo-rnnsearch",
            lambda s: s.translate("a", beam="5"),
            "TranslationSystem: `beam` has '5'; expected a",
        ),
        (
            "demo-rnnsearch",
            lambda s: s.translate("a", beam=2.5),
            "TranslationSystem: `beam` has 2.5; expected a",
        ),
        (
            "demo-rnnsearch",
            lambda s: s.translate("a", nbest=0),
            "TranslationSystem: `nbest` has 0; expected 1",
        ),
        ("stories", lambda s: s.ask(STORY, None), "ask: `question` has None; expected text"),
        ("stories", lambda s: s.ask(None, "Where?"), "ask: `story` has None; expected text"),
        ("entailment", lambda s: s.entails(None, "w1"), "entails: `premise` has None; expected text"),
        ("lstmn", lambda s: s.score(5), "score: `text` has 5; expected text"),
        ("lstmn", lambda s: s.next("The", -1), "next: `count` has -1; expected 1 or more"),
        ("sagan-shapes", lambda s: s.sample(2.5), "sample: `count` has 2.5; expected a whole number"),
        ("hull", lambda s: s.point("abc"), "point: `points` cannot be read as numbers"),
        ("hull", lambda s: s.point([["0.1", "0.2"]] * 5), "point: `points` cannot be read as numbers"),
        ("hull", lambda s: s.point(np.ones((5, 2)) * 1j), "point: `points` cannot be read as numbers"),
        (
            "ntm-copy",
            lambda s: s.run([0, 1, 0, 1, 0, 1, 0, 1]),
            "run: `bits` has shape (8,); expected (L, 8)",
        ),
        ("ntm-copy", lambda s: s.run(["0101"]), "run: `bits` cannot be read as rows of numbers, all of one"),
        (
            "ntm-copy",
            lambda s: s.run(None),
            "run: `bits` cannot be read as rows of numbers, all of one length",
        ),
        ("ntm-copy", lambda s: s.example(0), "example: `length` has 0; expected 1 or more"),
        ("ntm-copy", lambda s: s.example("5"), "example: `length` has '5'; expected a whole number"),
        (
            "ntm-copy",
            lambda s: s.example(1, 2),
            "example: `shape` has 2 entries and `units` 1; expected as many",
        ),
        (
            "ntm-recall",
            lambda s: s.run(torch.ones(1, 3, 6)),
            "has shape (1, 3, 6); expected (K, 3, 6) of two",
        ),
        ("ntm-recall", lambda s: s.run(torch.ones(3, 3, 6), ask="1"), "run: `ask` has '1'; expected a whole"),
        (
            "ntm-recall",
            lambda s: s.run([torch.ones(3, 3, 6)], ask=[0, 1]),
            "run: `ask` has 2 entries and `bits`",
        ),
        (
            "shapes-captions",
            lambda s: s.caption(None),
            "a picture has NoneType, which cannot be read as numbers; expected a file, a Pillow image, an",
        ),
        (
            "shapes-captions",
            lambda s: s.caption(np.zeros((0, 48, 3), "u1")),
            "caption: `picture`: has 48 × 0 pix",
        ),
        (
            "snail-omniglot",
            lambda s: s.classify(drawings(1), "a", drawings(1)[0]),
            "5 classes with one drawing each",
        ),
    ],
)
def test_what_no_system_can_read_is_refused_in_a_sentence(name, call, said):
    with pytest.raises(RegardError, match=re.escape(said)):
        call(regard.load(name, device="cpu"))


def test_a_pillow_picture_is_described_as_the_file_it_was_read_from(tmp_path):
    system = regard.load("shapes-captions", device="cpu")
    shapes = np.dstack([system.example(3), np.full((48, 48), 255, np.uint8)])
    shapes[:8, :, 3] = 0  # black and clear, which lies on white
    Image.fromarray(shapes).save(tmp_path / "clear.png")
    as_file = system.caption(tmp_path / "clear.png")
    as_image = system.caption(Image.open(tmp_path / "clear.png"))
    assert (as_image.picture == as_file.picture).all()
