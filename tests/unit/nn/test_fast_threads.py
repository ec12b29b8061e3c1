"""Threads that share the work of a loop: same bits, no deadlock, and the caller's number afterwards."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from mphil.nn import threads as threads_module
from mphil.nn.fast.aggregate import aggregate
from mphil.nn.fast.library import kernels, status
from mphil.nn.fast.linear import frozen_perceptron, perceptron
from mphil.nn.fast.normalise import Norm, Steps, standardised
from mphil.nn.threads import divided_cores, loop_threads, shared_loops, usable_cores

pytestmark = pytest.mark.skipif(status().library is None, reason=status().reason)
LIKE = torch.empty(0)


@pytest.fixture(scope="module", autouse=True)
def everything_is_shared():
    """Else most of what is small enough for a test would not be."""
    libraries = [kernels(torch.empty(0, dtype=dtype)) for dtype in (torch.float32, torch.float64)]
    for library in libraries:
        library.share_from(microseconds=0)
    yield
    for library in libraries:
        library.share_from(microseconds=-1)


def layer(
    threads: int, *, rows: int, before: int, width: int, after: int, shared: bool = False, dtype: torch.dtype
) -> list[Tensor]:
    """All that a layer gives: its result, running statistics, gradients, and its result in evaluation."""
    draw = torch.Generator().manual_seed(rows + width)
    shapes = ((rows, before), (width, before), (width,), (after, width), (after,), (width,), (width,))
    given = [torch.randn(*shape, generator=draw, dtype=dtype).requires_grad_() for shape in shapes]
    x, first, first_bias, last, last_bias, weight, bias = given
    counts = torch.randint(1, 5, (rows,), generator=draw) if shared else None
    norm = Norm(torch.zeros(width, dtype=dtype), torch.ones(width, dtype=dtype), torch.tensor(0), 0.1, 1e-5)
    maps = (first, first_bias), (last, last_bias)
    with shared_loops(threads, x):
        out = perceptron(x, *maps, (weight, bias), counts, norm)
        towards = torch.randn(out.shape, generator=draw, dtype=dtype)
        gradients = torch.autograd.grad(out, given, towards)
        with torch.no_grad():
            frozen = frozen_perceptron(x, *maps, torch.stack((weight, bias)))
    return [out.detach(), norm.running_mean, norm.running_variance, *gradients, frozen]


def alike(left: list[Tensor], right: list[Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(left, right, strict=True))


SIZES = {"rows": 1500, "before": 20, "width": 100, "after": 30, "dtype": torch.float32}


@settings(max_examples=25)
@given(
    rows=st.integers(2, 2000),
    before=st.integers(1, 20),
    width=st.integers(1, 120) | st.just(700),
    after=st.integers(1, 60),
    shared=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    threads=st.sampled_from([2, 3, 7]),
)
def test_the_number_changes_no_bit(threads, **sizes):
    assert alike(layer(1, **sizes), layer(threads, **sizes))


def normalised(threads: int, *, rows: int, width: int, shared: bool, dropped: bool, dtype: torch.dtype) -> list[Tensor]:
    """All that a normalisation gives: its result, running statistics and gradients."""
    draw = torch.Generator().manual_seed(rows + width)
    given = [torch.randn(*shape, generator=draw, dtype=dtype) for shape in ((rows, width), (width,), (width,))]
    x, weight, bias = (one.requires_grad_() for one in given)
    expand = torch.cat((torch.arange(rows), torch.randint(rows, (rows,), generator=draw))) if shared else None
    counts = None if expand is None else expand.bincount(minlength=rows)
    nodes = rows if expand is None else len(expand)
    draws = torch.randint(-100, 100, (nodes, width), generator=draw, dtype=torch.int16) if dropped else None
    norm = Norm(torch.zeros(width, dtype=dtype), torch.ones(width, dtype=dtype), torch.tensor(0), 0.1, 1e-5)
    with shared_loops(threads, x):
        out = standardised(x, weight, bias, counts, norm, Steps(True, expand, draws, 0, 0.5 if dropped else 1.0))
        gradients = torch.autograd.grad(out, (x, weight, bias), torch.randn(out.shape, generator=draw, dtype=dtype))
    return [out.detach(), norm.running_mean, norm.running_variance, *gradients]


@settings(max_examples=25)
@given(
    rows=st.integers(2, 1000),
    width=st.integers(1, 70),
    shared=st.booleans(),
    dropped=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    threads=st.sampled_from([2, 3, 7]),
)
def test_the_number_changes_no_bit_of_a_normalisation(threads, **sizes):
    assert alike(normalised(1, **sizes), normalised(threads, **sizes))


def messages(
    threads: int, *, rows: int, edges: int, width: int, bonds: int, owned: bool, weighted: bool, dtype: torch.dtype
) -> list[Tensor]:
    """All that an aggregation gives: its result and gradients. Many edges share a row and a bond."""
    draw = torch.Generator().manual_seed(rows + edges + width)
    h = torch.randn(rows, width, generator=draw, dtype=dtype).requires_grad_()
    own = torch.randint(rows, (rows // 2 + 1,), generator=draw) if owned else None
    source = torch.randint(rows, (edges,), generator=draw)
    target = torch.randint(rows if own is None else len(own), (edges,), generator=draw)
    bond = torch.randn(bonds, width, generator=draw, dtype=dtype).requires_grad_() if bonds else None
    code = torch.randint(bonds, (edges,), generator=draw) if bonds else None
    weight = torch.randn(edges, generator=draw, dtype=dtype).requires_grad_() if weighted else None
    with shared_loops(threads, h):
        out = aggregate(h, source, target, own=own, bond=bond, code=code, weight=weight)
        given = [one for one in (h, bond, weight) if one is not None]
        gradients = torch.autograd.grad(out, given, torch.randn(out.shape, generator=draw, dtype=dtype))
    return [out.detach(), *gradients]


@settings(max_examples=40)
@given(
    rows=st.integers(1, 600),
    edges=st.integers(0, 900),
    width=st.integers(1, 70) | st.just(300),
    bonds=st.integers(0, 4),
    owned=st.booleans(),
    weighted=st.booleans(),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    threads=st.sampled_from([2, 3, 7]),
)
def test_the_number_changes_no_bit_of_an_aggregation(threads, **sizes):
    assert alike(messages(1, **sizes), messages(threads, **sizes))


def test_python_threads_at_the_same_time():
    """One of them gets the helpers, the others work alone."""
    expected, found = layer(1, **SIZES), []

    def compute() -> None:
        found.extend(alike(expected, layer(2, **SIZES)) for _ in range(5))

    workers = [threading.Thread(target=compute) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert found == [True] * 15


def exit_code(succeeds: Callable[[], bool]) -> int | None:
    """Of a forked process, 0 if it succeeds; None if it does not end."""

    def run() -> None:
        torch.set_num_threads(1)
        os._exit(0 if succeeds() else 1)

    child = multiprocessing.get_context("fork").Process(target=run)
    child.start()
    child.join(60)
    ended = child.exitcode
    child.kill()
    return ended


def test_a_forked_process_begins_threads_of_its_own():
    expected = layer(2, **SIZES)
    assert exit_code(lambda: alike(expected, layer(2, **SIZES))) == 0
    assert alike(expected, layer(2, **SIZES))


def test_forked_while_others_work():
    """What the threads of the parent held at that moment is not held in the child."""
    x, first, last = (
        torch.randn(1500, 20),
        (torch.randn(100, 20), torch.randn(100)),
        (torch.randn(9, 100), torch.ones(9)),
    )

    def evaluate() -> Tensor:
        with torch.no_grad(), shared_loops(2, x):
            return frozen_perceptron(x, first, last, torch.ones(2, 100))

    expected, stop = evaluate(), threading.Event()

    def keep_busy() -> None:
        while not stop.is_set():
            evaluate()

    busy = threading.Thread(target=keep_busy)
    busy.start()
    try:
        for _ in range(5):
            assert exit_code(lambda: torch.equal(evaluate(), expected)) == 0
    finally:
        stop.set()
        busy.join()


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the system does not tell how many threads there are")
@pytest.mark.parametrize(("rows", "shares"), [(100, False), (5_000, True)])
def test_little_work_wakes_nobody(rows, shares):
    def threads_begin() -> bool:
        norm = Norm(torch.zeros(300), torch.ones(300), torch.tensor(0), 0.1, 1e-5)
        before = len(list(Path("/proc/self/task").iterdir()))
        kernels(LIKE).share_from(microseconds=-1)
        with shared_loops(2, LIKE), torch.no_grad():
            standardised(torch.randn(rows, 300), torch.ones(300), torch.zeros(300), None, norm, Steps())
        return len(list(Path("/proc/self/task").iterdir())) > before

    assert exit_code(lambda: threads_begin() == shares) == 0


class TestNumber:
    def test_belongs_to_the_block_and_the_python_thread(self):
        library = kernels(LIKE)
        seen = []
        with shared_loops(3, LIKE):
            other = threading.Thread(target=lambda: seen.append(library.set_threads(threads=1)))
            other.start()
            other.join()
            with pytest.raises(ValueError, match="wrong"), shared_loops(2, LIKE):
                raise ValueError("wrong")
            seen.append(library.set_threads(threads=3))
        assert [*seen, library.set_threads(threads=1)] == [1, 3, 1]

    def test_nothing_happens_without_compiled_loops(self):
        with shared_loops(2, torch.empty(0, dtype=torch.float16)):
            assert kernels(LIKE).set_threads(threads=1) == 1

    @pytest.mark.parametrize(
        ("cores", "said", "usable"),
        [(4, None, 4), (4, "1", 1), (4, "3,2", 3), (2, "8", 2), (2, "many", 2), (2, "0", 1)],
    )
    def test_usable_cores(self, monkeypatch, cores, said, usable):
        monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        if said is not None:
            monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert usable_cores() == usable

    def test_a_system_that_does_not_tell(self, monkeypatch):
        monkeypatch.setattr(sys, "platform", "darwin")
        monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
        monkeypatch.setattr(os, "cpu_count", lambda: 6)
        assert usable_cores() == 6

    def test_chosen_for_the_machine_unless_asked_for(self, monkeypatch):
        monkeypatch.setattr(threads_module, "usable_cores", lambda: 6)
        assert [loop_threads(asked) for asked in (0, 1, 5)] == [2, 1, 5]
        with divided_cores(4):
            assert [loop_threads(asked) for asked in (0, 1, 5)] == [1, 1, 5]
