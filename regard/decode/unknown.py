"""Words the model has never seen are taken from the source: copied, or looked up in a dictionary.

The alignment says which source word an unknown target word stands for (Luong 2015, section 4.1, after Luong,
Sutskever, Le, Vinyals, Zaremba 2015, https://arxiv.org/abs/1410.8206). The dictionary can be learnt from the
same alignments: what the training pairs write where the model looks at a word, rare words as written.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from regard import storage
from regard.data.parallel import read_lines
from regard.data.tokens import UNK_PIECE
from regard.decode.base import Credit, Dictionary
from regard.decode.forced import forced
from regard.errors import ConfigError, DataError, ShapeError
from regard.models.base import Translating
from regard.tasks.translation import TranslationTask

BUDGET = 4096  # padded tokens of a forced batch
NAME = "dictionary.tsv"  # in a run folder
SHARE = 0.2  # least share of a translation among all that is written where a word is looked at


def carry_unknown(
    pieces_out: Sequence[str],
    pieces_in: Sequence[str],
    attention: Tensor,
    dictionary: Dictionary | None = None,
) -> list[str]:
    """Each `<unk>` becomes the translation of the source piece that its row of (T, S) attends to most.

    Words that the dictionary lacks, or all without one, are copied. T and S may count eos on either side;
    eos itself is never carried.
    """
    T, S = len(pieces_out), len(pieces_in)
    shape = tuple(attention.shape)
    if len(shape) != 2 or not (T <= shape[0] <= T + 1 and S <= shape[1] <= S + 1):
        raise ShapeError(
            f"carry_unknown: `attention` has shape {shape}; expected (T={T}, S={S}), or one more for eos."
        )
    if S == 0:
        return list(pieces_out)
    known = {} if dictionary is None else dictionary
    looked_at = [pieces_in[s] for s in attention[:T, :S].argmax(-1).tolist()]
    return [
        known.get(word, word) if piece == UNK_PIECE else piece
        for piece, word in zip(pieces_out, looked_at, strict=True)
    ]


def credited(attention: Tensor, T: int, credit: Credit) -> Tensor:
    """(..., T or T + 1, S), step by step -> (T, S), word by word, the mean over heads.

    The word written at step t is read at step t + 1; the last word of an output that was cut is not, and
    keeps the step that wrote it.
    """
    steps = attention.reshape(-1, *attention.shape[-2:]).mean(0)
    if credit == "written":
        return steps[:T]
    return torch.cat([steps[1:], steps[-1:]])[:T]


def learn_dictionary(
    model: Translating,
    task: TranslationTask,
    *,
    minimum: int = 2,
    credit: Credit = "written",
    progress: Callable[[int], None] | None = None,
) -> dict[str, str]:
    """Force the training pairs; a source word's translation is what is written most often where it is read.

    A word seen once has its only translation; others need one that was seen `minimum` times. A translation
    found in less than a fifth of the cases counts as chance and is left out.
    """
    if model.aligner is None:
        raise DataError("dictionary: the model has no attention; expected one with attention.")
    device = next(model.parameters()).device
    examples = task.examples("train")
    seen: dict[str, Counter[str]] = {}
    for rows in task.evaluation_plan("train", batch=BUDGET):
        batch = task.batch("train", rows).to(device)
        for row, track in zip(rows, forced(model, batch, attention=True), strict=True):
            source = task.source.pieces(examples[row].source)
            target = task.target.pieces(examples[row].target)
            words = credited(track.attention[model.aligner], len(target), credit)
            # attention on eos means that nothing is translated
            for word, s in zip(target, words.argmax(-1).tolist(), strict=True):
                if s < len(source):
                    seen.setdefault(source[s], Counter())[word] += 1
        if progress is not None:
            progress(len(rows))
    found = {word: _translation(written, minimum) for word, written in sorted(seen.items())}
    return {word: translation for word, translation in found.items() if translation is not None}


def _translation(written: Counter[str], minimum: int) -> str | None:
    """The most frequent word, ties in alphabetical order; None if it is too rare."""
    word, count = min(written.items(), key=lambda item: (-item[1], item[0]))
    total = written.total()
    return word if count >= min(minimum, total) and count >= SHARE * total else None


def read_dictionary(path: Path | str) -> dict[str, str]:
    """Two columns, source and target word, separated by a tab; later lines win."""
    found: dict[str, str] = {}
    for number, line in enumerate(read_lines(Path(path)), start=1):
        words = line.split("\t")
        if not line:
            continue
        if len(words) != 2 or not all(words):
            raise DataError(f"{path}: line {number} has {line!r}; expected two words with a tab between.")
        found[words[0]] = words[1]
    return found


def write_dictionary(path: Path | str, dictionary: Dictionary) -> None:
    """Write the dictionary, whole or not at all; words with a tab or a line break are left out."""
    lines = [f"{a}\t{b}\n" for a, b in dictionary.items() if len(a.split()) == len(b.split()) == 1]
    with storage.whole(Path(path)) as file:
        file.write("".join(lines).encode())


def choose_dictionary(folder: Path, unknown: str) -> Dictionary | None:
    """The dictionary for `--unknown`: words to look up, none for copying, None for leaving `<unk>`."""
    if unknown in ("copy", "keep"):
        return {} if unknown == "copy" else None
    path = folder / NAME if unknown == "dictionary" else Path(unknown)
    if path.exists():
        return read_dictionary(path)
    if unknown == "dictionary":
        raise DataError(f"{path}: no such file. `regard dictionary {folder}` writes it.")
    raise ConfigError(
        f"--unknown has {unknown!r}, which is not a file; expected copy, dictionary, keep or FILE."
    )
