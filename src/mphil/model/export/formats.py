"""From a trace to the bytes of a file, and back to something that can be asked."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.export import ExportedProgram

from mphil.errors import UsageError
from mphil.model.export.quiet import quiet

Format = Literal["torch", "onnx"]
FORMATS: tuple[Format, ...] = get_args(Format)
SUFFIXES: dict[Format, str] = {"torch": ".pt2", "onnx": ".onnx"}

Ask = Callable[[Sequence[Tensor]], list[NDArray[Any]]]
"""From the inputs in order to the outputs in order."""


def check_packages(format: Format) -> None:
    """Refuse a format whose packages are missing, before any time is spent."""
    for package in ("onnx", "onnxscript", "onnxruntime") if format == "onnx" else ():
        try:
            importlib.import_module(package)
        except ImportError:
            raise UsageError(
                f"{package} is missing: install the extra, pip install 'mphil[export]', or use --format torch"
            ) from None


def as_torch(program: ExportedProgram) -> tuple[bytes, Ask]:
    """A file for `torch.export.load`, and the model that it holds."""
    file = io.BytesIO()
    torch.export.save(program, file)
    data = file.getvalue()
    # Our own bytes of a moment ago: what is compared with the original is what will be on disk.
    module = torch.export.load(io.BytesIO(data)).module()

    def ask(inputs: Sequence[Tensor]) -> list[NDArray[Any]]:
        with torch.no_grad():
            return [np.asarray(output) for output in module(*inputs)]

    return data, ask


def as_onnx(program: ExportedProgram, inputs: Sequence[str], outputs: Sequence[str]) -> tuple[bytes, Ask]:
    """An ONNX file, and the model that it holds, run by onnxruntime.

    Raises:
        UsageError: the model has an operation that ONNX lacks.
    """
    import onnxruntime

    try:
        with quiet():
            made = torch.onnx.export(
                program, (), dynamo=True, input_names=list(inputs), output_names=list(outputs), verbose=False
            )
        assert made is not None
        data: bytes = made.model_proto.SerializeToString()
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # every package of the chain raises its own
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise UsageError(f"ONNX cannot express this model: {reason[:200]}; use --format torch") from error

    def ask(given: Sequence[Tensor]) -> list[NDArray[Any]]:
        values = {name: tensor.numpy() for name, tensor in zip(inputs, given, strict=True)}
        return list(session.run(list(outputs), values))

    return data, ask
