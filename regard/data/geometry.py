"""Point sets and what can be asked of them: order, convex hull, Delaunay triangulation, shortest tour.

Every answer is one canonical list of point indices, so that a network can learn it:

    order       the points from the smallest to the largest; ties go to the lower index
    hull        its corners counter-clockwise, starting at the lowest index
    triangles   each as three ascending indices, sorted by the incentre (x, then y)
    tour        from point 0, counter-clockwise (the sign of its area; the paper leaves the direction open)

Degenerate input has a defined answer. Points on an edge of the hull are not corners; of coinciding points
only the lowest index counts; the hull of collinear points is the two ends, and they have no triangles; one
point is its own hull and its own tour.

Solvers take many sets at once, (B, N, 2) padded to the largest, with the (B,) sizes, and return (B, M)
indices padded with -1.

    hulls               the two chains of Andrew (1979), all points that are not corners dropped at once
    triangulations      gift wrapping (Chand, Kapur 1970) of the points on a paraboloid, all sets in step
    exact_tours         Held and Karp (1962), O(n² 2ⁿ): all subsets of one size at a time
    heuristic_tours     nearest insertion (Rosenkrantz, Stearns, Lewis 1977), then 2-opt (Croes 1958)
"""

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from math import dist
from typing import NamedTuple

import torch
from torch import Tensor

from regard.data.lexsort import lexsort
from regard.errors import ConfigError, DataError

LARGEST = 1e100  # absolute coordinate: differences of such numbers are still finite
EXACT = 12  # points up to which tours are optimal: the tables of one set have n 2ⁿ entries
_TABLE = 2**22  # entries of these tables at a time, so that they stay in the cache


# Order ----------------------------------------------------------------------------------------------


def orders(points: Tensor, sizes: Tensor) -> Tensor:
    """(B, N, 1), (B,) -> (B, N) indices of the points, the smallest first."""
    padding = torch.arange(points.shape[1]) >= sizes[:, None]
    return points[..., 0].masked_fill(padding, torch.inf).argsort(stable=True).masked_fill_(padding, -1)


# Convex hull ----------------------------------------------------------------------------------------


def hulls(points: Tensor, sizes: Tensor) -> Tensor:
    """(B, N, 2), (B,) -> (B, N) corners of each hull, counter-clockwise from the lowest index."""
    B, N = points.shape[:2]
    order, m = _sorted_distinct(points, sizes)
    # the path from the first sorted point to the last and back; the sets are concatenated
    last = m[:, None] - 1
    place = last - (torch.arange(2 * N - 1) - last).abs()
    row, at = (place >= 0).nonzero().T
    place = place[row, at]
    number = order[row, place]
    x, y = points[row, number].double().T
    inner = (place > 0) & (place < m[row] - 1)
    while True:  # drop points at which the path does not turn left; repeat, as others may follow
        right, up = x.diff(), y.diff()
        stays = ~inner
        stays[1:-1] |= right[:-1] * up[1:] > up[:-1] * right[1:]
        if stays.all():
            break
        row, number, x, y, inner = (each[stays] for each in (row, number, x, y, inner))
    corners = torch.full((B, N + 1), N)
    corners[row, torch.arange(len(row)) - torch.searchsorted(row, row)] = number
    count = (row.bincount(minlength=B)[:, None] - 1).clamp_(min=1)  # the path ends at its first point
    place = torch.arange(N)
    first = corners.argmin(1, keepdim=True)
    return corners.gather(1, (place + first) % count).masked_fill_(place >= count, -1)


def _sorted_distinct(points: Tensor, sizes: Tensor) -> tuple[Tensor, Tensor]:
    """(B, N) indices sorted by x, then y, without duplicates; (B,) how many."""
    N = points.shape[1]
    padding = torch.arange(N) >= sizes[:, None]
    x, y = points.masked_fill(padding[..., None], torch.inf).unbind(2)
    order = lexsort(x, y)
    x, y = x.gather(1, order), y.gather(1, order)
    gone = x.isinf()
    gone[:, 1:] |= (x[:, 1:] == x[:, :-1]) & (y[:, 1:] == y[:, :-1])
    return order.gather(1, gone.argsort(stable=True)), N - gone.sum(1)


def area(polygon: Tensor) -> float:
    """(k, 2) corners -> the signed area, positive counter-clockwise."""
    return float(_twice_the_area(polygon)) / 2


def _twice_the_area(polygons: Tensor) -> Tensor:
    """(..., k, 2) -> (...)."""
    x, y = polygons.double().unbind(-1)
    return (x * y.roll(-1, -1) - x.roll(-1, -1) * y).sum(-1)


def is_simple(polygon: Tensor) -> bool:
    """Whether (k, 2) corners, three or more, are all different and no two sides cross or touch."""
    a = polygon.double()
    k = len(a)
    if k < 3 or len(set(map(tuple, a.tolist()))) < k:
        return False
    b, c = a.roll(-1, 0), a.roll(-2, 0)
    # on which side of edge i each end of edge j lies
    start, end = _side(a[:, None], b[:, None], a), _side(a[:, None], b[:, None], b)
    apart = (torch.arange(k)[:, None] - torch.arange(k)).abs()
    far = (apart > 1) & (apart < k - 1)  # neighbours share a corner
    crossing = (start * end <= 0) & (start * end <= 0).T & far
    flat = (start == 0) & (end == 0) & far  # collinear: they meet only if their bounding boxes do
    low, high = torch.minimum(a, b), torch.maximum(a, b)
    boxes = ((low[:, None] <= high) & (low <= high[:, None])).all(-1)
    folded = (_side(a, b, c) == 0) & (((b - a) * (c - b)).sum(-1) < 0)
    return not ((crossing & (~flat | boxes)).any() or folded.any())


def _side(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """On which side of the line from a to b the point c lies: 1 on the left, -1 on the right."""
    u, v = b - a, c - a
    return (u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]).sign()


# Delaunay triangulation ---------------------------------------------------------------------------


def triangulations(points: Tensor, sizes: Tensor) -> Tensor:
    """(B, N, 2), (B,) -> (B, 3 (2N - 5)) triangles, three indices each; none for collinear points."""
    B, N = points.shape[:2]
    found = torch.full((B, most_triangles(N), 3), -1)
    block = max(1, _TABLE // N**2)
    for i in range(0, B, block):
        sets = points[i : i + block].double()
        row, corners = torch.split(_wrapped(sets, sizes[i : i + block]), [1, 3], 1)
        corners = corners.sort().values
        order = lexsort(row[:, 0], *incentres(sets[row, corners]).T)
        row = row[order, 0]
        place = torch.arange(len(row)) - torch.searchsorted(row, row)
        found[i + row, place] = corners[order]
    return found.flatten(1)


def most_triangles(n: int) -> int:
    """2 n - 2 - h with the smallest possible hull, h = 3; 0 for fewer than three points."""
    return max(0, 2 * n - 5)


def _wrapped(points: Tensor, sizes: Tensor) -> Tensor:
    """(B, N, 2), (B,) -> (K, 4): the index of a set and those of the three corners of a triangle in it.

    Walks from edge to edge, always to the triangle whose circumcircle is empty.

    Lifted to z = x² + y², the triangles are the lower faces of the convex hull (Brown 1979): across each edge
    of a face, the next one rises least. Heights are perturbed by a little more than the rounding error, so
    that all faces break ties in the same way where several points lie on one circle.
    """
    B, N = points.shape[:2]
    order, m = _sorted_distinct(points, sizes)
    there = torch.zeros(B, N, dtype=torch.bool).scatter_(1, order, torch.arange(N) < m[:, None])
    points = points.masked_fill(~there[..., None], torch.nan)  # NaN is on neither side of an edge
    points = points - points.nanmean(1, keepdim=True)
    x, y = (points / points.abs().nan_to_num(0).amax((1, 2), keepdim=True)).unbind(2)
    z = x**2 + y**2 + 1e-13 * ((there.double().cumsum(1) - 1) * 0.6180339887498949).frac()
    flat = 1e-14  # rounding error in the area of three collinear points
    a = order[:, :1]
    right, up = x - x.gather(1, a), y - y.gather(1, a)
    # all others lie to the right of a: the one of least slope, then the nearest, is on the hull
    slope = torch.atan2(up, right).masked_fill(~there.scatter(1, a, False), torch.inf)
    low = slope <= slope.amin(1, keepdim=True) + flat
    b = torch.where(low, right.hypot(up), torch.inf).argmin(1, keepdim=True)
    todo = torch.cat([a, b], 1)[:, None].repeat(1, 2 * N, 1)  # a stack of edges for each set
    top = torch.ones(B, dtype=torch.int64)  # height of each stack
    done, found = torch.zeros(B, N, N, dtype=torch.bool), []
    while len(row := top.nonzero()[:, 0]):
        top[row] -= 1
        a, b = todo[row, top[row]].T
        new = ~done[row, a, b]
        row, a, b = row[new], a[new], b[new]
        right, up, height = (k[row] - k[row, a, None] for k in (x, y, z))
        u, v, w = (k.gather(1, b[:, None]) for k in (right, up, height))
        left = u * up - v * right
        rise = height - (u * right + v * up) / (u * u + v * v) * w
        least, c = torch.where(left > flat, rise / left, torch.inf).min(1)
        row, a, b, c = each = torch.stack([row, a, b, c])[:, least < torch.inf]
        found.append(each.T)
        for start, end in ((a, b), (b, c), (c, a)):
            done[row, start, end] = True
        for start, end in ((c, b), (a, c)):
            todo[row, top[row]] = torch.stack([start, end], 1)
            top[row] += 1
    return torch.cat(found)


def incentres(corners: Tensor) -> Tensor:
    """(k, 3, 2) -> (k, 2): the mean of the corners, each weighted by the length of the opposite side."""
    corners = corners.double()
    opposite = (corners.roll(-1, 1) - corners.roll(1, 1)).norm(dim=-1, keepdim=True)
    weights = opposite / opposite.sum(1, keepdim=True).clamp_(min=torch.finfo(torch.float64).tiny)
    return (weights * corners).sum(1)


# Tours ----------------------------------------------------------------------------------------------


def tours(points: Tensor, sizes: Tensor) -> Tensor:
    """(B, N, 2), (B,) -> (B, N) tours: optimal up to EXACT points, heuristic beyond."""
    found = torch.full(points.shape[:2], -1)
    for n in set(sizes.tolist()):
        here = sizes == n
        solve = exact_tours if n <= EXACT else heuristic_tours
        found[here, :n] = solve(points[here, :n])
    return found


def exact_tours(points: Tensor) -> Tensor:
    """(B, n, 2) -> (B, n) shortest tours, n up to 12.

    cost[mask, j] is the shortest path from point 0 through the points of the mask, ending at j:

        cost[mask, j] = min over i in mask without j of cost[mask without j, i] + d(i, j)
    """
    B, n = points.shape[:2]
    if n > EXACT:
        raise ConfigError(f"exact_tours: `points` has {n} points a set; expected at most {EXACT}.")
    if n < 4:
        return _canonical(points, torch.arange(n).expand(B, n))
    block = max(1, _TABLE // (2 ** (n - 1) * (n - 1)))
    return torch.cat([_held_karp(each) for each in torch.split(points, block)])


def _held_karp(points: Tensor) -> Tensor:
    B, n = points.shape[:2]
    m = n - 1  # point k + 1 is bit k
    d = distances(points).permute(1, 2, 0).contiguous()  # (n, n, B): the batch last
    cost = torch.full((2**m, m, B), torch.inf, dtype=d.dtype)
    for k in range(m):
        cost[1 << k, k] = d[0, k + 1]
    for j, masks in _subsets(m):
        cost[masks, j] = (cost[masks ^ (1 << j)] + d[1:, j + 1]).amin(1)
    sets = torch.arange(B)
    mask = torch.full((B,), 2**m - 1)
    tour = torch.zeros(B, n, dtype=torch.int64)
    for place in range(m, 0, -1):
        to = tour[:, (place + 1) % n]
        last = (cost[mask, :, sets] + d[1:, to, sets].T).argmin(1)
        tour[:, place] = last + 1
        mask ^= 1 << last
    return _canonical(points, tour)


@cache
def _subsets(m: int) -> list[tuple[int, Tensor]]:
    """For each size from 2 and each bit j, the masks of that size that contain j."""
    masks = torch.arange(2**m)
    size = (masks[:, None] >> torch.arange(m) & 1).sum(1)
    return [(j, masks[(size == k) & (masks >> j & 1 == 1)]) for k in range(2, m + 1) for j in range(m)]


def heuristic_tours(points: Tensor) -> Tensor:
    """(B, n, 2) -> (B, n) tours: nearest insertion, then 2-opt until no exchange of two sides is shorter."""
    return _canonical(points, two_opt(points, nearest_insertion(points)))


def nearest_insertion(points: Tensor) -> Tensor:
    """(B, n, 2) -> (B, n): always insert the point nearest to the tour, where it lengthens the tour least."""
    B, n = points.shape[:2]
    d = distances(points)
    sets = torch.arange(B)
    after = torch.zeros(B, n, dtype=torch.int64)  # the successor of each point; at first 0 is its own
    outside = torch.ones(B, n, dtype=torch.bool)
    outside[:, 0] = False
    near = d[:, 0]
    for _ in range(n - 1):
        new = torch.where(outside, near, torch.inf).argmin(1)
        to_new = d[sets, new]  # (B, n)
        sides = d.gather(2, after[..., None])[..., 0]  # (B, n) from each point to the next
        longer = to_new + to_new.gather(1, after) - sides
        place = longer.masked_fill_(outside, torch.inf).argmin(1)
        after[sets, new] = after[sets, place]
        after[sets, place] = new
        outside[sets, new] = False
        near = torch.minimum(near, to_new)
    tour = torch.zeros(B, n, dtype=torch.int64)
    for t in range(1, n):
        tour[:, t] = after[sets, tour[:, t - 1]]
    return tour


def two_opt(points: Tensor, tour: Tensor) -> Tensor:
    """Reverse the segment that shortens the tour most, until none does."""
    n = points.shape[1]
    tour = tour.clone()
    if n < 4:
        return tour
    d = distances(points)
    rows = torch.arange(len(points))
    place = torch.arange(n)
    i, j = torch.triu_indices(n, n, 2)
    i, j = i[j - i < n - 1], j[j - i < n - 1]  # sides i → i + 1 and j → j + 1 share no point
    while len(rows):
        t = tour[rows]
        a, b, c, e = t[:, i], t[:, i + 1], t[:, j], t[:, (j + 1) % n]
        r = rows[:, None]
        gain, best = (d[r, a, b] + d[r, c, e] - d[r, a, c] - d[r, b, e]).max(1)
        better = gain > 1e-12
        rows, best = rows[better], best[better]
        low, high = i[best, None] + 1, j[best, None]
        turned = torch.where((place >= low) & (place <= high), low + high - place, place)
        tour[rows] = tour[rows].gather(1, turned)
    return tour


def distances(points: Tensor) -> Tensor:
    """(..., n, 2) -> (..., n, n)."""
    points = points.double()
    return torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist")


def _canonical(points: Tensor, tour: Tensor) -> Tensor:
    """The tour from point 0, counter-clockwise; if its area is zero, towards the lower index."""
    n = tour.shape[1]
    place = torch.arange(n)
    tour = tour.gather(1, (tour.argmin(1, keepdim=True) + place) % n)
    if n < 3:
        return tour
    signed = _twice_the_area(points.gather(1, tour[..., None].expand(-1, -1, 2)))
    back = (signed < 0) | ((signed == 0) & (tour[:, 1] > tour[:, -1]))
    return torch.where(back[:, None], tour[:, -place % n], tour)


# The questions by name --------------------------------------------------------------------------


class Question(NamedTuple):
    """A problem posed on point sets."""

    dimension: int  # coordinates of a point
    solve: Callable[[Tensor, Tensor], Tensor]
    longest: Callable[[int], int]  # size of a set -> length of the longest answer


QUESTIONS: dict[str, Question] = {
    "sort": Question(1, orders, lambda n: n),
    "hull": Question(2, hulls, lambda n: n),
    "delaunay": Question(2, triangulations, lambda n: 3 * most_triangles(n)),
    "tsp": Question(2, tours, lambda n: n),
}


def check_points(owner: str, points: Tensor, *, dimension: int) -> Tensor:
    """The (n, D) points; raises unless there is at least one and all are finite."""
    if points.ndim != 2 or points.shape[1] != dimension:
        raise DataError(
            f"{owner}: `points` has shape {tuple(points.shape)}; expected (n, {dimension}), one point a row."
        )
    if len(points) == 0:
        raise DataError(f"{owner}: `points` has no rows; expected one or more.")
    finite = points.isfinite().all(1)
    if not finite.all():
        row = int(finite.byte().argmin())
        raise DataError(f"{owner}: point {row} has {points[row].tolist()}; expected finite numbers.")
    if float(points.abs().max()) > LARGEST:
        raise DataError(f"{owner}: `points` has numbers beyond {LARGEST:g}; expected smaller ones.")
    return points


def in_unit_square(points: Tensor) -> Tensor:
    """(n, D) -> the points shifted and scaled into [0, 1] with one factor, if they are not there already.

    Hull, triangulation, order and shortest tour do not change. The result is float32.
    """
    points = points.double()
    low, high = points.amin(0), points.amax(0)
    if low.min() < 0 or high.max() > 1:
        points = (points - low) / (float((high - low).max()) or 1.0)
    return points.float()


def same_cycle(a: list[int], b: list[int]) -> bool:
    """Whether two closed paths are the same, wherever they begin and in either direction."""
    if len(a) != len(b) or set(a) != set(b) or len(set(a)) != len(a):
        return False
    if len(a) < 3:
        return True
    start = b.index(a[0])
    turned = b[start:] + b[:start]
    return a in (turned, [turned[0], *turned[:0:-1]])


def perimeter(points: Tensor, order: list[int]) -> float:
    """The length of a closed path through these points."""
    path = points.double()[[*order, order[0]]].tolist()
    return sum(dist(a, b) for a, b in pairwise(path))
