"""Point sets and what can be asked of them: order, convex hull, Delaunay triangulation, shortest tour.

Every answer is one canonical list of point numbers, so that a net can be taught it:

    order       the points from the smallest to the largest; of equals the lower number first
    hull        its corners counter-clockwise, beginning with the lowest number
    triangles   each as three rising numbers, sorted by the incentre (x, then y)
    tour        from point 0, counter-clockwise (the sign of its area; the paper leaves the direction open)

Degenerate input has a defined answer. Points on an edge of the hull are no corners; of coinciding points only
the lowest number counts; a set on a line has its two ends as hull, and no triangles; one point is its own
hull and its own tour.

Solvers take many sets at once, (B, N, 2) padded to the largest, with the (B,) sizes, and answer (B, M)
numbers filled up with -1.

    hulls               the monotone chain of Andrew (1979), all sets in step
    exact_tours         Held and Karp (1962), O(n² 2ⁿ): all subsets of one size at a time
    heuristic_tours     nearest insertion (Rosenkrantz, Stearns, Lewis 1977), then 2-opt (Croes 1958)
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import ConfigError, DataError

Points = NDArray[np.floating[Any]]  # (..., n, D)
Numbers = NDArray[np.int64]

LARGEST = 1e100  # of a coordinate: differences of such numbers are still finite
EXACT = 12  # points up to which tours are shortest: the tables of one set have n 2ⁿ entries
_TABLE = 2**22  # entries of these tables at a time: they should stay near the processor


# Order ----------------------------------------------------------------------------------------------


def orders(points: Points, sizes: Numbers) -> Numbers:
    """(B, N, 1), (B,) -> (B, N) numbers of the points, the smallest first."""
    padding = np.arange(points.shape[1]) >= sizes[:, None]
    found = np.where(padding, np.inf, points[..., 0]).argsort(-1, kind="stable")
    return np.where(padding, -1, found)


# Convex hull ----------------------------------------------------------------------------------------


def hulls(points: Points, sizes: Numbers) -> Numbers:
    """(B, N, 2), (B,) -> (B, N) corners of each hull, counter-clockwise from the lowest number."""
    B, N = points.shape[:2]
    order, m = _sorted_distinct(points, sizes)
    back = np.where(np.arange(N) < m[:, None], m[:, None] - 1 - np.arange(N), np.arange(N))
    both = np.concatenate([order, np.take_along_axis(order, back, 1)])  # rightward, then leftward
    chains, tops = _chains(np.concatenate([points, points]).astype(np.float64), both, np.concatenate([m, m]))
    # each chain ends where the other begins
    lower, upper = np.maximum(tops[:B] - 1, 1), np.where(m > 1, tops[B:] - 1, 0)
    place = np.arange(N)
    corners = np.where(
        place < lower[:, None],
        chains[:B],
        np.take_along_axis(chains[B:], np.clip(place - lower[:, None], 0, N - 1), 1),
    )
    count = (lower + upper)[:, None]
    first = np.where(place < count, corners, N).argmin(1)[:, None]
    turned = np.take_along_axis(corners, (place + first) % count, 1)
    return np.where(place < count, turned, -1)


def _sorted_distinct(points: Points, sizes: Numbers) -> tuple[Numbers, Numbers]:
    """(B, N) numbers by x, then y, without repetitions; (B,) how many."""
    N = points.shape[1]
    padding = np.arange(N) >= sizes[:, None]
    x, y = (np.where(padding, np.inf, points[..., k]) for k in (0, 1))
    order = np.lexsort((y, x))
    x, y = np.take_along_axis(x, order, 1), np.take_along_axis(y, order, 1)
    gone = np.zeros_like(padding)
    gone[:, 1:] = (x[:, 1:] == x[:, :-1]) & (y[:, 1:] == y[:, :-1])
    gone |= np.isinf(x)
    kept = gone.argsort(1, kind="stable")
    return np.take_along_axis(order, kept, 1), N - gone.sum(1)


def _chains(points: Points, order: Numbers, sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Walk the sorted points of every row; what turns right or goes straight on is taken back."""
    R, N = order.shape
    x, y = (np.take_along_axis(points[..., k], order, 1) for k in (0, 1))
    stack = np.zeros((R, N), dtype=np.int64)  # places in the sorted order
    top = np.zeros(R, dtype=np.int64)
    for i in range(N):
        active = np.flatnonzero(i < sizes)
        if len(active) == 0:
            break
        rows = active[top[active] >= 2]
        while len(rows):
            a, b = stack[rows, top[rows] - 2], stack[rows, top[rows] - 1]
            ax, ay = x[rows, a], y[rows, a]
            turn = (x[rows, b] - ax) * (y[rows, i] - ay) - (y[rows, b] - ay) * (x[rows, i] - ax)
            rows = rows[turn <= 0]
            top[rows] -= 1
            rows = rows[top[rows] >= 2]
        stack[active, top[active]] = i
        top[active] += 1
    return np.take_along_axis(order, stack, 1), top


def area(polygon: Points) -> float:
    """(k, 2) corners -> the signed area, positive counter-clockwise."""
    x, y = np.asarray(polygon, dtype=np.float64).T
    return float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum() / 2)


def is_simple(polygon: Points) -> bool:
    """Whether (k, 2) corners, three or more, are all different and no two sides cross or touch."""
    corners = np.asarray(polygon, dtype=np.float64)
    k = len(corners)
    if k < 3 or len(np.unique(corners, axis=0)) < k:
        return False
    a, b = corners, np.roll(corners, -1, 0)
    # sides of each end of side j seen from side i
    start, end = _side(a[:, None], b[:, None], a[None]), _side(a[:, None], b[:, None], b[None])
    apart = np.abs(np.subtract.outer(np.arange(k), np.arange(k)))
    far = (apart > 1) & (apart < k - 1)  # neighbours share a corner
    crossing = (start * end <= 0) & (start * end <= 0).T & far
    flat = (start == 0) & (end == 0) & far  # on one line: they meet only if their boxes do
    low, high = np.minimum(a, b), np.maximum(a, b)
    boxes = ((low[:, None] <= high[None]) & (low[None] <= high[:, None])).all(-1)
    folded = _side(a, b, np.roll(corners, -2, 0)) == 0
    ahead = ((b - a) * (np.roll(corners, -2, 0) - b)).sum(-1)
    return not ((crossing & (~flat | boxes)).any() or (folded & (ahead < 0)).any())


def _side(a: Points, b: Points, c: Points) -> NDArray[np.float64]:
    """On which side of the line from a to b the point c lies: positive on the left."""
    u, v = b - a, c - a
    return np.sign(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])


# Delaunay triangulation ---------------------------------------------------------------------------


def triangulations(points: Points, sizes: Numbers) -> Numbers:
    """(B, N, 2), (B,) -> (B, 3 (2N - 5)) triangles, three numbers each."""
    found = np.full((len(points), 3 * most_triangles(points.shape[1])), -1, dtype=np.int64)
    for row, (each, n) in enumerate(zip(points, sizes.tolist(), strict=True)):
        flat = triangles(each[:n]).ravel()
        found[row, : len(flat)] = flat
    return found


def most_triangles(n: int) -> int:
    """2 n - 2 - h, with the smallest hull there is, h = 3; 0 for fewer than three points."""
    return max(0, 2 * n - 5)


def triangles(points: Points) -> Numbers:
    """(n, 2) -> (k, 3) in canonical order; none where all points lie on a line."""
    points = np.asarray(points, dtype=np.float64)
    if len(points) < 3:
        return np.zeros((0, 3), dtype=np.int64)
    # of coinciding points only the lowest number counts
    _, kept = np.unique(points, axis=0, return_index=True)
    kept.sort()
    if len(kept) < 3:
        return np.zeros((0, 3), dtype=np.int64)
    found = np.sort(kept[_wrapped(points[kept])], axis=1)
    centre = incentres(points[found])
    return found[np.lexsort((centre[:, 1], centre[:, 0]))]


def _wrapped(points: Points) -> Numbers:
    """(n, 2) different points -> (k, 3): from edge to edge, always the triangle whose circumcircle is empty.

    Raised to z = x² + y², the triangles are the lower faces of the convex hull (Brown 1979): behind each edge
    of a face, the next one rises least. Heights are changed by a little more than rounding does, so that
    where several points lie on one circle all faces choose alike.
    """
    points = points - points.mean(0)
    points = points / (np.abs(points).max() or 1.0)
    x, y = points.T
    z = x**2 + y**2 + 1e-13 * np.modf(np.arange(len(x)) * 0.6180339887498949)[0]
    flat = 1e-14  # what rounding leaves of the area of three points on a line
    a = int(np.lexsort((y, x))[0])
    slope = np.arctan2(y - y[a], x - x[a])  # all lie to the right: the lowest, then nearest, is on the hull
    away = np.hypot(x - x[a], y - y[a])
    away[a] = slope[a] = np.inf
    b = int(np.where(slope <= slope.min() + flat, away, np.inf).argmin())
    todo, done, found = [(a, b)], set(), []
    while todo:
        a, b = todo.pop()
        if (a, b) in done:
            continue
        u, v = x[b] - x[a], y[b] - y[a]
        left = u * (y - y[a]) - v * (x - x[a])
        along = (u * (x - x[a]) + v * (y - y[a])) / (u * u + v * v)
        rise = z - z[a] - along * (z[b] - z[a])
        seen = left > flat
        if not seen.any():
            continue
        c = int(np.where(seen, rise / np.where(seen, left, 1.0), np.inf).argmin())
        found.append((a, b, c))
        done |= {(a, b), (b, c), (c, a)}
        todo += [(c, b), (a, c)]
    return np.array(found, dtype=np.int64).reshape(-1, 3)


def incentres(corners: Points) -> NDArray[np.float64]:
    """(k, 3, 2) -> (k, 2): the corners, each weighed by the length of the opposite side."""
    opposite = np.linalg.norm(np.roll(corners, -1, 1) - np.roll(corners, 1, 1), axis=-1)
    weights = opposite / np.maximum(opposite.sum(1, keepdims=True), np.finfo(np.float64).tiny)
    return np.einsum("kc,kcd->kd", weights, np.asarray(corners, dtype=np.float64))


# Tours ----------------------------------------------------------------------------------------------


def tours(points: Points, sizes: Numbers) -> Numbers:
    """(B, N, 2), (B,) -> (B, N) tours: shortest up to EXACT points, by the heuristic beyond."""
    found = np.full(points.shape[:2], -1, dtype=np.int64)
    for n in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == n)
        solve = exact_tours if n <= EXACT else heuristic_tours
        found[rows, :n] = solve(points[rows, :n])
    return found


def exact_tours(points: Points) -> Numbers:
    """(B, n, 2) -> (B, n) shortest tours, n up to 12.

    cost[mask, j] is the shortest way from point 0 through the points of the mask, ending at j:

        cost[mask, j] = min over i in mask without j of cost[mask without j, i] + d(i, j)
    """
    B, n = points.shape[:2]
    if n > EXACT:
        raise ConfigError(f"exact_tours: `points` has {n} points a set; expected at most {EXACT}.")
    if n < 4:
        return _canonical(points, np.tile(np.arange(n), (B, 1)))
    block = max(1, _TABLE // (2 ** (n - 1) * (n - 1)))
    return np.concatenate([_held_karp(points[i : i + block]) for i in range(0, B, block)])


def _held_karp(points: Points) -> Numbers:
    B, n = points.shape[:2]
    m = n - 1  # point k + 1 is bit k
    d = _distances(points).transpose(1, 2, 0)  # (n, n, B): sets lie side by side
    cost = np.full((2**m, m, B), np.inf)
    for k in range(m):
        cost[1 << k, k] = d[0, k + 1]
    for j, masks in _subsets(m):
        without = cost[masks ^ (1 << j)]  # (K, m, B)
        without += d[1:, j + 1]
        cost[masks, j] = without.min(1)
    sets = np.arange(B)
    mask = np.full(B, 2**m - 1)
    to = np.zeros(B, dtype=np.int64)
    tour = np.zeros((B, n), dtype=np.int64)
    for place in range(m, 0, -1):
        last = (cost[mask, :, sets] + d[1:, to, sets].T).argmin(1)
        tour[:, place] = to = last + 1
        mask ^= 1 << last
    return _canonical(points, tour)


@cache
def _subsets(m: int) -> list[tuple[int, Numbers]]:
    """For each size from 2 and each bit j, the masks of this size that hold j."""
    masks = np.arange(2**m)
    size = np.array([bin(mask).count("1") for mask in masks])
    return [(j, masks[(size == k) & (masks >> j & 1 == 1)]) for k in range(2, m + 1) for j in range(m)]


def heuristic_tours(points: Points) -> Numbers:
    """(B, n, 2) -> (B, n) tours: nearest insertion, then 2-opt until no exchange of two sides is shorter."""
    return _canonical(points, two_opt(points, nearest_insertion(points)))


def nearest_insertion(points: Points) -> Numbers:
    """(B, n, 2) -> (B, n): the point nearest to the tour goes where it lengthens the tour least."""
    B, n = points.shape[:2]
    d = _distances(points)
    sets = np.arange(B)
    after = np.zeros((B, n), dtype=np.int64)  # the point that follows; 0 alone follows itself
    inside = np.zeros((B, n), dtype=bool)
    inside[:, 0] = True
    near = d[:, 0].copy()
    for _ in range(n - 1):
        new = np.where(inside, np.inf, near).argmin(1)
        to_new = d[sets, new]  # (B, n)
        sides = np.take_along_axis(d, after[..., None], 2)[..., 0]  # (B, n) from each point to the next
        longer = to_new + np.take_along_axis(to_new, after, 1) - sides
        place = np.where(inside, longer, np.inf).argmin(1)
        after[sets, new] = after[sets, place]
        after[sets, place] = new
        inside[sets, new] = True
        near = np.minimum(near, to_new)
    tour = np.zeros((B, n), dtype=np.int64)
    for place in range(1, n):
        tour[:, place] = after[sets, tour[:, place - 1]]
    return tour


def two_opt(points: Points, tour: Numbers) -> Numbers:
    """Reverse the stretch that shortens a tour most, until none does."""
    n = points.shape[1]
    tour = tour.copy()
    if n < 4:
        return tour
    d = _distances(points)
    rows = np.arange(len(points))
    i, j = np.triu_indices(n, 2)
    i, j = i[(j - i) < n - 1], j[(j - i) < n - 1]  # sides i → i + 1 and j → j + 1 share no point
    while len(rows):
        t = tour[rows]
        a, b, c, e = t[:, i], t[:, i + 1], t[:, j], t[:, (j + 1) % n]
        r = rows[:, None]
        gain = d[r, a, b] + d[r, c, e] - d[r, a, c] - d[r, b, e]
        best = gain.argmax(1)
        better = gain[np.arange(len(rows)), best] > 1e-12
        rows, best = rows[better], best[better]
        place = np.arange(n)
        low, high = i[best][:, None] + 1, j[best][:, None]
        turned = np.where((place >= low) & (place <= high), low + high - place, place)
        tour[rows] = np.take_along_axis(tour[rows], turned, 1)
    return tour


def _distances(points: Points) -> NDArray[np.float64]:
    """(B, n, 2) -> (B, n, n)."""
    points = np.asarray(points, dtype=np.float64)
    return np.linalg.norm(points[:, :, None] - points[:, None], axis=-1)


def _canonical(points: Points, tour: Numbers) -> Numbers:
    """The tour from point 0, counter-clockwise; where the area is zero, towards the lower number."""
    n = tour.shape[1]
    first = tour.argmin(1)[:, None]
    tour = np.take_along_axis(tour, (first + np.arange(n)) % n, 1)
    if n < 3:
        return tour
    path = np.take_along_axis(np.asarray(points, dtype=np.float64), tour[..., None], 1)
    x, y = path[..., 0], path[..., 1]
    signed = (x * np.roll(y, -1, 1) - np.roll(x, -1, 1) * y).sum(1)
    back = (signed < 0) | ((signed == 0) & (tour[:, 1] > tour[:, -1]))
    return np.where(back[:, None], np.take_along_axis(tour, (-np.arange(n) % n)[None], 1), tour)


# The questions by name --------------------------------------------------------------------------


class Question(NamedTuple):
    """What is asked of a point set."""

    dimension: int  # coordinates of a point
    solve: Callable[[Points, Numbers], Numbers]
    longest: Callable[[int], int]  # size of a set -> numbers of the longest answer


QUESTIONS: dict[str, Question] = {
    "sort": Question(1, orders, lambda n: n),
    "hull": Question(2, hulls, lambda n: n),
    "delaunay": Question(2, triangulations, lambda n: 3 * most_triangles(n)),
    "tsp": Question(2, tours, lambda n: n),
}


def check_points(owner: str, points: Points, *, dimension: int) -> Points:
    """The (n, D) points, if there are any, all of them numbers."""
    if points.ndim != 2 or points.shape[1] != dimension:
        raise DataError(
            f"{owner}: `points` has shape {points.shape}; expected (n, {dimension}), one point a row."
        )
    if len(points) == 0:
        raise DataError(f"{owner}: `points` has no rows; expected one or more.")
    if not np.isfinite(points).all():
        row = int(np.flatnonzero(~np.isfinite(points).all(1))[0])
        raise DataError(f"{owner}: point {row} has {points[row].tolist()}; expected finite numbers.")
    if float(np.abs(points).max()) > LARGEST:
        raise DataError(f"{owner}: `points` has numbers beyond {LARGEST:g}; expected smaller ones.")
    return points


def in_unit_square(points: Points) -> NDArray[np.float32]:
    """(n, D) -> the same figure inside [0, 1]: moved and scaled as one, where it is not there already.

    Hull, triangulation, order and shortest tour stay the same.
    """
    points = np.asarray(points, dtype=np.float64)
    low, extent = points.min(0), float(np.ptp(points, axis=0).max())
    if points.min() < 0 or points.max() > 1:
        points = (points - low) / (extent or 1.0)
    return points.astype(np.float32)


def same_cycle(a: list[int], b: list[int]) -> bool:
    """Whether two closed ways are the same, wherever they begin and in either direction."""
    if len(a) != len(b) or set(a) != set(b) or len(set(a)) != len(a):
        return False
    if len(a) < 3:
        return True
    start = b.index(a[0])
    turned = b[start:] + b[:start]
    return a in (turned, [turned[0], *turned[:0:-1]])


def perimeter(points: Points, order: list[int]) -> float:
    """The length of one closed way through these points."""
    path = np.asarray(points, dtype=np.float64)[[*order, order[0]]]
    return float(sum(np.linalg.norm(q - p) for p, q in pairwise(path)))
