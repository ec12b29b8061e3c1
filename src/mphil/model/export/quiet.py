"""Silence of the machinery that exports."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

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
