"""Classical tour algorithms, as baselines for pointer networks (Vinyals 2015, table 2).

    nearest insertion   inserts the point nearest to the tour where it lengthens the tour least
    Christofides        a minimum spanning tree plus a minimum matching of its vertices of odd degree; an
                        Euler walk over all edges, repeated points skipped: at most 3/2 of the shortest
    shortest            Held and Karp's table up to 12 points; beyond, an integer program:

        the least Σ d_ij x_ij,   Σ_j x_ij = 2 for each point i,   Σ_{i, j in Z} x_ij ≤ |Z| - 1

The last inequality is added for the set Z of each subtour of a solution, until there is only one tour
(Dantzig, Fulkerson, Johnson 1954). The program needs scipy, the matching networkx, which torch installs.

Christofides. Worst-case analysis of a new heuristic for the travelling salesman problem. 1976.
Dantzig, Fulkerson, Johnson. Solution of a large-scale traveling-salesman problem. 1954.
"""

from collections.abc import Callable
from math import inf

import torch
from torch import Tensor

from regard.data.geometry import EXACT, distances, exact_tours, nearest_insertion


def christofides(points: Tensor) -> list[int]:
    """(n, 2) -> the tour of one set."""
    from networkx import Graph, min_weight_matching

    n = len(points)
    if n < 4:
        return list(range(n))
    d = distances(points)
    sides = spanning_tree(d)
    odd = (torch.tensor(sides).flatten().bincount() % 2).nonzero()[:, 0].tolist()
    graph = Graph()
    graph.add_weighted_edges_from((a, b, float(d[a, b])) for k, a in enumerate(odd) for b in odd[k + 1 :])
    walk = closed_walk([*sides, *min_weight_matching(graph)], n)
    return list(dict.fromkeys(walk))


def spanning_tree(d: Tensor) -> list[tuple[int, int]]:
    """(n, n) distances -> the edges of a minimum spanning tree (Prim)."""
    near, parent = d[0], torch.zeros(len(d), dtype=torch.int64)
    inside = torch.zeros(len(d), dtype=torch.bool)
    inside[0] = True
    sides = []
    for _ in range(len(d) - 1):
        new = int(near.masked_fill(inside, inf).argmin())
        sides.append((int(parent[new]), new))
        inside[new] = True
        parent[d[new] < near] = new
        near = torch.minimum(near, d[new])
    return sides


def closed_walk(sides: list[tuple[int, int]], n: int) -> list[int]:
    """An Euler walk from point 0; every point must have even degree (Hierholzer)."""
    around: list[list[int]] = [[] for _ in range(n)]
    for number, side in enumerate(sides):
        for point in side:
            around[point].append(number)
    used = [False] * len(sides)
    stack, walk = [0], []
    while stack:
        here = stack[-1]
        while around[here] and used[around[here][-1]]:
            around[here].pop()
        if not around[here]:
            walk.append(stack.pop())
            continue
        number = around[here].pop()
        used[number] = True
        a, b = sides[number]
        stack.append(b if here == a else a)
    return walk


def shortest_tour(points: Tensor) -> list[int]:
    """(n, 2) -> the shortest tour of one set."""
    n = len(points)
    if n <= EXACT:
        return exact_tours(points[None])[0].tolist()
    from networkx import Graph, connected_components, find_cycle
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_matrix

    sides = torch.triu_indices(n, n, 1)
    lengths = distances(points)[*sides].numpy()
    columns = torch.arange(len(lengths)).repeat(2)
    degrees = csr_matrix((torch.ones(len(columns)).numpy(), (sides.flatten().numpy(), columns.numpy())))
    constraints = [LinearConstraint(degrees, 2, 2)]
    while True:
        found = milp(
            lengths,
            integrality=1,
            bounds=Bounds(0, 1),
            constraints=constraints,
            options={"mip_rel_gap": 0.0},
        )
        graph = Graph(sides.T[torch.from_numpy(found.x > 0.5)].tolist())  # two edges at every point
        tours = list(connected_components(graph))
        if len(tours) == 1:
            return [point for point, _ in find_cycle(graph, 0)]
        for tour in tours:
            inside = torch.isin(sides, torch.tensor(list(tour))).all(0)
            constraints.append(LinearConstraint(inside.double().numpy(), -inf, len(tour) - 1))


BASELINES: dict[str, Callable[[Tensor], list[int]]] = {
    "shortest": shortest_tour,
    "Christofides": christofides,
    "nearest insertion": lambda points: nearest_insertion(points[None])[0].tolist(),
}
