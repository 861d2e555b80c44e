"""The server's counters, in Prometheus text format."""

import threading
from collections import defaultdict

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)


class Histogram:
    """Counts per bucket, and the sum of all values."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds, self.counts, self.total = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        place = next((i for i, bound in enumerate(self.bounds) if value <= bound), len(self.bounds))
        self.counts[place] += 1
        self.total += value

    def lines(self, name: str, labels: str) -> list[str]:
        made, running = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            running += count
            made.append(f'{name}_bucket{{{labels},le="{bound}"}} {running}')
        return [*made, f"{name}_sum{{{labels}}} {self.total:.6f}", f"{name}_count{{{labels}}} {running}"]


class Metrics:
    """All counters; labels are names of routes and models, never user input."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: dict[tuple[str, int], int] = defaultdict(int)
        self._seconds: dict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self._batches: dict[str, Histogram] = defaultdict(lambda: Histogram(SIZES))
        self._computing: dict[str, float] = defaultdict(float)
        self._waiting: dict[str, int] = {}
        self._replaced: dict[str, int] = defaultdict(int)
        self._cancelled: dict[str, int] = defaultdict(int)

    def request(self, route: str, status: int, seconds: float) -> None:
        with self._lock:
            self._requests[route, status] += 1
            self._seconds[route].add(seconds)

    def batch(self, model: str, size: int, seconds: float) -> None:
        with self._lock:
            self._batches[model].add(size)
            self._computing[model] += seconds

    def queue(self, model: str, waiting: int) -> None:
        self._waiting[model] = waiting

    def replaced(self, model: str) -> None:
        with self._lock:
            self._replaced[model] += 1

    def cancelled(self, model: str) -> None:
        with self._lock:
            self._cancelled[model] += 1

    def text(self) -> str:
        """Everything, one line per value."""
        with self._lock:
            lines = ["# TYPE regard_requests_total counter"]
            for (route, status), count in sorted(self._requests.items()):
                lines.append(f'regard_requests_total{{route="{route}",status="{status}"}} {count}')
            lines.append("# TYPE regard_request_seconds histogram")
            for route, seconds in sorted(self._seconds.items()):
                lines += seconds.lines("regard_request_seconds", f'route="{route}"')
            lines.append("# TYPE regard_batch_size histogram")
            for model, sizes in sorted(self._batches.items()):
                lines += sizes.lines("regard_batch_size", f'model="{_escaped(model)}"')
            for name, kind, values in (
                ("regard_computing_seconds_total", "counter", dict(self._computing)),
                ("regard_queue_length", "gauge", dict(self._waiting)),
                ("regard_workers_replaced_total", "counter", dict(self._replaced)),
                ("regard_cancelled_batches_total", "counter", dict(self._cancelled)),
            ):
                lines.append(f"# TYPE {name} {kind}")
                lines += [f'{name}{{model="{_escaped(m)}"}} {value:g}' for m, value in sorted(values.items())]
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
