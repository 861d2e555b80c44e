"""Pictures of the Neural Turing Machine, its tasks and its baseline.

    python benchmarks/tapes.py                          the five tasks; needs no training
    python benchmarks/tapes.py --machine runs/ntm-copy  the tape and the heads of a trained machine
    python benchmarks/tapes.py --baseline runs/lstm-copy --length 30

Writes docs/pictures/*.png with a caption beside each.
"""

from pathlib import Path

import torch
from common import PICTURES, arguments, caption

from regard import catalog
from regard.models.ntm import NTM
from regard.tasks.bits import BitTask
from regard.train.run import open_run
from regard.views.tape import view
from regard.viz.tape import draw_sequences

SHAPES = {
    "copy": (10,),
    "repeat-copy": (5, 3),
    "associative-recall": (4,),
    "ngrams": (60,),
    "priority-sort": (20,),
}
CAPTIONS = {
    "copy": "The network reads ten vectors and the end flag, and must then repeat the vectors.",
    "repeat-copy": "The network reads five vectors, the end flag and the number of copies; it must write "
    "three copies and an end marker.",
    "associative-recall": "Four items of three vectors, a delimiter before each; then one of them again, "
    "between query flags. The network must give the item that followed it.",
    "ngrams": "Sixty bits of one source; at every step the network predicts the next.",
    "priority-sort": "Twenty vectors, each with its priority in the last row but one; the network must "
    "give the sixteen of highest priority, in order.",
}


def draw_tasks() -> None:
    """One example of each task."""
    for key, shape in SHAPES.items():
        kind = catalog.find(key, "task").load()
        batch = kind(kind.Settings()).example(shape)
        panels = {"read": batch.inputs[0], "asked for": batch.targets[0]}
        draw_sequences(panels, path=PICTURES / f"task-{key}.png")
        caption(f"task-{key}", CAPTIONS[key])


def draw_machine(folder: Path, length: int) -> None:
    """The tape of a copying machine, and the parameters of its heads."""
    run = open_run(folder)
    line = view(run, str(length), PICTURES / "model-ntm.png", beam=None)
    longest = run.config.task_settings["longest"]
    rows = run.config.model_settings["rows"]
    trained = f"A machine of {rows} rows, trained to copy up to {longest} vectors, copies {length}"
    caption(
        "model-ntm",
        f"{trained} ({line.partition(': ')[2]}): the write head steps through the tape, the read head "
        "retraces it.",
    )
    assert isinstance(run.model, NTM)
    assert isinstance(run.task, BitTask)
    with torch.no_grad():
        controls = run.model.trace(run.task.example((length,)).inputs).controls
    panels = {}
    for head, name in ((1, "write head"), (0, "read head")):
        panels[f"shift of the {name}: -1, 0, +1"] = controls.shifts[0, :, head]
        panels[f"gate of the {name}: 1 is content, 0 is where it stood"] = controls.gate[0, :, head]
        panels[f"sharpening of the {name}"] = controls.gamma[0, :, head] - 1
    draw_sequences(panels, path=PICTURES / "memory-ntm-heads.png")
    caption(
        "memory-ntm-heads",
        f"{trained}: what the controller tells the heads at each step. The shift moves each head along the "
        "tape; the gate opens where a head is addressed by content.",
    )


def draw_baseline(folder: Path, length: int) -> None:
    """The baseline's outputs beyond its training range."""
    run = open_run(folder)
    assert isinstance(run.task, BitTask)
    batch = run.task.example((length,))
    with torch.no_grad():
        answers = run.model(batch).sigmoid() * batch.counted[..., None]
    panels = {"read": batch.inputs[0], "asked for": batch.targets[0], "answered": answers[0]}
    draw_sequences(panels, path=PICTURES / "model-lstm-sequence.png")
    longest = run.config.task_settings["longest"]
    caption(
        "model-lstm-sequence",
        f"Three LSTM layers, trained to copy up to {longest} vectors, are asked to copy {length}.",
    )


def main() -> None:
    """Draw what was requested."""
    parser = arguments(__doc__)
    parser.add_argument("--machine", type=Path)
    parser.add_argument("--baseline", type=Path)
    parser.add_argument("--length", type=int, default=20)
    options = parser.parse_args()
    if options.machine is not None:
        draw_machine(options.machine, options.length)
    if options.baseline is not None:
        draw_baseline(options.baseline, options.length)
    if options.machine is None and options.baseline is None:
        draw_tasks()


if __name__ == "__main__":
    main()
