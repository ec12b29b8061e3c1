"""Encoders: one file each, and any PyTorch module. A new file in this folder appears everywhere by itself."""

from mphil.nn.encoders.encoder import ENCODERS, Encoder, register_encoder, summary
from mphil.nn.encoders.from_settings import admit, build_encoder, encoder_class, require_weights

__all__ = [
    "ENCODERS",
    "Encoder",
    "admit",
    "build_encoder",
    "encoder_class",
    "register_encoder",
    "require_weights",
    "summary",
]
