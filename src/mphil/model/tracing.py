"""A method as a function of plain tensors, its trace, and the bytes of a file that holds it."""

from __future__ import annotations

import importlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from mphil.config import EncoderConfig
from mphil.errors import UsageError
from mphil.graphs.store import Batch, GraphBatch
from mphil.methods.base import Method
from mphil.model.predictor.asking import implements, remembering

TALKATIVE = ("torch", "torch._guards", "torch._dynamo", "torch.onnx", "onnxscript", "onnx_ir")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep from the user what torch and its helpers say about their own insides; errors are raised as always."""
    loggers = [logging.getLogger(name) for name in TALKATIVE]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


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


class TensorModel(nn.Module):
    """A method as a function of plain tensors, in evaluation mode.

    Args:
        method: the trained method.
        encoder: what nodes and edges carry.

    Raises:
        UsageError: the method takes more than a graph.
    """

    def __init__(self, method: Method, encoder: EncoderConfig) -> None:
        super().__init__()
        if method.takes_descriptors:
            raise UsageError(
                "this network takes descriptors of whole molecules, which RDKit computes: networks of graphs alone are "
                "exported; train with --set method.descriptors=false"
            )
        self.outputs = ("logits", "embedding") if implements(method, "embed") else ("logits",)
        self.inputs = ("x", "edge_index", "ptr") + (() if encoder.edge.kind == "none" else ("edge_attr",))
        self.method = remembering(method)
        self.eval()

    def forward(
        self, x: Tensor, edge_index: Tensor, ptr: Tensor, edge_attr: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Answer about b graphs that are laid end to end.

        Args:
            x: (nodes, columns) what nodes carry.
            edge_index: (2, edges) source and target of every edge, both directions, counted through all graphs.
            ptr: (b + 1,) where the nodes of each graph begin, and the number of all.
            edge_attr: (edges, columns) what edges carry.

        Returns:
            (b, outputs) logits and, if the method has one, (b, p) the embedding.
        """
        borders = ptr.new_zeros(x.shape[0] + 1).index_add(0, ptr[1:], torch.ones_like(ptr[1:]))
        owner = borders.cumsum(0)[:-1]
        batch = GraphBatch(x=x, edge_index=edge_index, edge_attr=edge_attr, ptr=ptr, batch=owner)
        logits = self.method.predict(batch)
        return (logits, self.method.embed(batch)) if "embedding" in self.outputs else (logits,)

    def arguments(self, batch: Batch) -> tuple[Tensor, ...]:
        """The inputs, in order, from a batch."""
        return tuple(getattr(batch, name) for name in self.inputs)


def trace(model: TensorModel, example: Batch) -> ExportedProgram:
    """The operations of a model, for any number of nodes, edges and graphs.

    Raises:
        UsageError: the method does something that torch.export cannot follow.
    """
    from torch.fx.experimental import _config

    shapes: Any = _config
    if not hasattr(shapes, "backed_size_oblivious"):
        raise UsageError(f"torch {torch.__version__} exports no batches of any size; use torch 2.9 or newer")
    edges = Dim("edges", min=0)
    sizes = {"x": {0: Dim("nodes", min=0)}, "edge_index": {1: edges}, "edge_attr": {0: edges}}
    dynamic = tuple(sizes.get(name, {0: Dim("graphs", min=0) + 1}) for name in model.inputs)
    # Without the option a batch of one graph, or one without edges, would count as another kind of model.
    with quiet(), torch.no_grad(), shapes.patch(backed_size_oblivious=True):
        try:
            program = torch.export.export(model, model.arguments(example), dynamic_shapes=dynamic, strict=True)
        except Exception as error:  # torch raises its own, and whatever the traced code does on strange numbers
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UsageError(f"torch.export cannot follow {model.method.name}: {reason[:200]}") from error
    for node in program.graph.nodes:
        # Where our sources lie on this machine is nobody's business who gets the file.
        node.meta.pop("stack_trace", None)
    return program
