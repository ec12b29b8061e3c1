"""Files of structures record by record: SDF and .smi."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rdkit import Chem, rdBase

from mphil.chem.row_issue import RowIssue
from mphil.errors import DataError
from mphil.tables.delimited import Lines, Record

LONGEST_RECORD = 20_000
MOST_CHARACTERS = 4_000_000
"""Lines and characters of a structure in an SDF file."""

MOST_PROPERTIES = 10_000

MOST_LINES = 1_000_000
"""Lines without the end of a structure; a few kilobytes of gzip can hold thousands of millions."""

_PROPERTY = re.compile(r">.*?<([^>]*)>")


def smi_records(lines: Lines) -> Iterator[Record]:
    """SMILES, then after a blank a name: two cells a line; a heading such as `SMILES Name` is left out."""
    for line in lines:
        text = line.strip()
        smiles, _, name = text.replace("\t", " ", 1).partition(" ") if "\t" in text else text.partition(" ")
        if text and not (lines.count == 1 and smiles.lower() in ("smiles", "#smiles")):
            yield Record(lines.count, [smiles, name.strip()])


def sdf_properties(lines: Lines) -> list[str]:
    """Names of all properties in an SDF file, in the order in which they first appear."""
    names: dict[str, None] = {}
    begun = 0
    for line in lines:
        if line.startswith("$$$$"):
            begun = lines.count
        elif lines.count - begun > MOST_LINES:
            raise DataError(f"{lines.path}:{lines.count}: {MOST_LINES:,} lines without `$$$$`; is this an SDF file?")
        if line.startswith(">") and (match := _PROPERTY.match(line)):
            names[match[1].strip()] = None
            if len(names) > MOST_PROPERTIES:
                raise DataError(f"{lines.path}:{lines.count}: more than {MOST_PROPERTIES:,} different properties")
    return list(names)


def sdf_records(lines: Lines, properties: list[str]) -> Iterator[Record]:
    """Canonical SMILES, title and properties of every structure; a record ends with `$$$$` or with the file."""
    for first, block in _blocks(lines):
        if block is None:
            text = f"the structure that begins on line {first} has more lines or characters than we read"
            yield Record(first, [""] * (2 + len(properties)), RowIssue("structure", text))
            continue
        end = next((i + 1 for i, line in enumerate(block) if line.startswith("M  END")), len(block))
        values = _property_values(block[end:])
        smiles, issue = _structure_smiles("\n".join(block[:end]), first)
        title = block[0].strip()
        yield Record(first, [smiles, title, *(values.get(name, "") for name in properties)], issue)


def _blocks(lines: Lines) -> Iterator[tuple[int, list[str] | None]]:
    """First line and lines of each record; None for one that is too long."""
    first, size = 1, 0
    block: list[str] = []
    for line in lines:
        if line.startswith("$$$$"):
            if block:
                yield first, block if size <= MOST_CHARACTERS else None
            first, size, block = lines.count + 1, 0, []
        elif size <= MOST_CHARACTERS:
            block.append(line.rstrip("\r\n"))
            size += len(line) if len(block) <= LONGEST_RECORD else MOST_CHARACTERS + 1
    if any(line.strip() for line in block):
        yield first, block if size <= MOST_CHARACTERS else None


def _property_values(lines: list[str]) -> dict[str, str]:
    values: dict[str, list[str]] = {}
    name = None
    for line in lines:
        if line.startswith(">") and (match := _PROPERTY.match(line)):
            name = match[1].strip()
            values[name] = []
        elif not line.strip():
            name = None
        elif name is not None:
            values[name].append(line)
    return {name: "\n".join(text) for name, text in values.items()}


def _structure_smiles(block: str, line: int) -> tuple[str, RowIssue | None]:
    try:
        with rdBase.BlockLogs():
            mol = Chem.MolFromMolBlock(block)
            smiles = "" if mol is None else Chem.MolToSmiles(mol)
    except (ValueError, RuntimeError, UnicodeError):
        smiles = ""
    if smiles:
        return smiles, None
    return "", RowIssue("structure", f"RDKit cannot read the structure that begins on line {line}; check the mol block")
