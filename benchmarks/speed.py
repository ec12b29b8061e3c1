"""How much less processor time than plain PyG, and where the rest goes.

    OMP_NUM_THREADS=1 python benchmarks/speed.py            # under five minutes; make bench does this
    OMP_NUM_THREADS=1 python benchmarks/speed.py --quick    # about two, rougher

Every row is a ratio of processor seconds of one thread: ours and the yardstick (benchmarks/plain.py: the same method
and weights in `GINEConv`, `DataLoader` and Adam) take turns, each in a process of its own, and the median is taken of
the ratios of turns that follow on each other, so that what else the machine does weighs on both alike. Before anything
is timed, both must give the same loss. `side by side` compares seconds on the clock and means something on idle cores
only.

Adds one line to benchmarks/results/speed.jsonl: command, machine, versions, every figure.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import multiprocessing
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rdkit import Chem, rdBase
from torch.nn.utils import clip_grad_norm_
from torch.profiler import ProfilerActivity, profile
from torch_geometric.data import Data

from featurize import plain as plain_molecule
from mphil.benchmarks import benchmark
from mphil.benchmarks.sources import find
from mphil.config import EncoderConfig
from mphil.graphs.loader import Loader
from mphil.graphs.store import GraphStore
from mphil.methods import build_method
from mphil.methods.base import Method, Progress
from mphil.nn.fast.library import status
from mphil.nn.fast.linear import product
from mphil.nn.randomness import Dropout
from mphil.tables.from_smiles import molecule_store
from mphil.task import Task
from mphil.training.metrics import predict_logits
from mphil.training.process import kept_memory
from plain import plain_epoch, plain_method, plain_predictions

RESULTS = Path(__file__).parent / "results" / "speed.jsonl"
BATCH, EVAL_BATCH = 128, 1024
GOALS: dict[str, float] = json.loads(Path(__file__).with_name("goals.json").read_text())
"""At least so many times less time or memory; growth and classes compare us with ourselves."""

PRODUCTS = (
    *("aten::mm", "aten::addmm", "_Linear", "_LinearBackward", "_SparseLinear", "_SparseLinearBackward"),
    *("_Perceptron", "_PerceptronBackward"),
)
"""Where products are made; perceptrons have a normalisation between two of them."""
FLOPS: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(
        ("product", "chained_product", "sparse_product"),
        lambda given: 2 * math.prod(given[size] for size in ("rows", "depth", "columns")),
    ),
    "sparse_backward": lambda given: 4 * math.prod(given[size] for size in ("rows", "depth", "columns")),
    "perceptron": lambda given: 2 * given["rows"] * given["width"] * (given["before"] + given["after"]),
    "perceptron_backward": lambda given: (
        2
        * given["rows"]
        * given["width"]
        * ((1 if given["grad_x"] is None else 2) * given["before"] + 2 * given["after"])
    ),
}
"""Floating-point operations of the products in a call of our loops, left out zeros among them, by its arguments."""

Work = Callable[[], object]


class Problem:
    """Graphs, a task, and an encoder as the benchmarks use it."""

    def __init__(self, name: str, store: GraphStore, task: Task, **encoder: int) -> None:
        self.name, self.store, self.task = name, store, task
        self.config = EncoderConfig(node=store.node_features, edge=store.edge_features, **encoder)
        self.graphs = store.to_pyg()
        self.loader = Loader(store, torch.arange(len(store)), BATCH)

    def first(self, graphs: int) -> Problem:
        """The same with its first graphs."""
        size = {"layers": self.config.layers, "width": self.config.width}
        return Problem(self.name, self.store[:graphs], self.task, **size)

    def method(self, name: str) -> Method:
        torch.manual_seed(0)
        return build_method(name, self.task, self.config, {})

    def epochs(self, method: Method, optimizer: torch.optim.Optimizer, number: int = 1) -> None:
        """What the trainer does."""
        method.train()
        for batch in itertools.chain.from_iterable(self.loader.epoch(0, epoch) for epoch in range(number)):
            optimizer.zero_grad(set_to_none=True)
            method.loss(batch, Progress()).total.backward()  # type: ignore[no-untyped-call]
            clip_grad_norm_(optimizer.param_groups[0]["params"], 5.0)
            optimizer.step()

    def training(self, name: str) -> tuple[Work, Work]:
        """An epoch of the yardstick and one of ours."""
        ours = self.method(name)
        theirs = plain_method(ours)
        mine = torch.optim.Adam(ours.parameters(), lr=1e-3, fused=True)
        plain = torch.optim.Adam(theirs.parameters(), lr=1e-3)
        return lambda: plain_epoch(theirs, self.graphs, BATCH, plain), lambda: self.epochs(ours, mine)

    def check(self, name: str) -> None:
        """Same weights, same batch, no dropout: the same loss, or the times mean nothing."""
        ours, losses = self.method(name), []
        for method in (plain_method(ours), ours):
            for module in method.modules():
                if isinstance(module, Dropout | torch.nn.Dropout):
                    module.eval()
            torch.manual_seed(0)
            losses.append(method.loss(self.store.batch(torch.arange(64)), Progress()).total.item())
        if abs(losses[0] - losses[1]) > 1e-4 * abs(losses[0]):
            raise AssertionError(f"{name} on {self.name}: the yardstick's loss is {losses[0]}, ours is {losses[1]}")


def molecules(graphs: int) -> Problem:
    name = "good-hiv-scaffold" if find("hiv") is not None else "decoy-scaffold"
    data = benchmark(name)
    return Problem(name, _some(data.store, data.split.train, graphs), data.task, layers=3, width=300)


def motifs(graphs: int) -> Problem:
    data = benchmark("good-motif-basis", graphs=max(3000, 2 * graphs))
    return Problem("good-motif-basis", _some(data.store, data.split.train, graphs), data.task, layers=4, width=128)


def _some(store: GraphStore, part: torch.Tensor, n: int) -> GraphStore:
    order = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))
    return store.select(part[order[:n]])


def in_turns(repeats: int, *works: Work, keeping: Collection[Work] = ()) -> list[list[float]]:
    """Processor seconds of each, one after the other, again and again; the first turn warms up.

    Each has a process of its own, with a memory of its own: neither finds what another has left, or misses what it gave
    back. Those in `keeping` keep theirs from turn to turn, as training and its evaluations do.
    """
    taken: list[list[float]] = [[] for _ in works]
    with workers(works, keeping) as pipes:
        for turn in range(repeats + 1):
            for seconds, pipe in zip(taken, pipes, strict=True):
                pipe.send(turn)
                found = pipe.recv()
                if turn:
                    seconds.append(found)
    return taken


@contextmanager
def workers(works: Collection[Work], keeping: Collection[Work]) -> Iterator[list[Connection]]:
    """A process for each work; it does it once for everything it is sent, and answers with the processor seconds."""
    fork = multiprocessing.get_context("fork")
    pipes, processes = [], []
    for work in works:
        near, far = fork.Pipe()
        processes.append(fork.Process(target=_take_turns, args=(work, work in keeping, far), daemon=True))
        processes[-1].start()
        far.close()
        pipes.append(near)
    try:
        yield pipes
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _take_turns(work: Work, keep: bool, pipe: Connection) -> None:
    with kept_memory() if keep else nullcontext():
        while True:
            pipe.recv()
            start = time.process_time()
            work()
            pipe.send(time.process_time() - start)


def ratio(slow: list[float], fast: list[float]) -> float:
    """Median over the turns."""
    return median(one / other for one, other in zip(slow, fast, strict=True))


def against(plain: Work, ours: Work, graphs: int, repeats: int, keeping: Collection[Work] = ()) -> dict[str, float]:
    slow, fast = in_turns(repeats, plain, ours, keeping=keeping)
    per_thousand = [round(median(seconds) / graphs * 1000, 4) for seconds in (slow, fast)]
    return {"plain": per_thousand[0], "ours": per_thousand[1], "times": round(ratio(slow, fast), 2)}


def training(problem: Problem, name: str, repeats: int) -> dict[str, float]:
    problem.check(name)
    plain, ours = problem.training(name)
    return against(plain, ours, len(problem.graphs), repeats, keeping=[ours])


def inference(problem: Problem, repeats: int) -> dict[str, float]:
    ours = problem.method("mphil")
    theirs = plain_method(ours)
    loader = Loader(problem.store, torch.arange(len(problem.store)), EVAL_BATCH)
    fast = functools.partial(predict_logits, ours, loader)
    plain = functools.partial(plain_predictions, theirs, problem.graphs, BATCH)
    return against(plain, fast, len(problem.store), repeats, keeping=[fast])


def from_smiles(problem: Problem, repeats: int) -> dict[str, float]:
    """From text to logits; ours as in `mphil predict`, the yardstick with a loop over atoms."""
    smiles = list(problem.store.smiles or [])
    ours = problem.method("mphil")
    theirs = plain_method(ours)

    def plain() -> None:
        graphs = []
        for text in smiles:
            x, edge_index, edge_attr = map(torch.from_numpy, plain_molecule(Chem.MolFromSmiles(text)))
            graphs.append(Data(x=x.long(), edge_index=edge_index.long(), edge_attr=edge_attr.long()))
        plain_predictions(theirs, graphs, BATCH)

    def fast() -> None:
        store, _ = molecule_store(smiles, None, workers=0, progress=False)
        predict_logits(ours, Loader(store, torch.arange(len(store)), EVAL_BATCH))

    return against(plain, fast, len(smiles), repeats)


def growth(problem: Problem, repeats: int) -> dict[str, float]:
    """Time for a tenth of the graphs, ten times, over the time for all: 1 is linear.

    A tenth has four batches: a single one would find its own memory in the caches again.
    """
    whole = problem.store.select(torch.arange(40 * BATCH) % len(problem.store))
    works = []
    for store, epochs in ((whole[: 4 * BATCH], 5), (whole, 1)):
        part = Problem(problem.name, store, problem.task, layers=4, width=128)
        method = part.method("mphil")
        optimizer = torch.optim.Adam(method.parameters(), lr=1e-3, fused=True)
        works.append(functools.partial(part.epochs, method, optimizer, epochs))
    small, large = in_turns(repeats, *works, keeping=works)
    return {"times": round(10 / 5 * ratio(small, large), 3)}


def many_classes(problem: Problem, repeats: int) -> dict[str, float]:
    """Time for two classes over the time for a hundred, six prototypes each: 1 is free."""
    works = []
    for classes in (2, 100):
        task = Task("multiclass", classes, "accuracy")
        y = (torch.arange(len(problem.store)) % classes).float().unsqueeze(1)
        store = GraphStore(**{**vars(problem.store), "y": y})
        other = Problem(problem.name, store, task, layers=4, width=128)
        torch.manual_seed(0)
        method = build_method("mphil", task, other.config, {"prototypes": 6})
        optimizer = torch.optim.Adam(method.parameters(), lr=1e-3, fused=True)
        works.append(functools.partial(other.epochs, method, optimizer))
    two, hundred = in_turns(repeats, *works, keeping=works)
    return {"times": round(ratio(two, hundred), 3)}


def child(kind: str) -> None:
    """One training in a process of its own: prints the memory it took beyond what was there before, in MB."""
    torch.set_num_threads(1)
    plain, ours = molecules(4 * BATCH).training("mphil")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here
    before = _megabytes("VmRSS")
    with nullcontext() if kind == "plain" else kept_memory():
        (plain if kind == "plain" else ours)()
    print(_megabytes("VmHWM") - before)


def _megabytes(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def start(kind: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, "--child", kind], stdout=subprocess.PIPE, text=True)


def memory() -> dict[str, float]:
    """Megabytes that training takes, each in a process that has done nothing else."""
    plain, ours = (float(start(kind).communicate()[0]) for kind in ("plain", "ours"))
    return {"plain": round(plain), "ours": round(ours), "times": round(plain / ours, 2)}


def company(problem: Problem, repeats: int) -> dict[str, float]:
    """Two runs one after the other over the same two at once, on the clock."""
    works = [problem.training("mphil")[1] for _ in range(2)]
    gains = []
    with workers(works, works) as pipes:

        def run(some: list[Connection]) -> None:
            for pipe in some:
                pipe.send("go")
            for pipe in some:
                pipe.recv()

        run(pipes)
        for _ in range(repeats):
            alone = [_clock(functools.partial(run, [pipe])) for pipe in pipes]
            gains.append(sum(alone) / _clock(lambda: run(pipes)))
    return {"times": round(median(gains), 2), "load": round(os.getloadavg()[0], 1)}


def shares(problem: Problem) -> dict[str, Any]:
    """Where the time of our training goes, and how fast the matrix products are, next to the fastest one seen."""
    _, ours = problem.training("mphil")
    ours()
    with profile(activities=[ProfilerActivity.CPU], with_flops=True) as seen, counted() as flops:
        ours()
    events = seen.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    products = [event for event in events if event.key in PRODUCTS]
    speed = (sum(e.flops for e in products) + sum(flops)) / sum(e.self_cpu_time_total for e in products) / 1e3
    top = sorted(events, key=lambda event: -event.self_cpu_time_total)[:12]
    return {
        "shares": {event.key: round(event.self_cpu_time_total / total, 3) for event in top},
        "products": round(sum(event.self_cpu_time_total for event in products) / total, 3),
        "gigaflops": round(speed, 1),
        "attainable_gigaflops": round(attainable(), 1),
    }


@contextmanager
def counted() -> Iterator[list[int]]:
    """Floating-point operations of the products in our loops, one entry a call."""
    flops: list[int] = []
    library = status("float").library
    loops = {} if library is None else {name: getattr(library, name) for name in FLOPS}

    def counting(name: str) -> Callable[..., Any]:
        def call(**given: Any) -> Any:
            flops.append(FLOPS[name](given))
            return loops[name](**given)

        return call

    for name in loops:
        setattr(library, name, counting(name))
    try:
        yield flops
    finally:
        for name, loop in loops.items():
            setattr(library, name, loop)


def attainable() -> float:
    """Gigaflops of the best of many large products, of torch or our own."""
    a, b, out = torch.randn(3072, 512), torch.randn(512, 512), torch.empty(3072, 512)
    best = min(_clock(work) for _ in range(30) for work in (lambda: torch.mm(a, b, out=out), lambda: product(a, b)))
    return 2 * 3072 * 512 * 512 / best / 1e9


def _clock(work: Work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.processor(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "fast": "compiled" if status().library is not None else status().reason,
        **{name: version(name) for name in ("mphil", "torch", "torch_geometric", "rdkit")},
    }


def measure(quick: bool) -> dict[str, Any]:
    """Everything; a row is printed as soon as it is known."""
    many, drawn = molecules(EVAL_BATCH * (1 if quick else 2)), motifs(BATCH * (4 if quick else 8))
    some, few = many.first(BATCH * (2 if quick else 4)), many.first(BATCH)
    rows: dict[str, Any] = {}
    print(f"{'':30}{'plain':>9}{'ours':>9}{'times':>9}{'wanted':>9}")
    for name, row in measured(many, some, few, drawn, turns=2 if quick else 4):
        rows[name] = row
        print(line(name, row), flush=True)
    data = {"molecules": some.name, "graphs": len(some.graphs), "motifs": len(drawn.graphs)}
    return {"data": data, "rows": rows, "profile": {p.name: shares(p) for p in (some, drawn)}}


def measured(
    many: Problem, some: Problem, few: Problem, drawn: Problem, turns: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Rows of the table, for different numbers of molecules, and for motifs."""
    for name, problem, repeats in (
        ("mphil", some, 2 * turns),
        ("erm", some, turns + 2),
        ("gsat", few, turns),
        ("ciga-v1", few, turns),
        ("dir", few, turns),
    ):
        yield f"{name} training, molecules", training(problem, name, repeats)
    yield "mphil training, motif", training(drawn, "mphil", 2 * turns)
    yield "mphil inference, molecules", inference(many, turns - 1)
    yield "mphil inference, motif", inference(drawn, turns)
    yield "smiles to prediction", from_smiles(some, turns)
    yield "10x the data", growth(drawn, turns)
    yield "2 to 100 classes", many_classes(drawn.first(len(drawn.graphs) // 2), 6 * turns)
    yield "memory of training", memory()
    yield "side by side", company(some, turns)


def line(name: str, row: dict[str, float]) -> str:
    """A row of the table. Plain and ours are seconds for 1,000 graphs, or megabytes."""
    amounts = "".join(f"{row[side]:9.3g}" if side in row else " " * 9 for side in ("plain", "ours"))
    goal = GOALS.get(name)
    verdict = "" if goal is None else f"{goal:9.2f}  {'reached' if row['times'] >= goal else 'not reached'}"
    return f"{name:30}{amounts}{row['times']:9.2f}{verdict}"


def where_time_goes(item: tuple[str, dict[str, Any]]) -> str:
    name, found = item
    most = ", ".join(f"{what} {share:.0%}" for what, share in list(found["shares"].items())[:6])
    speed = (
        f"{found['gigaflops']:.0f} (zeros counted) of {found['attainable_gigaflops']:.0f} attainable gigaflops a second"
    )
    return f"\nmphil training on {name}: {found['products']:.0%} hidden layers, their products at {speed}\n  {most}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer graphs and turns; nothing is written")
    parser.add_argument("--child", choices=["plain", "ours"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    torch.set_num_threads(1)
    rdBase.DisableLog("rdApp.*")
    began = time.perf_counter()
    found = {"command": "OMP_NUM_THREADS=1 python benchmarks/speed.py", "machine": machine(), **measure(options.quick)}
    found["seconds"] = round(time.perf_counter() - began)
    if not options.quick:
        with RESULTS.open("a") as file:
            file.write(json.dumps(found) + "\n")
    print(*map(where_time_goes, found["profile"].items()), sep="\n")


if __name__ == "__main__":
    main()
