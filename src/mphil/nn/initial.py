"""Initial values of parameters."""

from __future__ import annotations

import torch
from torch import Tensor


def standard_normal(*shape: int) -> Tensor:
    """The bits of `torch.randn`; on the device `meta`, where a draw would import the compiler of torch, no draw.

    Example:
        >>> with torch.device("meta"):
        ...     standard_normal(2, 3)
        tensor(..., device='meta', size=(2, 3))
    """
    values = torch.empty(*shape)
    return values if values.is_meta else values.normal_()
