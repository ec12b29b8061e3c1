"""The publishers' files: what they are called, how to recognise them, and where they are on this machine.

Nothing of a publisher is part of this package, except two lists of row numbers. A file is looked for in the user's
data folder (`MPHIL_DATA`), then downloaded where it has a plain address, and believed only when its SHA-256 is right.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mphil.benchmarks.fetch import fetch, sha256_of
from mphil.errors import DataError, IntegrityError
from mphil.registry import Registry

ACCEPT_ANY = "MPHIL_ACCEPT_ANY_DATA"
"""Set to 1, this variable lets files pass whose checksum is not the expected one; what was read is recorded."""


@dataclass(frozen=True)
class Source:
    """A file somebody else publishes.

    Attributes:
        name: what the rest of the package calls it.
        file: its exact name, as published; may begin with a sub folder where two publications share a name.
        size: bytes of the published file, None when no copy was at hand.
        sha256: of the published file; None says that any file of that name is taken, and its checksum recorded.
        url: where it can be downloaded by a program, None when a person has to do it.
        where: where it is published, for people.
        licence: terms of the data.
        folder: sub folder of the data folder it belongs in; directly in the data folder it is found as well.
        also: SHA-256 of further copies in circulation with the same contents.
        other_names: further names it is found under.
    """

    name: str
    file: str
    size: int | None
    sha256: str | None
    url: str | None
    where: str
    licence: str
    folder: str = ""
    also: tuple[str, ...] = ()
    other_names: tuple[str, ...] = ()

    @property
    def home(self) -> Path:
        """Path the file has, or would have, in the data folder of this moment."""
        return data_folder() / self.folder / self.file

    def knows(self, sha256: str) -> bool:
        """Whether this is the checksum of the published file or of a copy with the same contents."""
        return self.sha256 is not None and sha256 in (self.sha256, *self.also)

    def instructions(self) -> str:
        """All it takes to get the file by hand: name, size, checksum, publisher, terms and folder."""
        size = "not known" if self.size is None else f"{self.size:,} bytes"
        rows = {
            "file": self.home.name,
            "size": size,
            "sha256": self.sha256 or "not known: any file of this name is taken, and its checksum recorded",
            "published": self.where if self.url is None else f"{self.where}; {self.url}",
            "licence": self.licence,
            "put it in": str(self.home.parent),
        }
        table = "\n".join(f"  {key:<10} {value}" for key, value in rows.items())
        return f"{table}\nor set MPHIL_DATA to the folder that holds it"


@dataclass(frozen=True)
class Located:
    """A source that was found on this machine.

    Attributes:
        path: the file.
        sha256: of what the file holds now.
        verified: whether that is an expected checksum; False when none is known or a wrong file was accepted.
        expected: the published checksum, None when it is not known.
    """

    path: Path
    sha256: str
    verified: bool
    expected: str | None = None

    def provenance(self) -> dict[str, Any]:
        """What a benchmark records of the file it was made from; no path, which says nothing on other machines."""
        record: dict[str, Any] = {"file": self.path.name, "sha256": self.sha256, "verified": self.verified}
        return record if self.verified else {**record, "expected": self.expected}


SOURCES: Registry[Source] = Registry("data file")


def data_folder() -> Path:
    """The user's data folder: `MPHIL_DATA`, else `mphil` in `XDG_DATA_HOME`, else `~/.local/share/mphil`."""
    if chosen := os.environ.get("MPHIL_DATA"):
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "mphil"


def find(source: Source | str) -> Path | None:
    """Where a file of that name is, without reading or downloading anything; None when there is none."""
    return next(iter(_present(_resolve(source))), None)


def locate(source: Source | str, *, accept_any: bool = False) -> Located:
    """The file, from the data folder or else from its publisher, with its checksum checked.

    Args:
        source: the source or its name in `SOURCES`.
        accept_any: take a file with the wrong checksum too, as `MPHIL_ACCEPT_ANY_DATA=1` does; the result says so.

    Raises:
        DataError: it is missing and could not be downloaded; the message says how to get it.
        IntegrityError: there is a file of that name, but it is another one.
    """
    source = _resolve(source)
    accept_any = accept_any or os.environ.get(ACCEPT_ANY) == "1"
    found = [_examined(source, path) for path in _present(source) or [_download(source, accept_any)]]
    best = max(found, key=lambda located: located.verified)
    if best.verified or source.sha256 is None or accept_any:
        return best
    raise IntegrityError(_wrong(source, best))


def _resolve(source: Source | str) -> Source:
    return SOURCES[source] if isinstance(source, str) else source


def _present(source: Source) -> list[Path]:
    """Files of that name: in their own sub folder first, then directly in the data folder."""
    root = data_folder()
    names = (source.file, *source.other_names)
    candidates = [root / folder / name for folder in (source.folder, "") for name in names]
    return [path for path in dict.fromkeys(candidates) if path.is_file()]


def _examined(source: Source, path: Path) -> Located:
    sha256 = sha256_of(path)
    return Located(path, sha256, source.knows(sha256), source.sha256)


def _download(source: Source, accept_any: bool) -> Path:
    if source.url is None:
        raise DataError(f"{source.file} is missing and cannot be downloaded by a program\n{source.instructions()}")
    expected = () if source.sha256 is None or accept_any else (source.sha256, *source.also)
    try:
        source.home.parent.mkdir(parents=True, exist_ok=True)
        fetch(source.url, source.home, size=None if accept_any else source.size, sha256=expected)
    except (DataError, IntegrityError) as error:
        raise type(error)(f"{source.file} is missing: {error}\nTo get it by hand:\n{source.instructions()}") from error
    except OSError as error:
        raise DataError(f"{source.file} is missing and cannot be saved: {error}\n{source.instructions()}") from error
    return source.home


def _wrong(source: Source, found: Located) -> str:
    return (
        f"{found.path} is not the published file: {found.path.stat().st_size:,} bytes, sha256 {found.sha256}\n"
        f"Replace it by the right one:\n{source.instructions()}\n"
        f"To use it all the same, set {ACCEPT_ANY}=1; its checksum is then recorded with every result."
    )


def _add(name: str, file: str, folder: str, **facts: Any) -> None:
    SOURCES.add(name, Source(name, file, folder=folder, **({"size": None, "sha256": None, "url": None} | facts)))


# --- MoleculeNet -----------------------------------------------------------------------------------------------------
_BUCKET = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/"
_DEEPCHEM = "published with DeepChem (MIT)"

_add(
    "hiv",
    "HIV.csv",
    "moleculenet",
    # Lines of the published file end in CR LF LF; the other copy is the same with plain LF.
    size=2_193_844,
    sha256="9ffa7fe57dc86c342627ee1d5255e937e2ab812393c73c4d16c697022f6e1d22",
    also=("b72f0cf00cd1f45ae5c415f21aef10e69187e30dd24029ddb345fbca35b0d798",),
    url=_BUCKET + "HIV.csv",
    where="MoleculeNet HIV, DeepChem's public bucket",
    licence=f"{_DEEPCHEM}; AIDS Antiviral Screen of the US National Cancer Institute",
)
_add(
    "pcba",
    "pcba.csv.gz",
    "moleculenet",
    url=_BUCKET + "pcba.csv.gz",
    where="MoleculeNet PCBA, DeepChem's public bucket",
    licence=f"{_DEEPCHEM}; PubChem BioAssay",
    other_names=("pcba.csv",),
)
# Public records (checksums, row counts) say that the bucket now serves other editions of these two, with fewer rows:
# nothing a program should take in their place.
_add(
    "muv",
    "muv.csv.gz",
    "moleculenet",
    size=1_749_843,
    sha256="93c8b4a37c5996c76e57d5f3f065fb8b7cf1c19067011eff2293fd2a94ce274a",
    where="MoleculeNet MUV (DeepChem), the edition of the MoleculeNet paper, 93,127 rows",
    licence=f"{_DEEPCHEM}; PubChem BioAssay",
)
_add(
    "toxcast",
    "toxcast_data.csv.gz",
    "moleculenet",
    size=405_299,
    sha256="56041515e0bb63c1787a26ecdbeb2bd7ae1f538681caa1b03f768853cf81b1a7",
    where="MoleculeNet ToxCast (DeepChem), the edition of the MoleculeNet paper, 8,615 rows",
    licence=f"{_DEEPCHEM}; US Environmental Protection Agency",
)

# --- GOOD ------------------------------------------------------------------------------------------------------------
for _domain, _size, _sha256 in (
    ("scaffold", 294_798, "8d870fc7539aba95e0d4ab3f428e7537c694019ed85fb47b6d064b4ee9380a95"),
    ("size", 205_436, "d8eda10fff73e65b1a29862cda64d5c77c4225d629ae0e42edd60b84fd43a463"),
):
    _add(
        f"good-hiv-{_domain}",
        f"good_hiv_{_domain}_covariate.csv.gz",
        "good",
        size=_size,
        sha256=_sha256,
        where="inside this package (mphil/benchmarks/splits)",
        licence="as this package; row numbers only",
    )

# --- DrugOOD ---------------------------------------------------------------------------------------------------------
_CHEMBL = "CC BY-SA 3.0 (ChEMBL); curated by DrugOOD (GPL-3.0)"
_EC50 = {
    "assay": (2_151_484, "a7e8dd4dfe9f60d7ebcc94ccdaa0c77edb628525978f91e0c82bb1ab61924643"),
    "scaffold": (2_167_922, "e8a4a603a74f74d4a4da0438b0546aa76519d1b95b26524914df1e52f99d7761"),
    "size": (2_141_102, "47a68d1c2364f2d1a75fea383271c6ba5ca4facdbe17039edc970a6dd160c263"),
}
for _measure in ("ec50", "ic50"):
    for _domain in ("assay", "scaffold", "size"):
        _size_known, _sha_known = _EC50[_domain] if _measure == "ec50" else (None, None)
        _add(
            f"drugood-{_measure}-{_domain}",
            f"lbap_core_{_measure}_{_domain}.json",
            "drugood",
            size=_size_known,
            sha256=_sha_known,
            where="DrugOOD, files made from ChEMBL 29 (Google Drive folder linked from drugood.github.io)",
            licence=_CHEMBL,
        )
        _add(
            f"drugood-{_measure}-{_domain}-chembl30",
            f"chembl30/lbap_core_{_measure}_{_domain}.json",
            "drugood",
            where="DrugOOD, files made from ChEMBL 30 (Google Drive folder linked from drugood.github.io)",
            licence=_CHEMBL,
        )
_add(
    "ic50-partial",
    "ic50_core_chembl29_partial_labels.csv.gz",
    "drugood",
    size=541_555,
    sha256="98b69898894f951599cf2ac60a0394c7e27038e6a662cb80959487890544c22d",
    where="nowhere: recovered labels of 27,285 of the 95,236 IC50-core molecules; ask the authors of this package",
    licence=_CHEMBL,
)

# --- MNIST -----------------------------------------------------------------------------------------------------------
_add(
    "mnist",
    "mnist.npz",
    "mnist",
    size=11_490_434,
    sha256="731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1",
    also=("06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",),
    url="https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz",
    where="MNIST as Keras distributes it",
    licence="CC BY-SA 3.0 (Y. LeCun, C. Cortes, C. Burges)",
)
_add(
    "mnist-superpixels",
    "MNISTSuperpixels.pt",
    "mnist",
    where="MNIST superpixels of the MoNet paper, raw file of PyTorch Geometric's MNISTSuperpixels dataset",
    licence="CC BY-SA 3.0 (MNIST)",
)
