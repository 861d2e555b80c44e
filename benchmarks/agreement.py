"""How far other engines agree with a trained translator on its test split.

    python benchmarks/agreement.py RUN [--to ctranslate2,onnx] [--record]

The run is exported to a separate folder; then both translate the whole split from raw text, greedily and with
the beam of the recipe. It prints BLEU of both (cased, raw text) and how many translations are identical.
`--record` writes results/agreement.json.
"""

import tempfile
import time
from pathlib import Path

from common import arguments, keep

from regard.decode.base import Decoding
from regard.decode.translator import TextTranslator, Translator
from regard.evaluate.text import score_text
from regard.export.formats import FORMATS, export_run, open_export
from regard.train.run import Run, open_run

ALLOWED = 0.1  # BLEU


def translate(translator: TextTranslator, texts: list[str], how: Decoding) -> tuple[list[str], float]:
    """The translations, and the seconds they took."""
    started = time.perf_counter()
    found = [best.text for best, *_ in translator.translate(texts, how, attention=False)]
    return found, time.perf_counter() - started


def compare(run: Run, to: str, folder: Path) -> dict[str, dict[str, float]]:
    """BLEU of the run and of its export, by the beam."""
    _, theirs = open_export(export_run(run, to, folder / to))
    ours = Translator(run.model, run.task.source, run.task.target)
    examples = run.task.examples("test")
    sources, references = [e.source for e in examples], [e.target for e in examples]
    language = run.task.languages[1]
    found = {}
    for beam in sorted({1, run.config.decode.beam}):
        how = run.config.decode.with_beam(beam)
        a, b = translate(ours, sources, how), translate(theirs, sources, how)
        bleu = [score_text(texts, references, language=language).bleu for texts, _ in (a, b)]
        found[f"beam {beam}"] = {
            "BLEU": round(bleu[0], 2),
            f"BLEU of {to}": round(bleu[1], 2),
            "difference": round(abs(bleu[0] - bleu[1]), 3),
            "the same": sum(map(str.__eq__, a[0], b[0])),
            "sentences": len(sources),
            "seconds": round(a[1], 1),
            f"seconds of {to}": round(b[1], 1),
        }
        print(f"{to}, beam {beam}: {found[f'beam {beam}']}", flush=True)
    return found


def main() -> None:
    """Compare, and fail if an engine's BLEU differs by more than is allowed."""
    parser = arguments(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--to", default=",".join(FORMATS))
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    run = open_run(options.run, device="cpu")
    with tempfile.TemporaryDirectory() as aside:
        for to in options.to.split(","):
            started = time.perf_counter()
            found = compare(run, to, Path(aside))
            worst = max(one["difference"] for one in found.values())
            if worst > ALLOWED:
                raise SystemExit(f"{to} differs by {worst} BLEU; expected {ALLOWED} at most")
            if options.record:
                name = options.run.resolve().name
                keep(
                    "agreement",
                    f"{name}: difference of {to} in BLEU, the larger of both beams",
                    worst,
                    seconds=time.perf_counter() - started,
                    details=found,
                    note=f"{ALLOWED} is allowed",
                )


if __name__ == "__main__":
    main()
