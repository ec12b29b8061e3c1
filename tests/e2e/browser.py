"""A headless Chromium driven over two pipes: no port, no driver, no package.

The browser is started with `--remote-debugging-pipe`: it reads commands of the DevTools protocol from file descriptor
3 and writes answers and events to 4, each a JSON object followed by a zero byte.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
# Popen cannot place a pipe at a chosen descriptor, so a tiny process does and then becomes the browser.
PLACE = "import os,sys; os.dup2(int(sys.argv[1]),3); os.dup2(int(sys.argv[2]),4); os.execv(sys.argv[3],sys.argv[3:])"
PATIENCE = 60.0


@dataclass
class Seen:
    """What happened since the last page was opened."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)


class Browser:
    """One browser with one tab."""

    def __init__(self, program: str, profile: str) -> None:
        theirs, self._write = map(_high, os.pipe())
        self._read, answers = map(_high, os.pipe())
        place = [sys.executable, "-c", PLACE, str(theirs), str(answers), program, *FLAGS]
        self._process = subprocess.Popen(
            [*place, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(theirs)
        os.close(answers)
        self._buffer = b""
        self._last = 0
        self._session: str | None = None
        self._events: list[str] = []
        self.seen = Seen()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events that come meanwhile are noted."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def open(self, url: str, *, width: int = 1280, height: int = 900, dark: bool = False, script: bool = True) -> None:
        """Load a page in a window of the given size and wait until it and its first frames are there."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.emulate(dark=dark)
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.seen, self._events = Seen(), []
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._receive()
        if script:
            self.settle()

    def settle(self) -> None:
        """Wait until what was asked for has been drawn."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def emulate(self, *, dark: bool = False, media: str = "screen") -> None:
        """Choose the colour scheme and the medium, `screen` or `print`, of the page that is open."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def run(self, expression: str) -> Any:
        """Value of a JavaScript expression; a promise is waited for, an exception raised."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description", expression))
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """`kind` is mouseMoved, mousePressed or mouseReleased."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def screenshot(self, *, whole: bool = True) -> bytes:
        """PNG of the page, or of the window."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])

    def pdf(self) -> bytes:
        return base64.b64decode(self.call("Page.printToPDF")["data"])

    def close(self) -> None:
        self._session = None
        try:
            self.call("Browser.close")
            self._process.wait(timeout=10)
        except (OSError, RuntimeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def _receive(self) -> dict[str, Any]:
        """The next message; events are noted on the way."""
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            piece = os.read(self._read, 1 << 20) if ready else b""
            if not piece:
                raise RuntimeError("the browser ended" if ready else f"the browser was silent for {PATIENCE:.0f} s")
            self._buffer += piece
        raw, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(raw)
        if "method" in message and message.get("sessionId") == self._session:
            self._note(message["method"], message["params"])
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        self._events.append(event)
        if event == "Network.requestWillBeSent":
            # A data URL is text of the page itself; the protocol reports it, but nothing is fetched.
            if not params["request"]["url"].startswith("data:"):
                self.seen.requests.append(params["request"]["url"])
        elif event == "Runtime.consoleAPICalled":
            text = " ".join(str(a.get("value", a.get("description", ""))) for a in params["args"])
            (self.seen.complaints if params["type"] in ("error", "warning", "assert") else self.seen.console).append(
                text
            )
        elif event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.seen.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.seen.complaints.append(params["entry"]["text"])


@contextmanager
def launch() -> Iterator[Browser]:
    """A fresh browser, or a skipped test where none is installed."""
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip(f"no browser found (looked for {', '.join(NAMES)})")
    with tempfile.TemporaryDirectory(prefix="mphil-browser-", ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            yield browser
        finally:
            browser.close()


def address(path: Path) -> str:
    return path.resolve().as_uri()


def _high(descriptor: int) -> int:
    """The same pipe at a number above those the browser wants, closed in other children."""
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return high
