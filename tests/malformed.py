"""Tables as nobody should write them, made by number: the same number gives the same bytes."""

from __future__ import annotations

import csv
import gzip
import io
import random
import zipfile
from collections.abc import Callable

import openpyxl
import pyarrow
from pyarrow import parquet

MOLECULES = [
    "CCO",
    "c1ccccc1",
    "CC(=O)O",
    "C1CCCCC1N",
    "",
    "C C",
    "Xx",
    "CCСО",
    "C1CC",
    "[Na+].[Cl-]",
    "c1cccc1",
    "C" * 300,
]
SUFFIXES = [".csv", ".tsv", ".smi", ".sdf", ".parquet", ".csv.gz", ".txt", ""]


def plain(rng: random.Random) -> str:
    """A table with some bad cells, of 0 to 40 rows."""
    rows = [
        [rng.choice(MOLECULES), rng.choice(["0", "1", "", "NA", "x"]), rng.choice(["a", "b", "c", "2024-01-01"])]
        for _ in range(rng.randrange(41))
    ]
    header = rng.choice([["smiles", "y", "batch"], ["y", "y", "y"], ["", "", ""], ["CCO", "1", "a"]])
    return "\n".join(",".join(row) for row in [header, *rows]) + rng.choice(["", "\n", "\n\n\n"])


def binary(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 3000))


def magic_and_junk(rng: random.Random) -> bytes:
    magic = [
        b"PAR1",
        b"PK\x03\x04",
        b"\x1f\x8b",
        b"\x1f\x8b\x08\x00",
        b"\xff\xfe",
        b"\xfe\xff",
        b"\xef\xbb\xbf",
        b"\xff\xfe\0\0",
    ]
    return rng.choice(magic) + rng.choice([b"", rng.randbytes(rng.randrange(500)), plain(rng).encode()])


def cut_gzip(rng: random.Random) -> bytes:
    data = gzip.compress((plain(rng) * rng.randrange(1, 50)).encode(), mtime=0)
    return data[: rng.randrange(len(data))]


def flipped_gzip(rng: random.Random) -> bytes:
    data = bytearray(gzip.compress((plain(rng) * 20).encode(), mtime=0))
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(data)


def nearly_nothing(rng: random.Random) -> bytes:
    return rng.choice(
        [b"", b"\n", b"smiles,y\n", b"smiles", b",,,\n", b'"', b'"\n', b"\xef\xbb\xbf", b"\r\r\r", b" ", b"$$$$\n"]
    )


def huge_fields(rng: random.Random) -> str:
    size = rng.choice([5_000, 131_071, 131_072, 200_000])
    cell = rng.choice(["C", "C1CC", '"', "x", "(", "é"]) * size
    return f"smiles,y\nCCO,1\n{rng.choice(['', chr(34)])}{cell},0\nCCN,1\n"


def wrong_delimiters(rng: random.Random) -> str:
    text = plain(rng)
    for _ in range(rng.randrange(30)):
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(",;\t| \"'") + text[place + 1 :]
    return text.replace(",", rng.choice([",", ";", "\t", " ", "||", ":"]))


def nulls(rng: random.Random) -> bytes:
    data = bytearray(plain(rng).encode() * rng.choice([1, 40]))
    for _ in range(rng.randrange(1, 5)):
        data[rng.randrange(len(data))] = 0
    return bytes(data)


def mixed_encodings(rng: random.Random) -> bytes:
    encodings = ["utf-8", "utf-16", "utf-16-le", "cp1251", "shift_jis", "utf-8-sig", "utf-7"]
    return b"".join(
        f"CCO,µé漢{i},Ж\n".encode(rng.choice(encodings), "replace") for i in range(rng.randrange(1, 20))
    ) + plain(rng).encode(rng.choice(encodings), "replace")


def open_quotes(rng: random.Random) -> str:
    text = plain(rng)
    for _ in range(rng.randrange(1, 6)):
        place = rng.randrange(len(text))
        text = text[:place] + '"' + text[place:]
    return text


def mutated_parquet(rng: random.Random) -> bytes:
    columns = {"smiles": [rng.choice(MOLECULES) for _ in range(30)], "y": [rng.random() < 0.5 for _ in range(30)]}
    buffer = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), buffer)
    data = bytearray(buffer.getvalue())
    for _ in range(rng.randrange(4)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data[: rng.choice([len(data), rng.randrange(len(data))])])


def mutated_sdf(rng: random.Random) -> str:
    atom = "    0.0000    0.0000    0.0000 {} 0  0  0  0  0  0  0  0  0  0  0  0\n"
    block = "name\n  made\n\n  2  1  0  0  0  0  0  0  0  0999 V2000\n" + atom.format("C ") + atom.format("O ")
    block += "  1  2  1  0\nM  END\n> <active>\n1\n\n> <active\n0\n\n>\n$$$$\n"
    text = list(block * rng.randrange(1, 6))
    for _ in range(rng.randrange(12)):
        text[rng.randrange(len(text))] = rng.choice("0123456789 CNO\n$>-*é")
    return "".join(text[: rng.choice([len(text), rng.randrange(len(text))])])


def wide(rng: random.Random) -> str:
    columns = rng.choice([500, 3_000, 25_000])
    return ",".join(f"c{i % 700}" for i in range(columns)) + "\n" + ",".join("1" * columns) + "\nCCO\n"


def mutated_workbook(rng: random.Random) -> bytes:
    """A workbook, some bytes of which are others: of the archive, or of what is packed in it."""
    book, buffer = openpyxl.Workbook(), io.BytesIO()
    for row in csv.reader(plain(rng).splitlines()):
        book.active.append(row)
    book.save(buffer)
    data = buffer.getvalue()
    if rng.random() < 0.5:
        parts, buffer = zipfile.ZipFile(io.BytesIO(data)), io.BytesIO()
        spoilt = rng.choice(parts.namelist())
        with zipfile.ZipFile(buffer, "w") as archive:
            for name in parts.namelist():
                content = bytearray(parts.read(name))
                for _ in range(rng.randrange(1, 6) if name == spoilt else 0):
                    content[rng.randrange(len(content))] = rng.randrange(256)
                archive.writestr(name, bytes(content))
        return buffer.getvalue()
    content = bytearray(data)
    for _ in range(rng.randrange(4)):
        content[rng.randrange(len(content))] = rng.randrange(256)
    return bytes(content[: rng.choice([len(content), rng.randrange(len(content))])])


def utf_16(rng: random.Random) -> bytes:
    data = plain(rng).encode(rng.choice(["utf-16", "utf-16-le", "utf-16-be", "utf-32"]))
    return data[: len(data) - rng.choice([0, 1, 2, 3])]


def formulas(rng: random.Random) -> str:
    starts = ["=1+1", "@SUM(A1)", "+1", "-1-1", "=cmd|' /C calc'!A0", "\t=1"]
    return "smiles,y\n" + "".join(
        f"{rng.choice([*starts, *MOLECULES])},{rng.choice([*starts, '0', '1'])}\n" for _ in range(20)
    )


KINDS: list[Callable[[random.Random], bytes | str]] = [
    plain,
    binary,
    magic_and_junk,
    cut_gzip,
    flipped_gzip,
    nearly_nothing,
    huge_fields,
    wrong_delimiters,
    nulls,
    mixed_encodings,
    open_quotes,
    mutated_parquet,
    mutated_sdf,
    wide,
    mutated_workbook,
    utf_16,
    formulas,
]


def malformed(number: int) -> tuple[str, bytes]:
    """File name and contents of a malformed table."""
    rng = random.Random(number)
    kind = KINDS[number % len(KINDS)]
    content = kind(rng)
    natural = {mutated_parquet: ".parquet", mutated_sdf: ".sdf", cut_gzip: ".csv.gz", mutated_workbook: ".xlsx"}.get(
        kind, ".csv"
    )
    suffix = natural if rng.random() < 0.6 else rng.choice(SUFFIXES)
    return f"{kind.__name__}-{number}{suffix}", content.encode("utf-8", "replace") if isinstance(
        content, str
    ) else content
