"""Table 1 of Vaswani et al. 2017, measured: what one layer costs as the sequence grows.

    python benchmarks/layers.py [--threads 1] [--longest 4096] [--device cpu]

Self-attention, the same restricted to neighbours, a recurrent and a convolutional layer of equal width,
forward and backward, float32. Parity comes first: the restricted layer must equal self-attention under a
window, and every layer must keep the shape. Time is the least of several runs after a warm-up: on a CPU the
processor time of one thread, which other load on the machine changes little. Memory is what the forward pass
saves for the backward pass, each storage once: the same on every machine. The exponent of each is the slope
of a least-squares line through the longest lengths in log-log scale, beside the theory's.

Writes results/layers.json and docs/pictures/layers-time-DEVICE.png, layers-memory-DEVICE.png.
"""

import math
import time
from collections.abc import Callable

import torch
from common import PICTURES, arguments, keep
from torch import Tensor, nn

from regard import Attention, DotScore, Mask
from regard.bench.clock import FITTED, exponent
from regard.layers.restricted import attend_nearby
from regard.viz.curves import draw_growth

D = {"cpu": 32, "cuda": 128}  # features: few compared with the longest length, so that the length dominates
B = {"cpu": 1, "cuda": 8}
REACH, WIDTH, SHORTEST = 32, 3, 128
RUNS, MOST, ENOUGH = 5, 60, 0.6  # minimum and maximum number of runs, and seconds after which to stop


class SelfAttention(nn.Module):
    """Four projections around one head; `attend` says what each position sees."""

    def __init__(self, dim: int, attend: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.W_Q, self.W_K, self.W_V, self.W_O = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        return self.W_O(self.attend(self.W_Q(x), self.W_K(x), self.W_V(x)))


class Recurrent(nn.Module):
    """A gated recurrent layer in one direction."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.cell = nn.GRU(dim, dim, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.cell(x)[0]
        return found


class Convolution(nn.Module):
    """A convolution over the positions."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.filter = nn.Conv1d(dim, dim, WIDTH, padding=WIDTH // 2)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.filter(x.transpose(1, 2)).transpose(1, 2)
        return found


def everywhere(attention: Attention, mask: Mask | None = None) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Each position sees all that the mask allows; one head, since the fused kernel needs that axis."""
    return lambda q, k, v: attention(q[:, None], attention.prepare(k[:, None], v[:, None], mask)).context[
        :, 0
    ]


def layers(dim: int) -> dict[str, tuple[nn.Module, float, float]]:
    """Name -> layer, and the theoretical exponents of the length in its time and its saved memory."""
    plain, fused = Attention(DotScore(), kernel="reference"), Attention(DotScore(), kernel="sdpa")
    near = SelfAttention(dim, lambda q, k, v: attend_nearby(plain, q, k, v, reach=REACH))
    return {
        "self-attention": (SelfAttention(dim, everywhere(plain)), 2.0, 2.0),
        "self-attention, fused": (SelfAttention(dim, everywhere(fused)), 2.0, 1.0),
        f"restricted self-attention, r = {REACH}": (near, 1.0, 1.0),
        "recurrent (GRU)": (Recurrent(dim), 1.0, 1.0),
        f"convolution, k = {WIDTH}": (Convolution(dim), 1.0, 1.0),
    }


def check(dim: int, device: str) -> None:
    """Check shapes, and that the restricted layer equals attention under a window, values and gradients."""
    torch.manual_seed(0)
    x = torch.randn(2, 3 * REACH + 7, dim, device=device)
    found = {name: layer.to(device) for name, (layer, *_) in layers(dim).items()}
    for layer in found.values():
        assert layer(x).shape == x.shape
    restricted = next(layer for name, layer in found.items() if name.startswith("restricted"))
    assert isinstance(restricted, SelfAttention)
    windowed = SelfAttention(dim, everywhere(Attention(DotScore()), Mask(window=(REACH, REACH)))).to(device)
    windowed.load_state_dict(restricted.state_dict())
    for one, other in zip(gradients(restricted, x), gradients(windowed, x), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)


def gradients(layer: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """The output, and the gradient of its sum of squares."""
    x = x.clone().requires_grad_()
    out = layer(x)
    out.square().sum().backward()
    assert x.grad is not None
    return out.detach(), x.grad


def seconds(layer: nn.Module, x: Tensor) -> float:
    """The minimum over several runs, forward and backward, after two warm-ups; over many if short."""
    times: list[float] = []
    while len(times) < RUNS + 2 or (sum(times) < ENOUGH and len(times) < MOST):
        started = clock(x)
        gradients(layer, x)
        times.append(clock(x) - started)
    return min(times[2:])


def clock(x: Tensor) -> float:
    """Seconds: processor time on a CPU, wall-clock time after a sync on a GPU."""
    if not x.is_cuda:
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def kept(layer: nn.Module, x: Tensor) -> int:
    """Bytes that the forward pass saves for the backward pass, without parameters."""
    own = {p.untyped_storage().data_ptr() for p in layer.parameters()}
    held: dict[int, Tensor] = {}

    def hold(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(hold, lambda tensor: tensor):
        out = layer(x.clone().requires_grad_())
    del out
    return sum(t.untyped_storage().nbytes() for at, t in held.items() if at not in own)


def measure(device: str, longest: int, threads: int) -> None:
    """All layers at all lengths; results and pictures."""
    dim, batch = D[device], B[device]
    check(dim, device)
    lengths = [SHORTEST * 2**i for i in range(int(math.log2(longest / SHORTEST)) + 1)]
    times: dict[str, list[float]] = {}
    memory: dict[str, list[float]] = {}
    for order, (name, (layer, in_time, in_memory)) in enumerate(layers(dim).items()):
        layer.to(device)
        inputs = [torch.randn(batch, n, dim, device=device) for n in lengths]
        began = time.perf_counter()
        times[name] = [1000 * seconds(layer, x) for x in inputs]
        memory[name] = [kept(layer, x) / 1e6 for x in inputs]
        took = time.perf_counter() - began
        slopes = exponent(lengths, times[name]), exponent(lengths, memory[name])
        print(
            f"{name}: {times[name][-1]:.2f} ms, {memory[name][-1]:.2f} MB at length {lengths[-1]}; "
            f"exponents {slopes[0]:.2f} of time (theory {in_time:g}), {slopes[1]:.2f} of memory "
            f"(theory {in_memory:g})",
            flush=True,
        )
        for metric, slope, theory in (("time", slopes[0], in_time), ("memory", slopes[1], in_memory)):
            keep(
                "layers",
                f"{name}: exponent of the length in {metric}, {device}",
                round(slope, 2),
                theory=theory,
                note="table 1 of Vaswani et al. 2017: the theory's exponent of n, beside the slope "
                f"through the last {FITTED} lengths",
                seconds=took,
                details={
                    "catalogue": ["score:scaled-dot"] if name == "self-attention" else [],
                    "layer": name,
                    "order": order,
                    "device": device,
                    "threads": threads,
                    "batch": batch,
                    "features": dim,
                    "lengths": lengths,
                    "milliseconds": [round(value, 3) for value in times[name]],
                    "megabytes": [round(value, 4) for value in memory[name]],
                },
            )
    draw(device, lengths, times, "time", "milliseconds, forward and backward")
    draw(device, lengths, memory, "memory", "megabytes kept for the backward pass")


def draw(device: str, lengths: list[int], values: dict[str, list[float]], what: str, unit: str) -> None:
    """One line per layer."""
    curves = {name: (list(map(float, lengths)), series) for name, series in values.items()}
    path = PICTURES / f"layers-{what}-{device}.png"
    draw_growth(curves, path, ylabel=unit)


def main() -> None:
    """Measure on the CPU, or on the device named."""
    parser = arguments(__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--longest", type=int, default=4096)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    measure(options.device, options.longest, options.threads)


if __name__ == "__main__":
    main()
