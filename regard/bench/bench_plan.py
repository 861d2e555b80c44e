"""The plan of `regard bench attention`: what it measures, and how much time it has."""

import os
from dataclasses import dataclass, replace

import torch

from regard.bench.problems import MECHANISMS, Mechanism, Size


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is measured, and how much time there is."""

    device: str
    dtype: torch.dtype
    size: Size
    apart: str = ""  # suffix of records that must not replace those of the standard sizes
    lengths: tuple[int, ...]
    growth: Size  # its N is not used
    passes: tuple[bool, ...] = (False, True)  # forward; forward and backward
    mechanisms: tuple[Mechanism, ...] = MECHANISMS
    rivals: tuple[str, ...] = ("by-hand", "entmax", "flex", "compile")
    capture: bool = False  # also measure the device's time without the host's
    growing: float = 0.6  # share of the deadline by which growth must be measured; it gets at least a quarter
    processes: int = 0  # how many compile beforehand; with 0, rivals compile when their turn comes
    preparing: float = 0.27  # share of the deadline for that
    deadline: float = 170.0  # seconds, in total
    budget: float = 0.4  # seconds for each number
    longest: float = 10.0  # seconds that one call may take
    largest: float = 4e9  # bytes that one call may need


def standard(device: str, *, quick: bool = False) -> Plan:
    """The plan with sizes that suit this device."""
    if device == "cuda":
        free = float(torch.cuda.mem_get_info()[0])
        plan = Plan(
            device=device,
            dtype=torch.bfloat16,
            size=Size(8, 1024, 128),
            lengths=(1024, 2048, 4096, 8192, 16384),
            growth=Size(1, 0, 64),
            rivals=("by-hand", "sorted", "entmax", "flex", "compile"),
            capture=True,
            growing=0.7,
            budget=0.1,
            processes=max(1, min(12, (os.cpu_count() or 1) - 2)),
            deadline=150.0,
            longest=2.0,
            largest=0.6 * free,
        )
        if not quick:
            return plan
        rivals = ("by-hand", "sorted", "entmax")
        return replace(plan, lengths=(512, 1024, 2048), processes=0, deadline=60.0, rivals=rivals)
    plan = Plan(
        device=device,
        dtype=torch.float32,
        size=Size(2, 512, 64),
        lengths=(256, 512, 1024, 2048, 4096, 8192, 16384),
        growth=Size(1, 0, 32),
    )
    if not quick:
        return plan
    return replace(
        plan,
        size=Size(2, 128, 32),
        lengths=(64, 128, 256, 512),
        rivals=("by-hand", "entmax"),
        budget=0.05,
        deadline=50.0,
    )
