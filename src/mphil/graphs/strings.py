"""Many strings without a Python object each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

from numpy.typing import NDArray


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
