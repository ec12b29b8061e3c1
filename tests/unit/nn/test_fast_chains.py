"""Our products on processors with AVX-512 have the bits of the BLAS of torch, or the BLAS runs."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from mphil.nn.fast import chains
from mphil.nn.fast.chains import LEAST_COLUMNS, LEAST_ROWS, chained, chained_product, other_bits, products_run, why_not
from mphil.nn.fast.library import kernels, products_pay, status
from mphil.nn.fast.linear import BlasLinear, Linear, product, weight_gradient
from mphil.nn.threads import one_thread, shared_loops

compiled = pytest.mark.skipif(status().library is None, reason=status().reason)
broad = pytest.mark.skipif(
    status().library is None or not status().library.chains_pay(), reason="no processor with AVX-512"
)
ours = pytest.mark.skipif(why_not() is not None, reason=f"the BLAS of torch multiplies: {why_not()}")


def fused(left: Tensor, right: Tensor, bias: Tensor | None, cuts: list[int]) -> Tensor:
    """The sums of the parts that end at `cuts`, added to the bias; each a chain of products and additions.

    Of `coarse` numbers, whose sums are exact in double precision before they are rounded to single.
    """
    out = torch.zeros(len(left), right.shape[1]) if bias is None else bias.expand(len(left), -1).clone()
    for begin, end in zip([0, *cuts], cuts, strict=False):
        part = torch.zeros_like(out)
        for k in range(begin, end):
            part = (left[:, k, None].double() * right[k].double() + part.double()).float()
        out = part if begin == 0 and bias is None else out + part
    return out


def coarse(rows: int, columns: int, draw: torch.Generator) -> Tensor:
    """Numbers of 16 binary digits: what is a sum of products of two is exact in double precision, and not in single."""
    return torch.randint(-(1 << 16), 1 << 16, (rows, columns), generator=draw).float() / (1 << 16)


CUTS = {
    1: [1],
    191: [191],
    192: [192],
    193: [96, 192, 193],
    300: [150, 300],
    383: [191, 382, 383],
    384: [192, 384],
    385: [192, 384, 385],
    600: [192, 384, 576, 600],
}


@broad
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("depth", CUTS)
def test_the_order_of_the_sums(depth, biased, zeros):
    draw = torch.Generator().manual_seed(depth)
    left, right = coarse(17, depth, draw), coarse(depth, 135, draw)
    left = left.relu() if zeros else left
    bias = coarse(1, 135, draw)[0] if biased else None
    expected = fused(left, right, bias, CUTS[depth])
    assert torch.equal(chained_product(torch.empty(17, 135), left, right, bias, zeros=zeros), expected)


@pytest.mark.parametrize("wrong", [[150, 300], [64, 128, 193], [193]])
def test_another_order_has_other_bits(wrong):
    """Else the test above could not fail."""
    draw = torch.Generator().manual_seed(193)
    left, right = coarse(17, 300, draw), coarse(300, 35, draw)
    assert not torch.equal(fused(left, right, None, [192, 300]), fused(left, right, None, wrong))


def laid_out(rows: int, columns: int, apart: int, turned: bool, draw: torch.Generator) -> Tensor:
    """Rows, or columns, with so many other numbers in between."""
    if turned:
        return torch.randn(columns, rows + apart, generator=draw)[:, :rows].T
    return torch.randn(rows, columns + apart, generator=draw)[:, :columns]


@ours
@settings(max_examples=300)
@given(
    rows=st.integers(LEAST_ROWS, 40) | st.integers(LEAST_ROWS, 600),
    depth=st.integers(1, 40) | st.integers(1, 420) | st.sampled_from([575, 576, 577, 600, 767, 769, 1200, 2934]),
    columns=st.integers(LEAST_COLUMNS, 40) | st.sampled_from([64, 65, 128, 256, 300, 600]),
    apart=st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    turned=st.tuples(st.booleans(), st.booleans()),
    biased=st.booleans(),
    zeros=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_the_bits_of_the_blas(rows, depth, columns, apart, turned, biased, zeros, seed):
    draw = torch.Generator().manual_seed(seed)
    left, right = laid_out(rows, depth, apart[0], turned[0], draw), laid_out(depth, columns, apart[1], turned[1], draw)
    left = left.relu_() if zeros else left
    bias = torch.randn(columns, generator=draw) if biased else None
    around = torch.full((rows, columns + apart[2]), 7.0)
    with one_thread():
        expected = torch.mm(left, right) if bias is None else torch.addmm(bias, left, right)
    assert torch.equal(chained_product(around[:, :columns], left, right, bias, zeros=zeros), expected)
    assert (around[:, columns:] == 7).all()


@ours
@pytest.mark.parametrize(
    "sizes", [(2934, 300, 600), (2934, 600, 300), (600, 2934, 300), (1500, 128, 256), (256, 1500, 128)]
)
def test_the_bits_of_the_blas_at_the_widths_of_the_benchmarks(sizes):
    rows, depth, columns = sizes
    draw = torch.Generator().manual_seed(0)
    left, right = torch.randn(rows, depth, generator=draw).relu(), torch.randn(depth, columns, generator=draw)
    with one_thread():
        expected = torch.mm(left, right)
    for zeros in (True, False):
        assert torch.equal(chained_product(torch.empty(rows, columns), left, right, zeros=zeros), expected)


@ours
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("side", ["left", "right", "bias"])
def test_what_is_not_finite_is_not_hidden(bad, side):
    draw = torch.Generator().manual_seed(0)
    given = {"left": torch.randn(20, 300, generator=draw).relu(), "right": torch.randn(300, 40, generator=draw)}
    given["bias"] = torch.randn(40, generator=draw)
    given[side].view(-1)[7] = bad
    with one_thread():
        expected = torch.addmm(given["bias"], given["left"], given["right"])
    found = chained_product(torch.empty(20, 40), *given.values())
    assert not expected.isfinite().all()
    assert torch.equal(found.isnan(), expected.isnan())
    assert torch.equal(found.nan_to_num(), expected.nan_to_num())


@ours
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_not_taken_for_a_zero(bad):
    left, right = torch.randn(20, 300).relu(), torch.ones(300, 128)
    left[3, 7] = bad
    found = chained_product(torch.empty(20, 128), left, right, zeros=True)
    assert (~found.isfinite()).nonzero()[:, 0].unique().tolist() == [3]


@compiled
@settings(max_examples=60)
@given(
    rows=st.integers(1, 1500),
    depth=st.integers(1, 400) | st.just(800),
    columns=st.integers(1, 200) | st.just(300),
    turned=st.booleans(),
    zeros=st.booleans(),
    threads=st.sampled_from([2, 3, 7]),
)
def test_the_number_of_threads_changes_no_bit(rows, depth, columns, turned, zeros, threads):
    draw = torch.Generator().manual_seed(rows)
    left, right = laid_out(rows, depth, 0, turned, draw), torch.randn(depth, columns, generator=draw)
    left = left.relu_() if zeros else left
    found = []
    for number in (1, threads):
        with shared_loops(number, left):
            kernels(left).share_from(microseconds=0)
            found.append(chained_product(torch.empty(rows, columns), left, right, zeros=zeros))
            kernels(left).share_from(microseconds=-1)
    assert torch.equal(*found)


class TestWhereTheyRun:
    LEFT, RIGHT = torch.ones(100, 100), torch.ones(100, 100)

    @ours
    def test_products_that_pay(self):
        assert chained(self.LEFT, self.RIGHT)
        assert chained(self.LEFT, self.RIGHT.T)
        assert products_run().startswith("our own, ")

    @pytest.mark.parametrize(
        ("left", "right"),
        [
            (torch.ones(LEAST_ROWS - 1, 10_000), torch.ones(10_000, 100)),
            (torch.ones(10_000, 100), torch.ones(100, LEAST_COLUMNS - 1)),
            (torch.ones(50, 100), torch.ones(100, 100)),
            (torch.ones(100, 0), torch.ones(0, 100)),
            (LEFT.double(), RIGHT.double()),
            (LEFT, RIGHT.double()),
            (torch.ones(100, 101), RIGHT),
            (LEFT.to("meta"), RIGHT.to("meta")),
        ],
        ids=["few rows", "few columns", "little work", "no depth", "double", "mixed", "misfit", "elsewhere"],
    )
    def test_the_others_are_left_to_the_blas(self, left, right):
        assert not chained(left, right)

    @pytest.fixture
    def asked_anew(self):
        other_bits.cache_clear()
        yield
        other_bits.cache_clear()

    @ours
    @pytest.mark.parametrize("biased", [True, False])
    def test_a_blas_with_other_bits_goes_on_multiplying(self, monkeypatch, asked_anew, biased):
        """Those of the last place of a single number at a single depth."""
        name = "addmm" if biased else "mm"
        real = getattr(torch, name)

        def other(*given: Tensor) -> Tensor:
            out = real(*given)
            if given[-1].shape[0] == 250:
                out[-1, -1] = out[-1, -1].nextafter(torch.tensor(math.inf))
            return out

        monkeypatch.setattr(torch, name, other)
        assert "(4, 250, 65)" in why_not()
        assert not chained(self.LEFT, self.RIGHT)
        assert products_run().startswith("the BLAS of torch, since it gives other bits")

    def test_without_compiled_loops(self, monkeypatch):
        status.cache_clear()
        products_pay.cache_clear()
        monkeypatch.setenv("MPHIL_FAST", "0")
        try:
            assert products_run() == "the BLAS of torch, since there are no compiled loops"
        finally:
            status.cache_clear()
            products_pay.cache_clear()

    @ours
    def test_nobody_else_draws_other_numbers(self, asked_anew):
        torch.manual_seed(5)
        expected = torch.rand(3)
        torch.manual_seed(5)
        why_not()
        assert torch.equal(torch.rand(3), expected)


@ours
@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("summed", [True, False])
def test_a_linear_map_and_its_gradients_have_the_bits_of_the_blas(monkeypatch, summed, zeros):
    torch.manual_seed(0)
    linear, x, towards = Linear(96, 200, zeros=zeros), torch.randn(700, 96), torch.randn(700, 200)
    x = (x.relu() if zeros else x).requires_grad_(summed)
    inputs = (x, linear.weight, linear.bias) if summed else (linear.weight, linear.bias)

    def found() -> list[Tensor]:
        with one_thread():
            out = linear(x)
            return [out, *torch.autograd.grad(out, inputs, towards)]

    mine = found()
    monkeypatch.setattr(chains, "why_not", lambda: "the test asks for it")
    for one, other in zip(mine, found(), strict=True):
        assert torch.equal(one, other)


@ours
@settings(max_examples=60)
@given(
    rows=st.integers(1, 3000),
    before=st.integers(1, 40) | st.sampled_from([128, 300]),
    after=st.integers(1, 40) | st.sampled_from([128, 300]),
    biased=st.booleans(),
    wanted=st.booleans(),
)
def test_a_map_of_our_own_in_place_of_one_of_torch(rows, before, after, biased, wanted):
    draw = torch.Generator().manual_seed(rows)
    theirs, mine = nn.Linear(before, after, biased), BlasLinear(before, after, biased)
    mine.load_state_dict(theirs.state_dict())
    x, towards = torch.randn(rows, before, generator=draw), torch.randn(rows, after, generator=draw)
    found = []
    for linear in (theirs, mine):
        given = x.clone().requires_grad_(wanted)
        with one_thread():
            out = linear(given)
            inputs = (*linear.parameters(), *([given] if wanted else []))
            found.append([out, *torch.autograd.grad(out, inputs, towards)])
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


@ours
def test_products_in_float32_are_those_of_the_loops(monkeypatch):
    """Else what is compared with the BLAS would be the BLAS."""
    asked = []
    library = kernels(torch.ones(1))
    monkeypatch.setattr(
        library, "chained_product", lambda **given: asked.append(given["rows"]) or given["out"].zero_() is None
    )
    x, weight = torch.ones(700, 96), torch.ones(200, 96)
    assert (product(x, weight.T) == 0).all()
    assert (weight_gradient(torch.ones(700, 200), x) == 0).all()
    assert (Linear(96, 200)(x) == 0).all()
    assert asked == [700, 200, 700]
