"""What the columns of a feature matrix are, and the strings of many graphs without a Python object each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, overload

import torch
from numpy.typing import NDArray
from torch import Tensor


@dataclass(frozen=True)
class Features:
    """The kind of a feature matrix and its sizes.

    Attributes:
        kind: `categorical` (integer codes, one vocabulary a column), `float`, `constant` (a column of ones: the graph
            is its structure) or `none` (no matrix).
        sizes: vocabulary size of each column for `categorical`; the number of columns for `float`.
        schema: name and version of the featuriser that made the columns, empty when there is none.
    """

    kind: Literal["categorical", "float", "constant", "none"]
    sizes: tuple[int, ...] = ()
    schema: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))

    @classmethod
    def constant(cls) -> Features:
        return cls("constant", (1,))

    @classmethod
    def none(cls) -> Features:
        return cls("none")

    @classmethod
    def read(cls, values: Tensor) -> Features:
        """Read the kind off a tensor: integers are codes, floats are floats."""
        if values.is_floating_point():
            return cls("float", (values.shape[1],))
        return cls("categorical", tuple((values.amax(0) + 1).tolist()) if len(values) else (1,) * values.shape[1])

    @property
    def width(self) -> int:
        """Columns of the matrix."""
        return len(self.sizes) if self.kind == "categorical" else sum(self.sizes)

    def as_dict(self) -> dict[str, object]:
        return asdict(self) | {"sizes": list(self.sizes)}

    def dtype(self) -> torch.dtype:
        return torch.long if self.kind == "categorical" else torch.float32


class Strings(Sequence[str]):
    """A list of strings kept as one block of UTF-8 bytes and decoded on access; a slice is a view.

    Args:
        data: (n_bytes,) all strings end to end.
        ptr: (n + 1,) where each begins.
    """

    def __init__(self, data: NDArray[Any], ptr: NDArray[Any]) -> None:
        self._data, self._ptr = data, ptr

    def __len__(self) -> int:
        return len(self._ptr) - 1

    @overload
    def __getitem__(self, item: int) -> str: ...

    @overload
    def __getitem__(self, item: slice) -> Sequence[str]: ...

    def __getitem__(self, item: int | slice) -> str | Sequence[str]:
        if isinstance(item, slice):
            start, stop, step = item.indices(len(self))
            if step != 1:
                return [self[i] for i in range(start, stop, step)]
            return Strings(self._data, self._ptr[start : max(start, stop) + 1])
        item = range(len(self))[item]
        return bytes(self._data[self._ptr[item] : self._ptr[item + 1]]).decode()
