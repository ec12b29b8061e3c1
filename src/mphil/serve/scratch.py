"""The temporary folder of a server, which does not outlive it for long: the next server removes those of dead ones."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from mphil.files import held_folder, remove_if_dead

PREFIX = "mphil-serve-"


class Scratch:
    """A folder that only this user can read.

    Attributes:
        path: where it is.
    """

    def __init__(self) -> None:
        home = Path(tempfile.gettempdir())
        for old in home.glob(f"{PREFIX}*"):
            remove_if_dead(old)
        self.path = home / f"{PREFIX}{secrets.token_hex(8)}"
        self._held = ExitStack()
        self._held.enter_context(held_folder(self.path, mode=0o700))

    def close(self) -> None:
        """Remove the folder with all that it holds."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._held.close()
