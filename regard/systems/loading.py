"""`regard.load`: a system by the name of a shipped model, a run folder, or an id of the Hub."""

from pathlib import Path

import torch

from regard.errors import ConfigError, DataError
from regard.export.base import is_export
from regard.shipped.find import find_run
from regard.systems.caption_system import CaptionSystem
from regard.systems.entailment_system import EntailmentSystem
from regard.systems.few_shot_system import FewShotSystem
from regard.systems.language_system import LanguageSystem
from regard.systems.machine_system import MachineSystem
from regard.systems.memory_system import MemorySystem
from regard.systems.picture_system import PictureSystem
from regard.systems.pointer_system import PointerSystem
from regard.systems.system import System
from regard.systems.translation_system import TranslationSystem
from regard.tasks.bits import BitTask
from regard.tasks.captions import CaptionTask
from regard.tasks.entailment import EntailmentTask
from regard.tasks.fewshot import FewShotTask
from regard.tasks.pictures import PictureTask
from regard.tasks.pointing import PointingTask
from regard.tasks.questions import QuestionTask
from regard.tasks.sentences import SentenceTask
from regard.tasks.translation import TranslationTask
from regard.train.run import check_device, open_run

SYSTEMS: dict[type, type[System]] = {
    TranslationTask: TranslationSystem,
    PointingTask: PointerSystem,
    BitTask: MachineSystem,
    QuestionTask: MemorySystem,
    CaptionTask: CaptionSystem,
    SentenceTask: LanguageSystem,
    FewShotTask: FewShotSystem,
    PictureTask: PictureSystem,
    EntailmentTask: EntailmentSystem,
}

HALF = (torch.bfloat16, torch.float16)
DTYPES = (torch.float32, torch.float64, *HALF)


def load(
    name: str | Path, *, device: torch.device | str | None = None, dtype: torch.dtype | str | None = None
) -> System:
    """The system of this name, by default on the accelerator if there is one, and in float32.

    Half precision is autocast, as in training: operations that need float32 keep it.
    """
    if isinstance(dtype, str):
        dtype = getattr(torch, dtype, dtype)  # "bfloat16"
    if dtype not in (None, *DTYPES):
        known = ", ".join(str(each).removeprefix("torch.") for each in DTYPES)
        raise ConfigError(f"load: `dtype` has {dtype}; expected one of {known}.")
    check_device("load: `device`", device)
    folder = refuse_export(find_run(name))
    run = open_run(folder, device=device)
    half = dtype if dtype in HALF else None
    if dtype is not None and half is None:
        run.model.to(dtype)
    return system_of(type(run.task), folder, run.config.task)(run, half)


def refuse_export(folder: Path) -> Path:
    """The folder, unless it holds an export."""
    if is_export(folder):
        raise DataError(f"{folder}: holds an export, which only `regard translate` reads; expected a run.")
    return folder


def system_of(task: type, folder: Path, name: str) -> type[System]:
    """The system class for runs of this task, named `name` in their config."""
    for base, system in SYSTEMS.items():
        if issubclass(task, base):
            return system
    raise DataError(f"{folder}: task is {name!r}, for which there is no system; see `regard show`.")
