"""The Transformer in CTranslate2: the same log-probabilities, words, alignments and quality as ours."""

import json

import pytest
import torch
from seeds import offset_seed

from regard.data.batches import pair_batch
from regard.data.tokens import SPECIAL
from regard.decode.base import GREEDY, Decoding, PowerPenalty
from regard.decode.beam import beam_search
from regard.decode.forced import forced
from regard.decode.greedy import greedy
from regard.decode.translator import Translator
from regard.errors import ConfigError, DataError
from regard.evaluate.text import score_text
from regard.export.base import read_export
from regard.export.ctranslate2 import checked, save
from regard.export.formats import export_run, open_export
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.transformer import Transformer, TransformerConfig
from regard.train.config import load_recipe
from regard.train.fields import with_defaults
from regard.train.loop import fit
from regard.train.progress import Quiet
from regard.train.run import create, open_run

V = 37
PIECES = [*SPECIAL, *(f"w{n}" for n in range(len(SPECIAL), V))]
NUMBERS = {piece: number for number, piece in enumerate(PIECES)}
NEVER = [["<pad>"], ["<bos>"]]


def transformer(**settings):
    torch.manual_seed(offset_seed(3))
    config = TransformerConfig(
        **{"source_vocab": V, "target_vocab": V, "size": "tiny", "d_model": 24, "d_ff": 40} | settings
    )
    model = Transformer(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # gains and biases away from 1 and 0
            parameter += 0.1 * torch.randn_like(parameter)
    return model


def engine_of(model, folder):
    import ctranslate2  # an optional package: reading this file does not need it

    save(model, PIECES, PIECES, folder)
    return ctranslate2.Translator(str(folder), intra_threads=1)


def rows(*lengths):
    generator = torch.Generator().manual_seed(offset_seed(5))
    return [torch.randint(4, V, (n,), generator=generator).tolist() for n in lengths]


def spelled(numbers):
    return [[PIECES[n] for n in row] for row in numbers]


@pytest.mark.parametrize("tied", ["all", "target", "none"])
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_given_targets_have_the_same_log_probabilities(norm, tied, tmp_path):
    model = transformer(norm=norm, tied=tied)
    sources, targets = rows(3, 7, 1, 12), rows(4, 2, 9, 6)
    ours = forced(model, pair_batch(sources, targets), attention=False)
    theirs = engine_of(model, tmp_path).score_batch(spelled(sources), spelled(targets))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine.log_probabilities, torch.tensor(other.log_probs), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"norm": "pre"},
        {"positions": "learned", "longest": 40},
        {"positions": "none"},
        {"layers": 1, "decoder_layers": 3},
    ],
    ids=str,
)
def test_greedy_decoding_writes_the_same_words(settings, tmp_path):
    model = transformer(**settings)
    sources = rows(3, 7, 1, 12)
    ours = greedy(model, pair_batch(sources, [[]] * 4), maximum=20)
    theirs = engine_of(model, tmp_path).translate_batch(
        spelled(sources), beam_size=1, max_decoding_length=20, min_decoding_length=0, suppress_sequences=NEVER
    )
    for source, mine, other in zip(sources, ours, theirs, strict=True):
        found = [NUMBERS[piece] for piece in other.hypotheses[0]]
        pairs = zip(mine.tokens, found, strict=False)
        first = next((t for t, (a, b) in enumerate(pairs) if a != b), None)
        if first is None:
            assert len(mine.tokens) == len(found)
        else:  # from a tie on the words differ
            ends = [[*mine.tokens[: first + 1]], found[: first + 1]]
            assert_tie(model, source, ends)


def assert_tie(model, source, targets):
    """Both are as probable, up to the rounding of their log-probabilities."""
    batch = pair_batch([source] * len(targets), targets)
    found = [
        each.log_probabilities[: len(t)].sum() for each, t in zip(forced(model, batch), targets, strict=True)
    ]
    torch.testing.assert_close(found[0], found[1], atol=1e-4, rtol=0)


def test_a_beam_of_given_length_writes_the_same_words(tmp_path):
    """Where no hypothesis can end early, the two searches are one algorithm."""
    model = transformer()
    with torch.no_grad():
        model.W.weight = torch.nn.Parameter(model.W.weight.clone())
        # CTranslate2 leaves out of the sum what may not be written, here pad, bos and eos; we do not. So they
        # have no share in it
        last = model.decoder.layers[-1].around_feed_forward.norm
        last.weight[0], last.bias[0] = 0.0, 1.0
        model.W.weight[:, 0] = 0.0
        model.W.weight[:3] = 0.0
        model.W.weight[:3, 0] = -50.0
    sources = rows(5, 8, 8, 11)
    ours = beam_search(
        model, pair_batch(sources, [[]] * 4), width=4, maximum=9, minimum=9, penalty=PowerPenalty(0.0)
    )
    theirs = engine_of(model, tmp_path).translate_batch(
        spelled(sources), beam_size=4, max_decoding_length=9, min_decoding_length=9, length_penalty=0,
        suppress_sequences=NEVER,
    )  # fmt: skip
    for source, [mine], other in zip(sources, ours, theirs, strict=True):
        found = [NUMBERS[piece] for piece in other.hypotheses[0]]
        if found != [*mine.tokens]:
            assert_tie(model, source, [[*mine.tokens], found])


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A Transformer that has nearly learnt to write backwards."""
    folder = tmp_path_factory.mktemp("reverse") / "run"
    small = ["model.layers=1", "model.d_model=48", "model.norm=pre", "task.symbols=6", "task.shortest=3"]
    small += ["task.longest=6", "task.valid=16", "task.test=200", "train.steps=250", "train.lr=0.005"]
    small += ["train.batch=800", "train.warmup=30", "train.checkpoint_every=250", "train.threads=1"]
    config = load_recipe("transformer-reverse", small)
    fit(*create(config), config, run=folder, progress=Quiet())
    return open_run(folder, device="cpu")


@pytest.fixture(scope="module")
def exported(run):
    return export_run(run, "ctranslate2")


def test_a_folder_alone_translates_as_the_run_does(run, exported, tmp_path):
    moved = exported.rename(tmp_path / "elsewhere")
    _, theirs = open_export(moved)
    moved.rename(exported)
    ours = Translator(run.model, run.task.source, run.task.target)
    texts = [example.source for example in run.task.examples("test")]
    texts[3] = ""
    for decoding in (GREEDY, Decoding(beam=4)):
        a, b = (
            [each[0].text for each in one.translate(texts, decoding, attention=False)]
            for one in (ours, theirs)
        )
        references = [example.target for example in run.task.examples("test")]
        quality = [score_text(each, references, language="symbols").bleu for each in (a, b)]
        assert quality[0] > 60, "nothing is compared where nothing was learnt"
        assert abs(quality[0] - quality[1]) < 0.1
        assert b[3] == ""
        if decoding.beam == 1:
            assert a == b


def test_alignments_are_the_mean_over_the_heads_as_ours(run, exported):
    _, theirs = open_export(exported)
    ours = Translator(run.model, run.task.source, run.task.target)
    for text in [example.source for example in run.task.examples("test")[:4]]:
        [[a]], [[b]] = ours.translate([text]), theirs.translate([text])
        assert a.pieces == b.pieces
        torch.testing.assert_close(a.weights, b.weights, atol=1e-4, rtol=0)
    together = theirs.translate(
        [example.source for example in run.task.examples("test")[:4]], Decoding(beam=3)
    )
    assert all(each.weights is not None for [each] in together)


def test_log_probabilities_and_scores_are_those_of_our_penalty(run, exported):
    """But for what the model gives to pad and bos, which CTranslate2 does not count."""
    _, theirs = open_export(exported)
    ours = Translator(run.model, run.task.source, run.task.target)
    texts = [example.source for example in run.task.examples("test")[:8]]
    decoding = Decoding(beam=3, nbest=2)
    pairs = [
        (a, b)
        for both in zip(theirs.translate(texts, decoding), ours.translate(texts, decoding), strict=True)
        for a, b in zip(*both, strict=True)
        if a.text == b.text  # our search finds a better second at times
    ]
    assert len(pairs) >= 12
    for a, b in pairs:
        assert a.log_probability == pytest.approx(b.log_probability, abs=0.05)
        assert a.score == pytest.approx(b.score, abs=0.05)
        assert a.finished == b.finished


@pytest.mark.parametrize(
    ("name", "has", "expected"),
    [
        ("attention.score", "dot", "'scaled-dot'"),
        ("attention.normalizer", "sparsemax", "'softmax'"),
        ("norm_kind", "batch", "'layer'"),
        ("restricted", 3, "0"),
    ],
)
def test_what_ctranslate2_does_not_compute_is_refused(name, has, expected):
    with pytest.raises(ConfigError) as error:
        checked(transformer(**with_defaults(TransformerConfig, {name: has})))
    assert str(error.value) == (
        f"export to ctranslate2: `{name}` has {has!r}; expected {expected}, which is all that CTranslate2 "
        "computes."
    )


def test_heads_that_do_not_share_the_width_are_refused():
    with pytest.raises(ConfigError) as error:
        checked(transformer(d_k=8))
    assert str(error.value) == "export to ctranslate2: `d_k` has 8; expected d_model / heads = 6."


def test_a_recurrent_model_is_refused():
    model = Seq2Seq(Seq2SeqConfig(source_vocab=9, target_vocab=9, embedding=4, hidden=4, layers=1))
    with pytest.raises(ConfigError) as error:
        checked(model)
    assert str(error.value) == (
        "export to ctranslate2: the model is Seq2Seq; expected Transformer. "
        "`--to onnx` takes luong and rnnsearch too."
    )


def test_a_sentence_beyond_the_positions_is_refused(exported):
    record = json.loads((exported / "export.json").read_text())
    assert record["longest"] == 2048
    _, translator = open_export(exported)
    with pytest.raises(
        DataError, match="a sentence has 2101 pieces, including its end; expected at most 2048"
    ):
        translator.translate(["a " * 2100])


def test_a_damaged_record_is_told(exported, tmp_path):
    (tmp_path / "export.json").write_text("{")
    with pytest.raises(DataError, match=r"export.json: not valid JSON; export the run again."):
        read_export(tmp_path)
    (tmp_path / "export.json").write_text('{"format": 9}')
    with pytest.raises(DataError, match=r"`format` has 9; expected 1. Update regard."):
        read_export(tmp_path)
    (tmp_path / "export.json").write_text('{"format": 1}')
    with pytest.raises(DataError, match=r"fields are missing or wrong; export the run again."):
        read_export(tmp_path)
