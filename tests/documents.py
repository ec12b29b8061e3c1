"""The code blocks of README and docs, and the commands in them."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(p for p in (ROOT / "docs").rglob("*.md") if p.parent.name != "reference")]
"""What people write; `docs/reference` is generated and has no code to run."""

_FENCED = r"^```(?P<kind>[\w{}-]*)\n(?P<fenced>.*?)^```$"
_INDENTED = r"(?<=\n\n)(?P<indented>(?:    [^\n]*\n|\n(?=    \S))+)"
_BLOCK = re.compile(f"{_FENCED}|{_INDENTED}", re.M | re.S)
_FILE = re.compile(r"# ([\w.-]+\.(?:py|toml))\n")


@dataclass(frozen=True)
class Block:
    """One code block.

    Attributes:
        page: path of its document, from the root of the repository.
        line: where it begins.
        kind: the language of a fenced block; indented ones are `sh`.
        text: what is in it.
    """

    page: str
    line: int
    kind: str
    text: str

    @property
    def file(self) -> str | None:
        """Name of the file that it is the contents of: the comment in its first line."""
        match = _FILE.match(self.text)
        return match[1] if match else None

    @property
    def commands(self) -> list[str]:
        """Its lines, comments taken away and continued lines joined."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [" ".join(line.split()) for line in (re.sub(r"\s+# .*$", "", line) for line in lines) if line.strip()]


def blocks(page: Path) -> list[Block]:
    """All code blocks of a document, in order."""
    text, found = page.read_text(encoding="utf-8"), []
    for match in _BLOCK.finditer(text):
        kind, inside = match["kind"] or "", match["fenced"]
        if inside is None:
            kind, inside = "sh", re.sub(r"^    ", "", match["indented"], flags=re.M)
        if not kind.startswith("{"):
            line = text.count("\n", 0, match.start()) + 1
            found.append(Block(page.relative_to(ROOT).as_posix(), line, kind, inside))
    return found


def inline_commands(page: Path) -> list[str]:
    """Commands in the text, between backquotes."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return re.findall(r"`(mphil [^`]+)`", text)


def words(command: str) -> list[str]:
    """The arguments of a command, as a shell would split them."""
    return shlex.split(command)
