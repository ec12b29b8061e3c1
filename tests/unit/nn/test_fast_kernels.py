"""The compiled loops against plain torch: values, gradients, gradients of gradients."""

from __future__ import annotations

import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

from mphil.errors import DataError
from mphil.nn.encoders.blocks import BatchNorm
from mphil.nn.fast.aggregate import aggregate, plain_aggregate
from mphil.nn.fast.library import dense_rows, kernels, status
from mphil.nn.fast.linear import ALIGNMENT, Linear, frozen_perceptron, perceptron, plain_perceptron, sparse_linear
from mphil.nn.fast.normalise import NO_STEPS, Norm, Steps, plain_standardised, scaled, standardised
from mphil.nn.randomness import plain_words, random_words

compiled = pytest.mark.skipif(status().library is None, reason=status().reason)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}
PRECISIONS = pytest.mark.parametrize("dtype", TOLERANCE, ids=["float64", "float32"])


def close(left: Tensor, right: Tensor) -> None:
    tolerance = TOLERANCE[left.dtype]
    torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def written_out(h, source, target, own, bond, code, weight) -> Tensor:
    """The definition, edge by edge."""
    out = [h[r].clone() for r in (range(len(h)) if own is None else own.tolist())]
    for e, (u, v) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        message = h[u] if bond is None else (h[u] + bond[e if code is None else int(code[e])]).clamp_min(0)
        out[v] = out[v] + message * (1 if weight is None else weight[e])
    return torch.stack(out) if out else h.new_zeros(0, h.shape[1])


def messages(draw: torch.Generator, *, bonds: str, weighted: bool, owned: bool, edges: int, width: int, dtype):
    """Arguments of `aggregate`, random."""
    rows, sources = (5, 7) if owned else (6, 6)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()

    def indices(end: int, n: int) -> Tensor:
        return torch.randint(end, (n,), generator=draw)

    return {
        "h": numbers(sources, width),
        "source": indices(sources, edges),
        "target": indices(rows, edges),
        "own": indices(sources, rows) if owned else None,
        "bond": None if bonds == "none" else numbers(3 if bonds == "table" else edges, width),
        "code": indices(3, edges) if bonds == "table" else None,
        "weight": numbers(edges) if weighted else None,
    }


def gradients(out: Tensor, towards: Tensor, given: dict) -> list[Tensor]:
    inputs = [v for v in given.values() if v is not None and v.requires_grad]
    return list(torch.autograd.grad(out, inputs, towards, materialize_grads=True, allow_unused=True))


@PRECISIONS
@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    bonds=st.sampled_from(["none", "table", "dense"]),
    weighted=st.booleans(),
    owned=st.booleans(),
    edges=st.integers(0, 12),
    width=st.integers(1, 19),
)
def test_aggregate(dtype, seed, bonds, weighted, owned, edges, width):
    draw = torch.Generator().manual_seed(seed)
    arguments = messages(draw, bonds=bonds, weighted=weighted, owned=owned, edges=edges, width=width, dtype=dtype)
    h, source, target, *rest = arguments.values()
    out = aggregate(h, source, target, **dict(list(arguments.items())[3:]))
    towards = torch.randn(out.shape, generator=draw).to(dtype)
    found = gradients(out, towards, arguments)
    for other in (plain_aggregate, written_out):
        expected = other(h, source, target, *rest)
        close(out, expected)
        for mine, theirs in zip(found, gradients(expected, towards, arguments), strict=True):
            close(mine, theirs)


@compiled
class TestAggregate:
    def arguments(self, **changed):
        draw = torch.Generator().manual_seed(0)
        return (
            messages(draw, bonds="table", weighted=True, owned=False, edges=9, width=4, dtype=torch.float64) | changed
        )

    def test_gradients_of_gradients(self):
        def function(h, bond, weight):
            return aggregate(**arguments | {"h": h, "bond": bond, "weight": weight})

        arguments = self.arguments()
        inputs = tuple(arguments[name] for name in ("h", "bond", "weight"))
        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs)
        assert gradgradcheck(lambda h: function(nn.functional.pad(h, (0, 3))[:, :4], *inputs[1:]), inputs[0])

    def test_a_view_that_is_not_contiguous(self):
        arguments = self.arguments()
        turned = arguments | {"h": arguments["h"].detach().T.contiguous().T}
        close(aggregate(**arguments), aggregate(**turned))
        expanded = torch.ones(1, 1, dtype=torch.float64).expand(6, 4)
        out = aggregate(**arguments)
        wanted = torch.autograd.grad(plain_aggregate(*arguments.values()), arguments["h"], expanded)
        close(torch.autograd.grad(out, arguments["h"], expanded)[0], wanted[0])

    @pytest.mark.parametrize("name", ["source", "target", "code"])
    @pytest.mark.parametrize("bad", [-1, 6])
    def test_an_index_that_does_not_exist(self, name, bad):
        indices = self.arguments()[name].clone()
        indices[-1] = bad
        with pytest.raises(DataError, match="do not exist"):
            aggregate(**self.arguments(**{name: indices}))

    @pytest.mark.parametrize("name", ["target", "code", "weight"])
    def test_one_for_each_edge(self, name):
        with pytest.raises(DataError, match="one for each edge"):
            aggregate(**self.arguments(**{name: self.arguments()[name][:-1]}))

    def test_too_few_dense_bonds(self):
        with pytest.raises(DataError):
            aggregate(**self.arguments(code=None))

    def test_nan_is_not_hidden(self):
        h = torch.full((2, 3), torch.nan)
        assert aggregate(h, torch.tensor([0]), torch.tensor([1]), bond=torch.zeros(1, 3)).isnan().all()

    def test_same_bits_every_time(self):
        arguments = self.arguments()
        outs = [aggregate(**arguments) for _ in range(2)]
        assert torch.equal(*outs)
        backwards = [gradients(out, torch.ones_like(out), arguments) for out in outs]
        assert all(map(torch.equal, *backwards))


def expanded_norm(x: Tensor, weight, bias, counts, steps: Steps) -> Tensor:
    """Every row as often as it counts through torch's own batch normalisation, then the steps, written out."""
    times = torch.ones(len(x), dtype=torch.long) if counts is None else counts
    rows = torch.arange(len(x)).repeat_interleave(times)
    normal = nn.functional.batch_norm(x[rows], None, None, weight, bias, training=True)
    out = normal[[int((rows == r).nonzero()[0]) for r in range(len(x))]]
    if steps.relu:
        out = out * (out > 0)
    if steps.expand is not None:
        out = out[steps.expand]
    if steps.draws is not None:
        out = torch.where(steps.draws >= steps.least, out / steps.kept, torch.zeros_like(out))
    return out


@compiled
@PRECISIONS
@settings(max_examples=25)
@given(
    seed=st.integers(0, 1000),
    rows=st.integers(2, 70),
    width=st.integers(1, 19),
    relu=st.booleans(),
    dropped=st.booleans(),
    shared=st.booleans(),
    padded=st.booleans(),
)
def test_standardised(dtype, seed, rows, width, relu, dropped, shared, padded):
    draw = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype)

    x = numbers(rows, width + 3)[:, :width] * 3 + 1 if padded else numbers(rows, width) * 3 + 1
    x, weight, bias = x.requires_grad_(), numbers(width).requires_grad_(), numbers(width).requires_grad_()
    expand = torch.cat([torch.arange(rows), torch.randint(rows, (9,), generator=draw)]) if shared else None
    counts = None if expand is None else expand.bincount()
    nodes = rows if expand is None else len(expand)
    draws = torch.randint(-(1 << 15), 1 << 15, (nodes, width), generator=draw, dtype=torch.int16) if dropped else None
    steps = Steps(relu, expand, draws, -(1 << 14), 0.75)
    norm = Norm(torch.zeros(width, dtype=dtype), torch.ones(width, dtype=dtype), torch.tensor(0), 0.1, 1e-5)
    out = standardised(x, weight, bias, counts, norm, steps)
    expected = expanded_norm(x.double(), weight.double(), bias.double(), counts, steps).to(dtype)
    # A rounding of x is magnified by the steepness of the normalisation: two rows may be almost alike.
    steepness = float((x.detach().abs().amax(0) / (x.detach().var(0, correction=0) + 1e-5).sqrt()).amax())
    scale = 1 if dtype == torch.float64 else max(1, steepness / 8)
    close(out / scale, expected / scale)
    towards = numbers(*out.shape)
    scale = 1 if dtype == torch.float64 else 10 * scale
    for mine, theirs in zip(
        *(torch.autograd.grad(o, (x, weight, bias), towards) for o in (out, expected)), strict=True
    ):
        close(mine / scale, theirs / scale)
    everything = x.detach().double()[torch.arange(rows).repeat_interleave(counts) if shared else slice(None)]
    close(norm.running_mean, (0.1 * everything.mean(0)).to(dtype))
    close(norm.running_variance / 10, ((0.9 + 0.1 * everything.var(0)) / 10).to(dtype))


@compiled
class TestNormalise:
    def test_gradients_of_gradients(self):
        torch.manual_seed(0)
        expand = torch.tensor([0, 1, 2, 3, 1, 1])
        draws = torch.randint(-(1 << 15), 1 << 15, (6, 3), dtype=torch.int16)
        norm = Norm(torch.zeros(3).double(), torch.ones(3).double(), torch.tensor(0), 0.1, 1e-5)
        inputs = tuple(torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (3,), (3,)))

        def function(x, weight, bias):
            return standardised(x, weight, bias, expand.bincount(), norm, Steps(True, expand, draws, 0, 0.5))

        assert gradcheck(function, inputs)
        assert gradgradcheck(function, inputs)

    def test_large_mean_small_spread(self):
        """The textbook sum of squares would lose all digits of this variance."""
        x = (10_000 + torch.randn(1000, 2, dtype=torch.float64) * 0.1).float()
        norm = Norm(torch.zeros(2), torch.zeros(2), torch.tensor(0), 1.0, 0.0)
        standardised(x, torch.ones(2), torch.zeros(2), None, norm, NO_STEPS)
        torch.testing.assert_close(norm.running_variance, x.double().var(0).float(), rtol=1e-3, atol=0)

    def test_a_zero_that_was_kept_passes_its_gradient(self):
        """Columns without spread are exactly their bias: a mask read off the output would take them for dropped."""
        x, bias = torch.ones(4, 2).requires_grad_(), torch.zeros(2).requires_grad_()
        norm = Norm(torch.zeros(2), torch.ones(2), torch.tensor(0), 0.1, 1e-5)
        out = standardised(x, torch.ones(2), bias, None, norm, Steps(draws=torch.zeros(4, 2, dtype=torch.int16)))
        assert not out.any()
        assert torch.autograd.grad(out.sum(), bias)[0].tolist() == [4, 4]

    def test_scaled_is_what_its_steps_say(self):
        torch.manual_seed(0)
        x, scale, shift = torch.randn(5, 7), torch.rand(7), torch.randn(7)
        expand = torch.tensor([4, 0, 0, 2])
        draws = torch.randint(-(1 << 15), 1 << 15, (4, 7), dtype=torch.int16)
        for steps in (NO_STEPS, Steps(True), Steps(False, expand), Steps(True, expand, draws, 100, 0.5)):
            close(scaled(x, torch.stack((scale, shift)), steps), steps(x * scale + shift))

    def test_a_class_that_does_not_exist(self):
        with pytest.raises(IndexError):
            scaled(torch.ones(2, 1), torch.ones(2, 1), Steps(expand=torch.tensor([2])))

    def test_plain_standardised_counts(self):
        x = torch.randn(4, 3, dtype=torch.float64)
        ones = torch.ones(3).double()
        counts = torch.tensor([1, 2, 1, 3])
        close(plain_standardised(x, ones, ones, counts, 1e-5), expanded_norm(x, ones, ones, counts, NO_STEPS))


@pytest.mark.parametrize("training", [True, False])
@PRECISIONS
def test_batch_norm_keeps_the_statistics_of_torch(dtype, training):
    torch.manual_seed(0)
    ours, theirs = BatchNorm(5).to(dtype).train(training), nn.BatchNorm1d(5).to(dtype).train(training)
    for _ in range(3):
        x = torch.randn(40, 5, dtype=dtype) * 2 + 1
        with torch.set_grad_enabled(training):
            close(ours(x), theirs(x))
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)


@pytest.mark.parametrize(("rows", "before", "after"), [(6, 5, 3), (97, 8, 8), (11, 300, 3), (205, 1300, 33), (0, 4, 2)])
@PRECISIONS
def test_linear(rows, before, after, dtype):
    torch.manual_seed(0)
    ours = Linear(before, after).to(dtype)
    x = torch.randn(rows, before, dtype=dtype, requires_grad=True)
    out, expected = ours(x), nn.functional.linear(x, ours.weight, ours.bias)
    close(out, expected)
    assert dense_rows(out) is out
    towards = torch.randn_like(expected)
    inputs = (x, ours.weight, ours.bias)
    for mine, theirs in zip(*(torch.autograd.grad(o, inputs, towards) for o in (out, expected)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * max(1, rows) ** 0.5)
    if status().library is not None:
        assert out.stride(0) * out.element_size() % ALIGNMENT == 0


@compiled
@PRECISIONS
@settings(max_examples=60)
@given(
    rows=st.integers(0, 210),
    depth=st.integers(0, 40) | st.sampled_from([639, 640, 641, 1281]),
    columns=st.integers(1, 40),
    turned=st.booleans(),
    biased=st.booleans(),
    summed=st.booleans(),
)
def test_compiled_product(dtype, rows, depth, columns, turned, biased, summed):
    """The loops themselves, also where `product` prefers a BLAS, with rows that lie apart and numbers around them."""
    draw = torch.Generator().manual_seed(rows + depth)
    left = torch.randn(rows, depth + 3, generator=draw, dtype=dtype)[:, :depth]
    right = (
        torch.randn(columns, depth, generator=draw, dtype=dtype).T if turned else torch.randn(depth, columns).to(dtype)
    )
    bias = torch.randn(columns, generator=draw, dtype=dtype) if biased else None
    around = torch.full((rows, columns + 2), 7.0, dtype=dtype)
    out = around[:, :columns]
    sums = torch.full((depth + 1,), 7.0, dtype=dtype) if summed else None
    strides = {"out_stride": out.stride(0), "a_stride": left.stride(0), "step": right.stride(0)}
    sizes = {"column": right.stride(1), "rows": rows, "depth": depth, "columns": columns}
    assert kernels(left).product(out=out, a=left, b=right, bias=bias, sums=sums, **strides, **sizes) == 0
    expected = left.double() @ right.double() + (0 if bias is None else bias.double())
    tolerance = TOLERANCE[dtype] * max(1, depth) ** 0.5
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=tolerance)
    assert (around[:, columns:] == 7).all()
    if sums is not None:
        tolerance = TOLERANCE[dtype] * max(1, rows) ** 0.5
        torch.testing.assert_close(sums[:-1].double(), 7 + left.double().sum(0), rtol=0, atol=tolerance)
        assert sums[-1] == 7


@compiled
@pytest.mark.parametrize("x", [torch.ones(3, 5), torch.ones(3, 4, dtype=torch.float64)], ids=["width", "precision"])
def test_linear_refuses_what_does_not_fit(x):
    with pytest.raises(RuntimeError, match="shapes|dtype"):
        Linear(4, 2)(x)


@compiled
@given(n=st.integers(0, 50), seed=st.integers(0, 1000))
def test_random_words(n, seed):
    torch.manual_seed(seed)
    found = random_words(n, torch.zeros(1))
    torch.manual_seed(seed)
    begin = torch.empty((), dtype=torch.int64).random_(-(1 << 63), None)
    assert torch.equal(found, plain_words(begin, n))


def test_random_words_of_the_publication():
    """The first words of SplitMix64 from 0."""
    words = plain_words(torch.tensor(0), 3)
    assert [word % (1 << 64) for word in words.tolist()] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


@compiled
def test_linear_gradients_of_gradients():
    layer = Linear(3, 5).double()
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert gradgradcheck(lambda x, *_: layer(x).square(), (x, layer.weight, layer.bias))


@compiled
@PRECISIONS
@settings(max_examples=60)
@given(
    seed=st.integers(0, 1000),
    rows=st.integers(0, 150) | st.sampled_from([700]),
    before=st.integers(1, 20) | st.sampled_from([63, 64, 65, 130]),
    after=st.integers(1, 20) | st.sampled_from([104, 105, 230]),
    dense=st.sampled_from([0.0, 0.25, 1.0]),
    padded=st.booleans(),
)
def test_thin_linear(dtype, seed, rows, before, after, dense, padded):
    """Values and both gradients are those of the whole product in double precision, but none of zeros."""
    draw = torch.Generator().manual_seed(seed)
    x, towards = torch.randn(rows, before, generator=draw), torch.randn(rows, after, generator=draw).to(dtype)
    x = (x * (torch.rand(x.shape, generator=draw) < dense)).to(dtype)
    x = nn.functional.pad(x, (0, 3), value=7.0)[:, :before] if padded else x
    given_ = x.requires_grad_(), torch.randn(after, before, generator=draw).to(dtype).requires_grad_()
    out = sparse_linear(*given_)
    exact = [v.detach().double().requires_grad_() for v in given_]
    expected = nn.functional.linear(*exact)
    found = out, *torch.autograd.grad(out, given_, towards)
    grad_x, grad_weight = torch.autograd.grad(expected, exact, towards.double())
    for mine, theirs in zip(found, (expected, grad_x * (x != 0), grad_weight), strict=True):
        tolerance = TOLERANCE[dtype] * max(1, rows, after) ** 0.5
        torch.testing.assert_close(mine.double(), theirs, rtol=0, atol=tolerance)


@compiled
def test_thin_linear_gradients_of_gradients():
    x = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x, weight: sparse_linear(x.relu(), weight), (x, weight))
    assert gradgradcheck(lambda x, weight: sparse_linear(x.relu(), weight).square(), (x, weight))


def hidden_layer(seed: int, rows: int, before: int, width: int, after: int, dtype, shared: bool, padded: bool):
    """Rows, two linear maps, weight and bias of the normalisation, counts."""
    draw = torch.Generator().manual_seed(seed)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=draw, dtype=torch.float64).to(dtype).requires_grad_()

    x = numbers(rows, before + 3).detach()[:, :before].requires_grad_() if padded else numbers(rows, before)
    weights = [numbers(width, before), numbers(width), numbers(after, width), numbers(after), numbers(width)]
    counts = torch.randint(1, 5, (rows,), generator=draw) if shared else None
    return (x, *weights, numbers(width)), counts


def spread(width: int, dtype) -> Norm:
    return Norm(torch.zeros(width, dtype=dtype), torch.ones(width, dtype=dtype), torch.tensor(0), 0.1, 1e-5)


@compiled
@PRECISIONS
@settings(max_examples=40)
@given(
    seed=st.integers(0, 1000),
    rows=st.integers(2, 150) | st.sampled_from([700, 1300]),
    before=st.integers(1, 20),
    width=st.integers(1, 40) | st.sampled_from([64, 130]),
    after=st.integers(1, 20) | st.sampled_from([104, 230]),
    shared=st.booleans(),
    padded=st.booleans(),
)
def test_perceptron(dtype, seed, rows, before, width, after, shared, padded):
    """Values, gradients and running statistics are those of the steps one by one in double precision."""
    given_, counts = hidden_layer(seed, rows, before, width, after, dtype, shared, padded)
    x, first, first_bias, last, last_bias, weight, bias = given_
    norm = spread(width, dtype)
    out = perceptron(x, (first, first_bias), (last, last_bias), (weight, bias), counts, norm)
    exact = [v.detach().double().requires_grad_() for v in given_]
    expected = plain_perceptron(*exact, counts=None if counts is None else counts.double(), eps=norm.eps)
    hidden = nn.functional.linear(exact[0], *exact[1:3]).detach()
    # As in `test_standardised`: roundings are magnified where rows are almost alike in a column.
    steepness = float((hidden.abs().amax(0) / (hidden.var(0, correction=0) + 1e-5).sqrt()).amax())
    tolerance = TOLERANCE[dtype] * (1 if dtype == torch.float64 else max(1, steepness))
    torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
    towards = torch.randn(out.shape, dtype=torch.float64)
    found = torch.autograd.grad(out, given_, towards.to(dtype))
    wanted = torch.autograd.grad(expected, exact, towards)
    # That of the first bias is 0, a sum in which numbers as large as the other gradients cancel.
    scale = max(1.0, *(float(theirs.abs().max()) for theirs in wanted))
    for mine, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(mine.double() / scale, theirs / scale, rtol=0, atol=10 * tolerance)
    everything = hidden if counts is None else hidden[torch.arange(rows).repeat_interleave(counts)]
    torch.testing.assert_close(norm.running_mean.double(), 0.1 * everything.mean(0), rtol=1e-4, atol=tolerance)
    torch.testing.assert_close(norm.running_variance.double(), 0.9 + 0.1 * everything.var(0), rtol=1e-4, atol=tolerance)


@compiled
class TestPerceptron:
    def test_gradients_of_gradients(self):
        (x, *weights), counts = hidden_layer(0, 5, 3, 4, 2, torch.float64, shared=True, padded=False)

        def function(x, first, first_bias, last, last_bias, weight, bias):
            maps = (first, first_bias), (last, last_bias)
            return perceptron(x, *maps, (weight, bias), counts, spread(4, torch.float64))

        assert gradcheck(function, (x, *weights))
        assert gradgradcheck(function, (x, *weights))

    @PRECISIONS
    @pytest.mark.parametrize("shared", [True, False])
    @pytest.mark.parametrize("padded", [True, False])
    def test_multiplied_beforehand(self, dtype, shared, padded):
        """Rows that have been through the first map: the same result, gradients and running statistics."""
        (x, first, first_bias, *rest), counts = hidden_layer(0, 70, 6, 30, 8, dtype, shared=shared, padded=False)
        last, affine = tuple(rest[:2]), tuple(rest[2:])
        mapped = nn.functional.linear(x, first).detach()
        mapped = (nn.functional.pad(mapped, (0, 3))[:, :30] if padded else mapped).requires_grad_()
        norms = spread(30, dtype), spread(30, dtype)
        out = perceptron(mapped, (None, first_bias), last, affine, counts, norms[0])
        expected = perceptron(x, (first, first_bias), last, affine, counts, norms[1])
        towards = torch.randn_like(out)
        grad, *found = torch.autograd.grad(out, (mapped, *rest), towards)
        grad_first, *wanted = torch.autograd.grad(expected, (first, *rest), towards)
        tolerance = 100 * TOLERANCE[dtype]
        for mine, theirs in zip([out, grad.T @ x, *found], [expected, grad_first, *wanted], strict=True):
            torch.testing.assert_close(mine, theirs, rtol=tolerance, atol=tolerance)
        for name in ("running_mean", "running_variance", "batches"):
            torch.testing.assert_close(getattr(norms[0], name), getattr(norms[1], name))

    def test_gradients_of_gradients_multiplied_beforehand(self):
        (x, first, *weights), counts = hidden_layer(0, 5, 3, 4, 2, torch.float64, shared=True, padded=False)
        mapped = nn.functional.linear(x, first).detach().requires_grad_()

        def function(mapped, first_bias, last, last_bias, weight, bias):
            maps = (None, first_bias), (last, last_bias)
            return perceptron(mapped, *maps, (weight, bias), counts, spread(4, torch.float64))

        assert gradcheck(function, (mapped, *weights))
        assert gradgradcheck(function, (mapped, *weights))

    @PRECISIONS
    @pytest.mark.parametrize("shared", [True, False])
    def test_normalised_afterwards(self, dtype, shared):
        """In one go it is the same, to the last bit, as a perceptron and then a normalisation."""
        (x, first, first_bias, last, last_bias, *affine), counts = hidden_layer(
            0, 70, 6, 30, 8, dtype, shared=shared, padded=False
        )
        outer = [torch.randn(8, dtype=dtype).requires_grad_() for _ in range(2)]
        expand = torch.arange(70).repeat_interleave(counts) if counts is not None else None
        draws = torch.randint(-(1 << 15), 1 << 15, (70 if expand is None else len(expand), 8), dtype=torch.int16)
        steps = Steps(True, expand, draws, 0, 0.5)
        maps, inputs = ((first, first_bias), (last, last_bias), affine), (x, first, last, *affine, *outer)
        together, inner = spread(8, dtype), spread(30, dtype)
        out = perceptron(x, *maps, counts, inner, (*outer, together, steps))
        apart = spread(8, dtype)
        expected = standardised(perceptron(x, *maps, counts, spread(30, dtype)), *outer, counts, apart, steps)
        assert torch.equal(out, expected)
        assert torch.equal(together.running_variance, apart.running_variance)
        assert together.batches == inner.batches == 1
        assert all(map(torch.equal, *(torch.autograd.grad(o.square().sum(), inputs) for o in (out, expected))))

    def test_gradients_of_gradients_normalised_afterwards(self):
        (x, *weights), counts = hidden_layer(0, 5, 3, 4, 2, torch.float64, shared=True, padded=False)
        outer = [torch.randn(2, dtype=torch.float64, requires_grad=True) for _ in range(2)]

        def function(x, first, first_bias, last, last_bias, weight, bias, *outer):
            maps, after = ((first, first_bias), (last, last_bias)), (*outer, spread(2, torch.float64), Steps(relu=True))
            return perceptron(x, *maps, (weight, bias), counts, spread(4, torch.float64), after)

        assert gradcheck(function, (x, *weights, *outer))
        assert gradgradcheck(function, (x, *weights, *outer))

    def test_many_rows_do_not_cost_digits(self):
        """A gradient that is a sum over all rows is summed band by band."""
        torch.manual_seed(0)
        given_, _ = hidden_layer(0, 100_000, 4, 8, 8, torch.float32, shared=False, padded=False)
        x, first, first_bias, last, last_bias, *affine = given_
        out = perceptron(x, (first, first_bias), (last, last_bias), tuple(affine), None, spread(8, torch.float32))
        exact = [v.detach().double().requires_grad_() for v in given_]
        towards = torch.rand(out.shape)
        (found,) = torch.autograd.grad(out, last, towards)
        (wanted,) = torch.autograd.grad(plain_perceptron(*exact, counts=None, eps=1e-5), exact[3], towards.double())
        torch.testing.assert_close(found.double(), wanted, rtol=3e-6, atol=0)

    def test_nothing_is_kept_after_the_way_back(self):
        x, (weight, bias) = torch.randn(9, 4, requires_grad=True), torch.ones(2, 4).unbind()
        inner = x * 2
        held = weakref.ref(inner)
        loss = standardised(inner, weight, bias, None, spread(4, torch.float32), NO_STEPS).sum()
        del inner
        loss.backward()
        assert held() is None

    def test_zeros_are_left_out_and_nothing_else(self):
        """A hidden layer that is all zeros, one without any, and single numbers at both ends of a word of marks."""
        torch.manual_seed(0)
        first, last = (torch.eye(130), torch.zeros(130)), (torch.randn(120, 130), torch.randn(120))
        for kept in ([], [0], [63], [64], [129], [0, 63, 64, 127, 128, 129], list(range(130))):
            x = torch.full((3, 130), -1.0)
            x[1, kept] = torch.rand(len(kept)) + 0.1
            out = frozen_perceptron(x, first, last, torch.stack((torch.ones(130), torch.zeros(130))))
            torch.testing.assert_close(out, nn.functional.linear(x.relu(), *last))

    def test_rows_that_need_no_gradient(self):
        """The first layer of constants."""
        (x, *weights), _ = hidden_layer(0, 50, 3, 4, 2, torch.float64, shared=False, padded=False)
        first, first_bias, last, last_bias, weight, bias = weights
        norm = spread(4, torch.float64)
        out = perceptron(x.detach(), (first, first_bias), (last, last_bias), (weight, bias), None, norm)
        expected = plain_perceptron(x.detach(), *weights, counts=None, eps=norm.eps)
        for mine, theirs in zip(*(torch.autograd.grad(o.sum(), weights) for o in (out, expected)), strict=True):
            close(mine, theirs)

    @PRECISIONS
    @pytest.mark.parametrize("rows", [0, 1, 5, 700])
    def test_frozen(self, dtype, rows):
        (x, first, first_bias, last, last_bias, scale, shift), _ = hidden_layer(
            0, rows, 6, 30, 4, dtype, shared=False, padded=True
        )
        out = frozen_perceptron(x, (first, first_bias), (last, last_bias), torch.stack((scale, shift)))
        hidden = (nn.functional.linear(x, first, first_bias) * scale + shift).relu()
        expected = nn.functional.linear(hidden, last, last_bias)
        torch.testing.assert_close(out, expected.detach(), rtol=10 * TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])

    def test_nan_is_not_hidden(self):
        (x, *weights), _ = hidden_layer(0, 5, 3, 4, 2, torch.float32, shared=False, padded=False)
        with torch.no_grad():
            x[2, 1] = torch.nan
        first, first_bias, last, last_bias, weight, bias = weights
        maps = (first, first_bias), (last, last_bias)
        assert perceptron(x, *maps, (weight, bias), None, spread(4, torch.float32)).isnan().all()
        assert frozen_perceptron(x, *maps, torch.stack((weight, bias)))[2].isnan().all()

    def test_same_bits_every_time(self):
        given_, counts = hidden_layer(0, 700, 7, 9, 5, torch.float32, shared=True, padded=False)
        x, first, first_bias, last, last_bias, weight, bias = given_
        outs = [
            perceptron(x, (first, first_bias), (last, last_bias), (weight, bias), counts, spread(9, torch.float32))
            for _ in range(2)
        ]
        assert torch.equal(*outs)
        assert all(map(torch.equal, *(torch.autograd.grad(out.square().sum(), given_) for out in outs)))
