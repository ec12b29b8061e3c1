"""Requests that are turned down, in the one form that every error of the server has."""

from __future__ import annotations

import json


class Refusal(Exception):
    """A request that is not carried out.

    Args:
        status: of HTTP.
        error: what is wrong.
        remedy: what to do about it.
    """

    def __init__(self, status: int, error: str, remedy: str) -> None:
        super().__init__(error)
        self.status, self.error, self.remedy = status, error, remedy

    def content(self) -> dict[str, str]:
        """The body of the answer."""
        return {"error": self.error, "remedy": self.remedy}

    def body(self) -> bytes:
        """The same as JSON text."""
        return json.dumps(self.content()).encode()
