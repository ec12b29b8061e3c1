"""How to compile the loops: the sum of messages, forward and backward, in four ways.

    OMP_NUM_THREADS=1 python benchmarks/compile_choice.py

C through ctypes (what the library does), numba, a C++ extension of torch, and torch's own operations; the same numbers
are demanded of all before they are timed. Two shapes: molecules (N 3,200, E 7,000, width 300, 16 kinds of bonds) and
Motif (N 2,100, E 6,000, width 128, no bonds). `seconds` is what the first call costs a user who has nothing cached:
import, compilation, loading. What is not installed, or does not build, is left out and says so.

Adds one line to benchmarks/results/compile_choice.jsonl.
"""

from __future__ import annotations

import ctypes
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor

from mphil.nn.fast.aggregate import plain_aggregate
from mphil.nn.fast.compiling import compile_library, compiler
from mphil.nn.fast.loading import Loops
from speed import in_turns, machine

RESULTS = Path(__file__).parent / "results" / "compile_choice.jsonl"
SHAPES = {"molecules": (3200, 7000, 300, 16), "motif": (2100, 6000, 128, 0)}
FLAGS = ["-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math"]

Given = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor]
"""Rows, source, target, bonds, codes, and the gradient of the result."""
Way = Callable[[Given], tuple[Tensor, Tensor]]
"""Gives the result and the gradient of the rows."""

CPP = """
#include <torch/extension.h>
using torch::Tensor;

std::vector<Tensor> both(Tensor h, Tensor source, Tensor target, Tensor bond, Tensor code, Tensor grad) {
    Tensor out = h.clone(), grad_h = grad.clone(), grad_bond = torch::zeros_like(bond);
    const int64_t width = h.size(1), edges = source.numel();
    const bool bonds = bond.numel() > 0;
    const float *H = h.data_ptr<float>(), *B = bond.data_ptr<float>(), *G = grad.data_ptr<float>();
    float *O = out.data_ptr<float>(), *GH = grad_h.data_ptr<float>(), *GB = grad_bond.data_ptr<float>();
    const int64_t *S = source.data_ptr<int64_t>(), *T = target.data_ptr<int64_t>(), *C = code.data_ptr<int64_t>();
    for (int64_t e = 0; e < edges; e++) {
        const float *from = H + S[e] * width;
        float *__restrict__ to = O + T[e] * width;
        if (bonds) {
            const float *add = B + C[e] * width;
            for (int64_t c = 0; c < width; c++) {
                const float sum = from[c] + add[c];
                to[c] += sum < 0 ? 0 : sum;
            }
        } else
            for (int64_t c = 0; c < width; c++) to[c] += from[c];
    }
    for (int64_t e = 0; e < edges; e++) {
        const float *from = H + S[e] * width, *back = G + T[e] * width;
        float *__restrict__ to = GH + S[e] * width;
        if (bonds) {
            const float *add = B + C[e] * width;
            float *__restrict__ to_bond = GB + C[e] * width;
            for (int64_t c = 0; c < width; c++) {
                const float all = back[c], some = from[c] + add[c] > 0 ? all : 0;
                to[c] += some;
                to_bond[c] += some;
            }
        } else
            for (int64_t c = 0; c < width; c++) to[c] += back[c];
    }
    return {out, grad_h};
}
"""


def torch_operations() -> Way:
    def work(given: Given) -> tuple[Tensor, Tensor]:
        h, source, target, bond, code, grad = given
        h = h.detach().requires_grad_()
        bond = None if bond is None else bond.detach().requires_grad_()
        out = plain_aggregate(h, source, target, None, bond, code, None)
        wanted = [h] if bond is None else [h, bond]
        return out.detach(), torch.autograd.grad(out, wanted, grad)[0]

    return work


def c_through_ctypes() -> Way:
    using = compiler()
    if using is None:
        raise ImportError("there is no C compiler")
    with tempfile.TemporaryDirectory() as folder:
        loops = Loops(ctypes.CDLL(str(compile_library(using, "float", Path(folder) / "kernels.so"))), "float")
    return lambda given: _call(loops, given)


def _call(loops: Loops, given: Given) -> tuple[Tensor, Tensor]:
    h, source, target, bond, code, grad = given
    out, grad_h = torch.empty_like(h), torch.zeros_like(h)
    grad_bond = None if bond is None else torch.zeros_like(bond)
    (n, width), bonds = h.shape, 0 if bond is None else len(bond)
    common: dict[str, Any] = {"h": h, "source": source, "target": target, "own": None, "bond": bond, "code": code}
    common |= {"weight": None, "rows": n, "sources": n, "edges": len(source), "width": width}
    loops.aggregate(out=out, bonds=bonds, **common)
    loops.aggregate_backward(grad_h=grad_h, grad_bond=grad_bond, grad_weight=None, grad=grad, stride=width, **common)
    return out, grad_h


def with_numba() -> Way:
    import numba
    import numpy as np

    @numba.njit(fastmath={"contract", "nnan", "nsz"}, error_model="numpy")  # type: ignore[untyped-decorator]
    def both(
        h: Any, source: Any, target: Any, bond: Any, code: Any, grad: Any, out: Any, grad_h: Any, grad_bond: Any
    ) -> None:
        for e in range(len(source)):
            u, v = source[e], target[e]
            if len(bond):
                k = code[e]
                for c in range(h.shape[1]):
                    out[v, c] += max(h[u, c] + bond[k, c], np.float32(0))
            else:
                for c in range(h.shape[1]):
                    out[v, c] += h[u, c]
        for e in range(len(source)):
            u, v = source[e], target[e]
            if len(bond):
                k = code[e]
                for c in range(h.shape[1]):
                    back = grad[v, c]
                    some = back if h[u, c] + bond[k, c] > 0 else np.float32(0)
                    grad_h[u, c] += some
                    grad_bond[k, c] += some
            else:
                for c in range(h.shape[1]):
                    grad_h[u, c] += grad[v, c]

    def work(given: Given) -> tuple[Tensor, Tensor]:
        h, source, target, bond, code, grad = _filled(given)
        out, grad_h, grad_bond = h.clone(), grad.clone(), torch.zeros_like(bond)
        both(*(t.numpy() for t in (h, source, target, bond, code, grad, out, grad_h, grad_bond)))
        return out, grad_h

    return work


def cpp_extension() -> Way:
    from torch.utils.cpp_extension import load_inline

    with tempfile.TemporaryDirectory() as folder:
        built = load_inline(  # type: ignore[no-untyped-call]
            "choice", CPP, functions=["both"], extra_cflags=FLAGS, build_directory=folder
        )
    return lambda given: tuple(built.both(*_filled(given)))


def _filled(given: Given) -> tuple[Tensor, ...]:
    """With empty tensors where there are no bonds."""
    h, source, target, bond, code, grad = given
    bond = h[:0] if bond is None else bond
    return h, source, target, bond, source[:0] if code is None else code, grad


WAYS: dict[str, Callable[[], Way]] = {
    "torch operations": torch_operations,
    "C through ctypes": c_through_ctypes,
    "numba": with_numba,
    "C++ extension": cpp_extension,
}


def random_case(nodes: int, edges: int, width: int, kinds: int) -> Given:
    torch.manual_seed(0)
    source = torch.randint(nodes, (edges,)).sort().values
    target = (source + torch.randint(-3, 4, (edges,))).clamp(0, nodes - 1)  # neighbours are near, as in a batch
    bond, code = (torch.randn(kinds, width), torch.randint(kinds, (edges,))) if kinds else (None, None)
    return torch.randn(nodes, width), source, target, bond, code, torch.randn(nodes, width)


def ready(small: Given) -> tuple[dict[str, Way], dict[str, Any]]:
    """The ways that work here, and what the first call of each costs."""
    ways: dict[str, Way] = {}
    found: dict[str, Any] = {}
    for name, make in WAYS.items():
        began = time.perf_counter()
        try:
            ways[name] = make()
            ways[name](small)
        except (ImportError, OSError, RuntimeError) as error:
            found[name] = {"left out": str(error).splitlines()[0][:200]}
            continue
        found[name] = {"seconds": round(time.perf_counter() - began, 2)}
    return ways, found


def check(ways: dict[str, Way], case: Given) -> None:
    expected = ways["torch operations"](case)
    for name, way in ways.items():
        for mine, theirs in zip(way(case), expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4, msg=f"{name} gives other numbers")


def main() -> None:
    torch.set_num_threads(1)
    cases = {name: random_case(*shape) for name, shape in SHAPES.items()}
    ways, found = ready(random_case(20, 40, 8, 2))
    for shape, case in cases.items():
        check(ways, case)
        works = [lambda way=way, case=case: [way(case) for _ in range(5)] for way in ways.values()]
        for name, seconds in zip(ways, in_turns(40, *works), strict=True):
            found[name][shape] = round(200 * median(seconds), 3)
    for name, row in found.items():
        print(f"{name:18}", row.get("left out") or f"{row}  (ms forward + backward; seconds until the first result)")
    record = {
        "command": "OMP_NUM_THREADS=1 python benchmarks/compile_choice.py",
        "machine": machine(),
        "shapes": SHAPES,
        "milliseconds": found,
    }
    with RESULTS.open("a") as file:
        file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
