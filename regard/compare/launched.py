"""Trains jobs one after another, each on all processes of a launcher.

    torchrun --nproc-per-node 4 -m -- regard compare …

The main process decides what to train next. A training that fails with the same error on all processes is an
outcome. An error on one process stops all of them, because the others wait for it in the middle of a step;
the launcher may restart them, and they resume.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta

from regard.compare.trial import MeasuredJob, measure
from regard.errors import DataError, RegardError
from regard.evaluate.divided import processes_together, together
from regard.train.accelerator import join_processes
from regard.train.config import RunConfig
from regard.train.launcher import ends_with_launcher, is_main_process

log = logging.getLogger("regard")
PATIENCE = timedelta(minutes=10)  # to wait for a process that may be lost


def run_launched(
    jobs: Mapping[MeasuredJob, RunConfig], *, threads: int, failed: Callable[[MeasuredJob, str], None]
) -> None:
    """Train and measure each job; `failed` is called with each one that fails, and the reason."""
    join_processes()
    with ends_with_launcher(), processes_together(PATIENCE):
        for number, (job, config) in enumerate(jobs.items(), 1):
            if not together([job.is_needed()])[0]:
                continue
            if is_main_process():
                log.info("%d of %d: %s", number, len(jobs), job.name)
            reason = _measure(job, replace(config, train=replace(config.train, threads=threads)))
            if reason:
                failed(job, reason)


def _measure(job: MeasuredJob, config: RunConfig) -> str:
    """Train and measure a job; the reason if it failed on all processes, otherwise empty."""
    failure = None
    try:
        measure(config, job.run, job.asked)
    except RegardError as error:
        failure = error
    try:
        reasons = together(["" if failure is None else str(failure)])
    except RuntimeError:  # the others are inside the training, waiting for this process
        lost = DataError(f"{job.name}: other processes were lost; run the command again to continue.")
        raise failure or lost from None
    if len(set(reasons)) > 1:
        raise DataError(f"{job.name}: {next(filter(None, reasons))}")
    return reasons[0]
