"""Computes each kind of request: a system and requests with equal keys in, one answer per request out.

These functions run in the model's thread and return dictionaries for JSON.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from regard.data.geometry import QUESTIONS, perimeter
from regard.decode.cancel import check_cancelled
from regard.serve import limits
from regard.serve import requests as given
from regard.serve.problems import Problem, invalid
from regard.serve.wire import matrix, png, read_drawing, read_picture
from regard.systems.caption_system import Captioned, CaptionSystem
from regard.systems.entailment_system import Entailed, EntailmentSystem
from regard.systems.few_shot_system import FewShotSystem
from regard.systems.language_system import LanguageSystem, Scored
from regard.systems.machine_system import MachineRun, MachineSystem
from regard.systems.memory_system import Answered, MemorySystem
from regard.systems.picture_system import PictureSystem
from regard.systems.pointer_system import PointedOut, PointerSystem
from regard.systems.system import System
from regard.systems.translation_system import SearchTree, Translated, TranslationSystem
from regard.tasks.ntm import AssociativeRecallTask

Answers = list[dict[str, Any]]
KINDS: dict[type[System], str] = {
    TranslationSystem: "translate",
    PointerSystem: "point",
    MachineSystem: "run",
    MemorySystem: "ask",
    CaptionSystem: "caption",
    FewShotSystem: "classify",
    PictureSystem: "sample",
    EntailmentSystem: "entail",
    LanguageSystem: "score",
}


def compute(system: System, key: Hashable, items: Sequence[Any]) -> list[Any]:
    """Answer items with equal keys; a key is the name of a function below and the shared options."""
    assert isinstance(key, tuple)
    name, *options = key
    if name in ONE_BY_ONE:
        return [ONE_BY_ONE[name](system, item) for item in items]
    return BATCHED[name](system, items, *options)


# Translation ---------------------------------------------------------------------------------------


def translate(system: TranslationSystem, texts: Sequence[list[str]], beam: int | None, tree: bool) -> Answers:
    """Lists of texts -> `{"results": [...]}` for each list."""
    flat = [text for own in texts for text in own]
    for own in texts:
        check_pieces(system, own)
    found: Any = system.translate(flat, beam=beam, nbest=beam or 1)
    results = [translated(system, each) for each in found]
    if tree:
        for text, result in zip(flat, results, strict=True):
            result["tree"] = _tree(system.tree(text, beam=beam))
    return _grouped(results, texts)


def _tree(found: SearchTree) -> dict[str, Any]:
    nodes = [
        {
            "id": number,
            "parent": node.parent,
            "step": node.step,
            "word": piece,
            "log_probability": node.log_probability,
        }
        for number, (node, piece) in enumerate(zip(found.nodes, found.pieces, strict=True))
    ]
    return {"nodes": nodes, "hypotheses": found.hypotheses}


def attention(system: TranslationSystem, request: given.AttentionRequest) -> dict[str, Any]:
    """One head of a Transformer, or all heads of a part."""
    check_pieces(system, [request.text])
    if request.target is not None:
        check_pieces(system, [request.target], target=True)
    found: Any = system.heads(request.text, request.target)
    part = request.part
    rows = found.source if part == "encoder" else found.target
    columns = found.read if part == "decoder" else found.source
    maps = getattr(found, part)
    made: dict[str, Any] = {"part": part, "layers": system.layers}
    made |= {"rows": list(rows), "columns": list(columns)}
    if request.layer is None or request.head is None:
        return made | {"heads": [[matrix(head, small=True) for head in layer] for layer in maps]}
    for name, number, count in (("layer", request.layer, len(maps)), ("head", request.head, maps.shape[1])):
        if number >= count:
            raise invalid(f"{name}: has {number}; expected 0 to {count - 1}.")
    return made | {"matrix": matrix(maps[request.layer, request.head])}


def align(system: TranslationSystem, pairs: Sequence[list[tuple[str, str]]]) -> Answers:
    """Lists of (text, translation) pairs -> `{"results": [...]}` for each list."""
    flat = [pair for own in pairs for pair in own]
    sources, targets = [pair[0] for pair in flat], [pair[1] for pair in flat]
    for own in pairs:
        check_pieces(system, [pair[0] for pair in own])
        check_pieces(system, [pair[1] for pair in own], target=True)
    found: Any = system.align(sources, targets)
    return _grouped([translated(system, each) for each in found], pairs)


def translated(system: TranslationSystem, found: Translated) -> dict[str, Any]:
    """A translation with alignment and hypotheses; for a Transformer also its numbers of layers and heads."""
    best = found.best
    made: dict[str, Any] = {
        "text": best.text,
        "source_words": list(best.source_pieces),
        "target_words": list(best.pieces),
        "score": best.score,
        "alignment": matrix(best.weights),
        "beam": [
            {
                "text": each.text,
                "score": each.score,
                "words": list(each.pieces),
                "alignment": matrix(each.weights),
            }
            for each in found.beam
        ],
    }
    return made if system.layers is None else made | {"layers": system.layers}


def check_pieces(system: TranslationSystem, texts: Sequence[str], *, target: bool = False) -> None:
    """Raise Problem for texts that would take too many steps."""
    tokenizer = system.translator.target if target else system.translator.source
    name, counts = "target" if target else "text", [len(pieces) for pieces in tokenizer.encode_all(texts)]
    for count, most, what in (
        (max(counts), limits.PIECES, "pieces of words"),
        (sum(counts), limits.ALL_PIECES, "pieces of words in all texts"),
    ):
        if count > most:
            raise Problem(422, "too_long", f"{name}: has {count} {what}; expected {most} at most.")


def _grouped(results: list[dict[str, Any]], groups: Sequence[Sequence[Any]]) -> Answers:
    each = iter(results)
    return [{"results": [next(each) for _ in group]} for group in groups]


# Points, bits, stories -----------------------------------------------------------------------------


def point(system: PointerSystem, requests: Sequence[given.PointRequest], beam: int | None) -> Answers:
    """The order of each set of points."""
    dimension = QUESTIONS[system.task.question].dimension
    for request in requests:
        if any(len(each) != dimension for each in request.points):
            raise invalid(f"points: has a point of another dimension; expected {dimension} numbers in each.")
    found: Any = system.point([request.points for request in requests], beam=beam)
    return [_pointed(each, system.task.question) for each in found]


def _pointed(found: PointedOut, question: str) -> dict[str, Any]:
    exact = found.right
    made: dict[str, Any] = {
        "question": question,
        "points": found.points.double().round(decimals=6).tolist(),
        "order": found.order,
        "exact": exact,
        "weights": matrix(found.weights),
    }
    if question == "tsp":
        made["length"] = perimeter(found.points, found.order)
        made["exact_length"] = perimeter(found.points, exact)
    return made


def run(system: MachineSystem, requests: Sequence[given.RunRequest]) -> Answers:
    """The machine's output, and its heads at each stage of addressing."""
    items = isinstance(system.task, AssociativeRecallTask)
    for request in requests:
        if isinstance(request.bits[0][0], list) != items:
            expected = "items, each a list of vectors" if items else "vectors"
            raise invalid(f"bits: is nested differently; expected {expected} of bits.")
    found: Any = system.run([request.bits for request in requests], [request.ask for request in requests])
    return [_ran(system, each) for each in found]


def _ran(system: MachineSystem, found: MachineRun) -> dict[str, Any]:
    stages, tape = system.stages(found), found.tape
    R = tape.read_weights.shape[2]
    heads = [
        {
            "kind": "read" if number < R else "write",
            "weights": matrix(stages.sharpened[:, number], small=True),
            "stages": {
                name: matrix(getattr(stages, name)[:, number], small=True)
                for name in ("content", "gated", "shifted", "sharpened")
            },
        }
        for number in range(stages.sharpened.shape[1])
    ]
    return {
        "task": found.task,
        "inputs": found.inputs.long().tolist(),
        "outputs": found.bits.tolist(),
        "probabilities": matrix(found.probabilities),
        "right": found.right.tolist(),
        "wrong": found.wrong,
        "memory": {
            "rows": stages.cells.shape[1],
            "width": stages.cells.shape[2],
            "cells": matrix(stages.cells[-1]),
            "added": matrix(tape.adds[0].flatten(1)),
            "read": matrix(tape.reads[0].flatten(1)),
        },
        "heads": heads,
    }


def ask(system: MemorySystem, requests: Sequence[given.AskRequest]) -> Answers:
    """Answers, and each hop's attention over the sentences."""
    stories = ["\n".join(request.story) for request in requests]
    found: Any = system.ask(stories, [request.question for request in requests])
    unknown = [system.unknown(*request.story, request.question) for request in requests]
    return [_answered(each, words) for each, words in zip(found, unknown, strict=True)]


def _answered(found: Answered, unknown: list[str]) -> dict[str, Any]:
    return {
        "answer": found.text,
        "probability": found.probability,
        "sentences": list(found.sentences),
        "hops": matrix(found.weights),
        "unknown": unknown,
    }


# Pictures ------------------------------------------------------------------------------------------


def caption(system: CaptionSystem, requests: Sequence[given.CaptionRequest], beam: int | None) -> Answers:
    """Captions of pictures, and the attention map of each word."""
    pictures = []
    for request in requests:
        check_cancelled()
        pictures.append(read_picture(request.picture, system.task.side))
    found: Any = system.caption(pictures, beam=beam)
    return [captioned(each) for each in found]


def caption_example(system: CaptionSystem, numbers: Sequence[int]) -> Answers:
    """Pictures of the test set with their captions."""
    found: Any = system.caption([system.example(number) for number in numbers])
    return [captioned(each) for each in found]


def captioned(found: Captioned) -> dict[str, Any]:
    """A caption, a map per word, and the square that the model saw."""
    weights = found.weights
    places = 0 if weights is None else weights.shape[-1]
    side = round(places**0.5)
    grid = [side, side] if side * side == places else [1, places]
    return {
        "text": found.text,
        "words": found.words,
        "maps": [] if weights is None else [matrix(row.reshape(grid)) for row in weights],
        "grid": grid,
        "picture": png(found.picture),
    }


def classify(system: FewShotSystem, request: given.ClassifyRequest) -> dict[str, Any]:
    """Classify a drawing, given labelled examples."""
    every = [
        read_drawing(each.shape, each.type, each.data, each.compressed)
        for each in (*request.drawings, request.query)
    ]
    found: Any = system.classify(every[:-1], request.labels, every[-1])
    return {"label": found.label, "probabilities": found.probabilities, "weights": matrix(found.weights)}


def sample(system: PictureSystem, request: given.SampleRequest) -> dict[str, Any]:
    """Generated pictures, and what each position of the first ones attended to."""
    found: Any = system.sample(
        request.count, classes=request.classes, seed=request.seed, maps=min(request.maps, request.count)
    )
    weights = found.weights
    side = 0 if weights is None else round(weights.shape[-1] ** 0.5)
    return {
        "pictures": [png(picture) for picture in found.pictures],
        "labels": list(found.labels),
        "classes": list(system.task.classes),
        "maps": [] if weights is None else [matrix(each, small=True) for each in weights],
        "grid": [side, side],
    }


# Sentences -----------------------------------------------------------------------------------------


def entail(system: EntailmentSystem, requests: Sequence[given.EntailRequest]) -> Answers:
    """Labels of sentence pairs, and their soft alignments."""
    found: Any = system.entails([each.premise for each in requests], [each.hypothesis for each in requests])
    return [_entailed(each) for each in found]


def _entailed(found: Entailed) -> dict[str, Any]:
    there, back = found.weights or (None, None)
    return {
        "label": found.label,
        "probabilities": found.probabilities,
        "premise": ["", *found.premise],
        "hypothesis": ["", *found.hypothesis],
        "pooled": found.pooled,
        "weights": matrix(there),
        "back": matrix(back),
    }


def score(system: LanguageSystem, requests: Sequence[given.ScoreRequest]) -> Answers:
    """How likely each word is, what it attended to, and likely next words."""
    texts = [request.text for request in requests]
    found: Any = system.score(texts)
    return [_scored(each, system.next(text)) for each, text in zip(found, texts, strict=True)]


def _scored(found: Scored, following: list[tuple[str, float]]) -> dict[str, Any]:
    return {
        "words": list(found.words),
        "log_probabilities": found.log_probabilities.tolist(),
        "perplexity": found.perplexity,
        "next": [{"word": word, "probability": probability} for word, probability in following],
        "weights": matrix(found.weights),
    }


BATCHED: dict[str, Callable[..., Answers]] = {
    function.__name__: function
    for function in (translate, align, point, run, ask, caption, caption_example, entail, score)
}
ONE_BY_ONE: dict[str, Callable[[Any, Any], dict[str, Any]]] = {
    "attention": attention,
    "classify": classify,
    "sample": sample,
}
