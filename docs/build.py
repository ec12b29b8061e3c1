"""Write docs/reference from the code, so that it cannot say anything else than the code does."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from pydantic import BaseModel
from typer.main import get_command

from mphil.benchmarks import BENCHMARKS
from mphil.cli import app
from mphil.config import EncoderConfig, TrainConfig, keyword_arguments
from mphil.methods import METHODS

FOLDER = Path(__file__).parent / "reference"
NOTE = "<!-- Written by `make docs`; edit the code instead. -->\n\n"


def argument_texts(doc: str) -> dict[str, str]:
    """The entries of the Args or Attributes section of a Google docstring."""
    section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)+)", doc + "\n", re.MULTILINE)
    if section is None:
        return {}
    entries = re.split(r"^    (\w[\w, ]*): ", section.group(1), flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, text in zip(entries[::2], entries[1::2], strict=True)}


def row(*cells: object) -> str:
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def methods() -> str:
    pages = ["# Methods\n"]
    for name in METHODS:
        cls = METHODS[name]
        doc = inspect.getdoc(cls) or ""
        summary = (inspect.getdoc(inspect.getmodule(cls)) or "").splitlines()[0]
        texts = argument_texts(doc)
        pages.append(f"## {name}\n\n{summary}\n\nPaper: {cls.paper}. Tasks: {', '.join(sorted(cls.tasks))}.\n")
        options = keyword_arguments(cls.__init__)
        if options:
            pages.append("\n".join([row("option", "default", "meaning"), row("---", "---", "---")]))
            pages.append("\n".join(row(f"`{k}`", f"`{v}`", texts.get(k, "")) for k, v in options.items()) + "\n")
        for preset, values in cls.presets.items():
            pages.append(f"Preset `{preset}`: " + ", ".join(f"`{k}={v}`" for k, v in values.items()) + ".\n")
    return "\n".join(pages)


def benchmarks() -> str:
    pages = ["# Benchmarks\n"]
    for name in BENCHMARKS:
        entry = BENCHMARKS[name]
        options = ", ".join(f"`{k}={v}`" for k, v in entry.options.items())
        pages.append(f"## {name}\n\n{entry.summary}\n\nSource: {entry.source}\n\nOptions: {options}.\n")
        if entry.differs:
            pages.append(f"Differs from the original: {entry.differs}\n")
    return "\n".join(pages)


def settings() -> str:
    pages = ["# Settings\n", "Given in a TOML file (`--config`) or with `--set section.key=value`; the latter wins.\n"]
    models: dict[str, type[BaseModel]] = {"encoder": EncoderConfig, "train": TrainConfig}
    for section, model in models.items():
        texts = argument_texts(inspect.getdoc(model) or "")
        pages.append(f"## {section}\n")
        pages.append("\n".join([row("key", "default", "meaning"), row("---", "---", "---")]))
        fields = {k: f.default for k, f in model.model_fields.items() if k not in ("node", "edge")}
        pages.append("\n".join(row(f"`{section}.{k}`", f"`{v}`", texts.get(k, "")) for k, v in fields.items()) + "\n")
    return "\n".join(pages)


def commands() -> str:
    pages = ["# Commands\n"]
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        pages.append(f"## mphil {name}\n\n{inspect.cleandoc(command.help or '')}\n")
        pages.append(f"{command.epilog}\n" if command.epilog else "")
        for option in command.params:
            text = getattr(option, "help", None)
            if text:
                flags = "/".join(option.opts) if option.param_type_name == "option" else (option.name or "").upper()
                pages.append(f"- `{flags}`: {text}")
        pages.append("")
    return "\n".join(pages)


def pages() -> dict[str, str]:
    """File name to its text."""
    texts = {"methods": methods(), "benchmarks": benchmarks(), "settings": settings(), "commands": commands()}
    return {f"{name}.md": NOTE + re.sub(r"\n{3,}", "\n\n", text).strip() + "\n" for name, text in texts.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for file, text in pages().items():
        (FOLDER / file).write_text(text)
