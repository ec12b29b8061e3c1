"""Named settings of MPHIL: the paper, its authors' code, and the paper with its slips repaired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAPER: Mapping[str, Any] = {"momentum": 0.99, "keep": 1, "matching": 0.1}

RELEASE: Mapping[str, Any] = {
    "prototypes": 3,
    "keep": 1,
    "momentum": 0.9,
    "normalise": False,
    "projector_width": 1.0,
    "projection": 300,
    "attention_width": 128,
    "attention_over": "all",
    "attention_bias": True,
    "score_head": True,
    "score_target": 0.9,
    "score_weight": 0.5,
    "scoring": "product",
    "matching": 0.0,
    "separation_form": "summed",
    "separation_temperature": 0.5,
}

REPAIRED: Mapping[str, Any] = {
    "attention": "cosine",
    "attention_temperature": 0.1,
    "start": "class-mean",
    "update": "ema-sinkhorn",
    "update_as": "mean",
    "momentum": 0.95,
    "matching": 1.0,
    "detached_matching": True,
    "separation_form": "dispersion",
}
"""Each value is explained in docs/explanation/method.md."""
