"""One object in eight threads gives each of them what it gives alone."""

import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch
from seeds import offset_seed
from torch.testing import assert_close

from regard import (
    AdditiveScore,
    Attention,
    CoverageScore,
    DotScore,
    GeneralScore,
    InOrder,
    LocalPredictive,
    Mask,
    MultiHead,
    Sparsemax,
    attend,
    record,
)
from regard.attention.config import AttentionConfig
from regard.attention.record import UnseenWarning
from regard.data.batches import pair_batch
from regard.data.images import image_batch
from regard.data.points import own_batch
from regard.data.questions import EncodedQuestions, Question
from regard.data.tokens import Tokenizer
from regard.data.wordlist import WordList
from regard.decode.base import Decoding, evaluating
from regard.decode.captions import describe
from regard.decode.pointing import point
from regard.decode.sample import sample
from regard.decode.translator import Translator
from regard.layers.lstmn import LSTMN
from regard.models.luong import Luong, LuongConfig
from regard.models.memn2n import MemN2N, MemN2NConfig
from regard.models.pointer import PointerConfig, PointerNetwork
from regard.models.rnnsearch import RNNsearch, RNNsearchConfig
from regard.models.seq2seq import Seq2Seq, Seq2SeqConfig
from regard.models.show_attend_tell import ShowAttendTell, ShowAttendTellConfig
from regard.models.transformer import Transformer, TransformerConfig

THREADS = 8
WORDS = list("abcdefgh")


@pytest.fixture(autouse=True)
def often():
    """Threads take turns a thousand times as often as usual."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-6)
    yield
    sys.setswitchinterval(interval)


def agree(job, cases):
    """job(case) in threads, all at once, is job(case) alone."""
    expected = [job(case) for case in cases]
    start = Barrier(THREADS)

    def run(number):
        start.wait()
        mine = [(number + k) % len(cases) for k in range(len(cases))]
        return [(case, job(cases[case])) for case in mine]

    with ThreadPoolExecutor(THREADS) as pool:
        for found in pool.map(run, range(THREADS)):
            for case, result in found:
                assert_close(result, expected[case], rtol=0, atol=1e-6)


SIZES = {"source_vocab": 12, "target_vocab": 12}
MODELS = {
    "rnnsearch": lambda: RNNsearch(
        RNNsearchConfig(
            **SIZES, embedding=8, hidden=8, readout=8, dropout=0.2, attention=AttentionConfig("additive")
        )
    ),
    "luong local-p": lambda: Luong(
        LuongConfig(
            **SIZES,
            embedding=8,
            hidden=8,
            layers=1,
            attention=AttentionConfig("general", window="local-predictive", half_width=1),
        )
    ),
    "transformer": lambda: Transformer(
        TransformerConfig(
            **SIZES,
            size="tiny",
            layers=1,
            d_model=16,
            d_ff=16,
            attention=AttentionConfig("scaled-dot", heads=2),
        )
    ),
    "seq2seq": lambda: Seq2Seq(Seq2SeqConfig(**SIZES, embedding=8, hidden=8, layers=1)),
}
TEXTS = [" ".join(WORDS[(3 * i + j) % 8] for j in range(n)) for i, n in enumerate((1, 9, 3, 6))]


@pytest.fixture
def translator(request):
    tokenizer = Tokenizer.train([" ".join(WORDS)], kind="words", language="symbols")
    assert len(tokenizer) == 12
    torch.manual_seed(offset_seed(0))
    return Translator(MODELS[request.param]().train(), tokenizer, tokenizer)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("translator", MODELS, indirect=True)
def test_a_translator_in_eight_threads_translates_as_alone(translator, beam):
    def job(text):
        [[found]] = translator.translate([text], Decoding(beam=beam, max_length=6))
        weights = torch.zeros(0) if found.weights is None else found.weights
        return [ord(letter) for letter in found.text], found.log_probability, weights

    agree(job, TEXTS)
    assert all(module.training for module in translator.model.modules())


def test_the_last_of_several_threads_gives_a_module_its_mode_back():
    model = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(2, 2).eval())
    inside, outside = Barrier(2), Barrier(2)

    def early():
        with evaluating(model):
            inside.wait()
        outside.wait()

    with ThreadPoolExecutor(1) as pool:
        done = pool.submit(early)
        with evaluating(model[0]):
            inside.wait()
            outside.wait()
            assert not model[0].training
        done.result()
    assert [module.training for module in model.modules()] == [True, True, False]


@pytest.mark.parametrize("name", MODELS)
def test_samples_in_eight_threads_are_those_of_their_generator(name):
    torch.manual_seed(offset_seed(0))
    model = MODELS[name]()
    sources = [[4 + (i + j) % 8 for j in range(n)] for i, n in enumerate((1, 7, 4))]

    def job(source):
        generator = torch.Generator().manual_seed(len(source))
        [[found]] = sample(
            model,
            pair_batch([source], [[]]),
            maximum=5,
            generator=generator,
            attention=model.aligner is not None,
        )
        return list(found.tokens), found.log_probability, dict(found.attention)

    agree(job, sources)


ATTENTIONS = {
    "dot": lambda: Attention(DotScore()),
    "general": lambda: Attention(GeneralScore(query=6, keys=6)),
    "additive": lambda: Attention(AdditiveScore(query=6, keys=6, hidden=4)),
    "sparsemax": lambda: Attention(DotScore(), normalizer=Sparsemax()),
    "local-p": lambda: Attention(
        DotScore(), window=LocalPredictive(query=6, hidden=4, half_width=1), kernel="local"
    ),
    "in order": lambda: InOrder(CoverageScore(query=6, keys=6, hidden=3)),
    "heads": lambda: MultiHead(6, 2),
}


def inputs():
    generator = torch.Generator().manual_seed(offset_seed(5))
    return [torch.randn(2, n, 6, generator=generator) for n in (16, 20, 17, 19)]


@pytest.mark.parametrize("name", ATTENTIONS)
def test_an_attention_in_eight_threads_records_what_each_of_them_did(name):
    torch.manual_seed(offset_seed(0))
    attention = ATTENTIONS[name]()

    def job(x):
        with record(attention) as trace:
            context = attention(
                x, attention.prepare(x, None, Mask(lengths=torch.tensor([x.shape[1], 5])))
            ).context
        [[result]] = trace.values()
        return context, result.weights

    agree(job, inputs())


def test_attend_in_eight_threads_is_attend():
    score = AdditiveScore(query=6, keys=6, hidden=4)
    agree(lambda x: attend(x, x, score=score).weights, inputs())


def test_threads_of_a_block_leave_nothing_in_the_trace_of_another():
    attention, x = Attention(DotScore()), inputs()[0]
    source = attention.prepare(x)
    with (
        pytest.warns(UnseenWarning, match="the model ran elsewhere"),
        record(attention) as trace,
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(attention, x, source).result()
    assert trace == {}


def test_a_captioner_in_eight_threads_describes_as_alone():
    torch.manual_seed(offset_seed(0))
    model = ShowAttendTell(
        ShowAttendTellConfig(
            target_vocab=9,
            features=3,
            embedding=4,
            hidden=5,
            dropout=0.3,
            attention=AttentionConfig("additive"),
        )
    )
    generator = torch.Generator().manual_seed(offset_seed(1))
    pictures = [torch.randn(1, 4, 3, generator=generator) for _ in range(3)]

    def job(picture):
        [found] = describe(model, image_batch(picture, [[4]]), decoding=Decoding(beam=2, max_length=5))
        return list(found.tokens), found.log_probability, found.weights

    agree(job, pictures)


def test_a_pointer_network_in_eight_threads_points_as_alone():
    torch.manual_seed(offset_seed(3))
    model = PointerNetwork(PointerConfig(dimension=2, hidden=8))
    sets = [torch.rand(n, 2) for n in (2, 4, 3)]

    def job(points):
        [found] = point(model, own_batch([points]), rule="all", attention=True)
        return found.order, found.log_probability, found.weights

    agree(job, sets)


def test_a_memory_network_in_eight_threads_looks_as_alone():
    torch.manual_seed(offset_seed(3))
    words = WordList(["<null>", *"abcdefgh"], unknown="<null>")
    model = MemN2N(MemN2NConfig(vocab=len(words), memory=4, embedding=5)).eval()
    stories = [Question(tuple(("a", x) for x in "bcdefg"[:n]), ("a",), "b") for n in (1, 4, 6)]

    def job(story):
        with record(model) as trace, torch.no_grad():
            scores = model(EncodedQuestions([story], words, memory=4).batch([0]))
        return scores, [result.weights for results in trace.values() for result in results]

    agree(job, stories)


def test_an_lstmn_is_recorded_by_one_thread_and_fused_in_another():
    torch.manual_seed(offset_seed(0))
    model, generator = LSTMN(inputs=4, hidden=4), torch.Generator().manual_seed(offset_seed(1))
    words = [torch.randn(1, n, 4, generator=generator) for n in (3, 6, 4)]

    def job(x):
        plain = model(x).detach()
        with record(model) as trace:
            model(x)
        return plain, [result.weights.detach() for result in trace["cells.0.attention"]]

    agree(job, words)
