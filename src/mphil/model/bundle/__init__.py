"""A trained model as a folder that can be given away: weights, settings, what to trust, a card; nothing is pickled."""

from mphil.model.bundle.contents import Bundle, BundleConfig, Committee, Member, MoleculeReading, References, Trust
from mphil.model.bundle.folder import read_bundle, write_bundle

__all__ = [
    "Bundle",
    "BundleConfig",
    "Committee",
    "Member",
    "MoleculeReading",
    "References",
    "Trust",
    "read_bundle",
    "write_bundle",
]
