"""Seconds to generate GOOD-Motif, and how many times faster that is than plain networkx in the same run.

Run with OMP_NUM_THREADS=1 for the figures of one core.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable

import networkx as nx

from mphil.benchmarks.catalogue import Benchmark, benchmark

MOTIFS = (nx.house_graph(), nx.cycle_graph(5), nx.complete_bipartite_graph(2, 3))


def plain_graph(rng: random.Random) -> nx.Graph:
    """One in-domain graph of good-motif-basis, one call at a time."""
    kind, width = rng.randrange(3), rng.randint(5, 15)
    base = (
        nx.wheel_graph(width),
        nx.balanced_tree(2, 2 if width > 7 else 1),
        nx.ladder_graph(width),
    )[kind]
    graph = nx.disjoint_union(base, rng.choice(MOTIFS))
    graph.add_edge(len(base), rng.randrange(len(base)))
    for _ in range(graph.number_of_edges() // 20):
        u, v = rng.sample(range(len(graph)), 2)
        while graph.has_edge(u, v):
            u, v = rng.sample(range(len(graph)), 2)
        if min(u, v) < len(base):
            graph.add_edge(u, v)
    return graph


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=int, default=30_000)
    parser.add_argument("--plain-graphs", type=int, default=3_000, help="graphs built with networkx, scaled up")
    parser.add_argument("--repeats", type=int, default=3, help="the median is reported")
    args = parser.parse_args()

    def build(name: str) -> Callable[[], Benchmark]:
        return lambda: benchmark(name, graphs=args.graphs)

    rng = random.Random(0)
    plain = seconds(lambda: [plain_graph(rng) for _ in range(args.plain_graphs)]) * args.graphs / args.plain_graphs
    build("good-motif-basis")()  # the first call pays for imports and memory
    for name in ("good-motif-basis", "good-motif-size", "good-motif-basis-concept", "good-motif-size-concept"):
        own = sorted(seconds(build(name)) for _ in range(args.repeats))[args.repeats // 2]
        record = {"benchmark": name, "graphs": args.graphs, "seconds": round(own, 3)}
        if name == "good-motif-basis":
            record |= {"networkx_seconds": round(plain, 2), "times_faster": round(plain / own, 1)}
        print(json.dumps(record))


if __name__ == "__main__":
    main()
