"""A call of a compiled loop says which argument is which; what C could not notice is refused before."""

import ctypes
import re

import numpy as np
import pytest
import torch

from mphil.nn.fast.compiling import FOLDER
from mphil.nn.fast.library import kernels, status
from mphil.nn.fast.loading import Loops, MissingFunction, declared

compiled = pytest.mark.skipif(status().library is None, reason=status().reason)


def product(**changed):
    a, b = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0], [4.0]])
    given = {"out": torch.zeros(1, 1), "a": a, "b": b, "bias": None, "sums": None, "out_stride": 1, "a_stride": 2}
    given |= {"step": 1, "column": 1, "rows": 1, "depth": 2, "columns": 1} | changed
    failed = kernels(a).product(**given)
    return failed, given["out"].tolist()


def test_what_the_sources_define_and_do_not_keep_for_themselves():
    assert {"aggregate", "perceptron_backward", "nearest", "set_threads"} <= declared().keys()
    assert not {"share", "multiply", "transpose", "new_factor", "within"} & declared().keys()
    text = " ".join(file.read_text() for file in FOLDER.glob("*.c"))
    for name, (result, parameters) in declared().items():
        signature = re.search(rf"{result} {name}\(([^)]*)\) {{", text)[1]
        assert len(parameters) == (0 if signature == "void" else signature.count(",") + 1)
        assert [one.array for one in parameters] == ["*" in text for text in signature.split(",")][: len(parameters)]


@compiled
class TestCalls:
    def test_by_name_in_any_order(self):
        assert product() == (0, [[11.0]])
        library = kernels(torch.ones(1))
        assert library.set_threads(threads=1) == 1

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"left": None}, r"product: arguments \[\] are missing, \['left'\] are unknown"),
            ({"a": torch.ones(1, 2, dtype=torch.float64)}, r"an array of torch.float64 where the loops want torch.fl"),
            ({"b": torch.ones(2, 1, dtype=torch.int64)}, r"an array of torch.int64 where the loops want torch.float32"),
            ({"a": np.ones((1, 2))}, r"an array of float64 where the loops want torch.float32"),
        ],
    )
    def test_mistakes(self, changed, message):
        with pytest.raises(TypeError, match=message):
            product(**changed)

    def test_numbers_are_of_their_kind(self):
        with pytest.raises(ctypes.ArgumentError):
            product(rows=1.0)
        with pytest.raises(TypeError, match=r"\['rows'\] are missing"):
            kernels(torch.ones(1)).product(**dict.fromkeys(names("product") - {"rows"}))
        with pytest.raises(TypeError):
            kernels(torch.ones(1)).set_threads(1)

    def test_functions_that_are_not_there(self):
        with pytest.raises(AttributeError, match="the loops have no 'produce'; they have .*aggregate"):
            kernels(torch.ones(1)).produce()
        with pytest.raises(MissingFunction, match="no function 'chains_pay'"):
            Loops(ctypes.CDLL(None), "float")


def names(function):
    return {one.name for one in declared()[function][1]}
