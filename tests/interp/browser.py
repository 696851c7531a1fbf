"""A real headless Chromium, driven over its DevTools protocol: just enough to open a page, act, and look."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
named = os.environ.get("BROWSER_PATH")  # then none but this one, as for the images of figures
CHROMIUM = next(filter(None, map(shutil.which, [named] if named else NAMES)), None)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
)

needs_browser = pytest.mark.skipif(
    CHROMIUM is None and "CI" not in os.environ, reason="no Chromium found (`apt-get install chromium`)"
)


class Page:
    """One tab. Requests and complaints are collected while the page lives."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.loaded = False
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv(timeout=180))
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]
            self._event(message.get("method"), message.get("params", {}))

    def _event(self, method: str | None, parameters: dict[str, Any]) -> None:
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(parameters["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning"):
            self.complaints.append(str(parameters["args"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
            self.complaints.append(parameters["entry"]["text"])
        elif method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {parameters['message']}")
        elif method == "Page.loadEventFired":
            self.loaded = True

    def open(self, page: Path | str, *, dark: bool = False) -> float:
        """Load a file or an address and wait for its figures; returns the seconds until it could be read and used."""
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.send("Emulation.setEmulatedMedia", features=scheme)
        self.loaded = False
        start = time.monotonic()
        self.send("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while not self.loaded:
            message = json.loads(self.socket.recv(timeout=180))
            self._event(message.get("method"), message.get("params", {}))
        seconds = time.monotonic() - start
        self.evaluate("window.figuresDrawn")
        return seconds

    def evaluate(self, script: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def set(self, selector: str, value: str | float, event: str = "input") -> None:
        """Put a value into a field as a user would, so that the page hears of it."""
        field = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{{{field}.value = {json.dumps(str(value))}; {field}.dispatchEvent(new Event('{event}'));}}")

    def wait(self, condition: str) -> Any:
        """The value of a JavaScript expression as soon as it is true; it may fail until then, as while a page loads."""
        deadline = time.monotonic() + 180
        while time.monotonic() < deadline:
            if value := self.evaluate(f"(() => {{ try {{ return {condition}; }} catch {{ return null; }} }})()"):
                return value
            time.sleep(0.05)
        raise AssertionError(f"still false: {condition}")

    def press(self, key: str, *, modifiers: int = 0) -> None:
        """A key as a person presses it; 2 is Ctrl and 8 is Shift."""
        text = {"text": {"Enter": "\r"}.get(key, key)} if (len(key) == 1 or key == "Enter") and modifiers != 2 else {}
        code = {"Enter": 13}.get(key) or (ord(key.upper()) if len(key) == 1 else 0)
        names = {
            "key": key,
            "code": f"Key{key.upper()}" if key.isalpha() and len(key) == 1 else key,
            "modifiers": modifiers,
        }
        for kind, more in (("keyDown", text), ("keyUp", {})):
            self.send("Input.dispatchKeyEvent", type=kind, windowsVirtualKeyCode=code, **names, **more)

    def point(self, selector: str) -> dict[str, float]:
        """Move the mouse to the middle of an element, which is scrolled into sight; returns where that is."""
        node = f"document.querySelector({json.dumps(selector)})"
        self.evaluate(f"{node}.scrollIntoView({{ block: 'nearest' }})")
        box = self.evaluate(f"{node}.getBoundingClientRect().toJSON()")
        where = {"x": box["left"] + box["width"] / 2, "y": box["top"] + box["height"] / 2}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **where)
        return where

    def click(self, selector: str) -> None:
        where = self.point(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, **where, button="left", clickCount=1)

    def screenshot(self, path: Path, *, width: int = 1280, height: int = 900) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))


@contextmanager
def chromium(folder: Path) -> Iterator[Page]:
    """A fresh browser with an empty profile in `folder`."""
    assert CHROMIUM is not None, "Chromium must be installed in CI"
    process = subprocess.Popen(
        [CHROMIUM, *FLAGS, f"--user-data-dir={folder}", "about:blank"], stderr=subprocess.DEVNULL, text=True
    )
    try:
        address = _page_address(folder)
        with connect(address, max_size=None, open_timeout=180) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        process.wait(timeout=180)


def _page_address(folder: Path) -> str:
    port_file = folder / "DevToolsActivePort"
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline:
        if port_file.exists() and (lines := port_file.read_text().split("\n")) and lines[0]:
            with urlopen(f"http://127.0.0.1:{lines[0]}/json") as answer:
                pages = [target for target in json.load(answer) if target["type"] == "page"]
            if pages:
                return pages[0]["webSocketDebuggerUrl"]
        time.sleep(0.05)
    raise AssertionError("Chromium did not start")
