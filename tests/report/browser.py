"""A headless Chromium, driven through its DevTools protocol on a pair of pipes: no driver, no package.

On pipes, messages are JSON that ends in a zero byte; the browser reads from descriptor 3 and writes to 4.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")

_PATIENCE = 60.0
_KEYS = {"Enter": 13, "Escape": 27, "End": 35, "Home": 36, "Tab": 9, " ": 32}
_KEYS |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}
_TEXT = {"Enter": "\r"}
_CONTROL = 2


class Page:
    """One open page: what it wrote on the console, threw or asked the network for is in `complaints`."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.complaints: list[str] = []

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401  # the protocol's own values
        """Send a command of the protocol and give its result."""
        return self._browser.ask(self, self._session, method, parameters)

    def open(self, path: Path) -> None:
        """Load a file, from then on listening for complaints."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Page.navigate", url=path.as_uri())
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, expression: str) -> Any:  # noqa: ANN401  # whatever the page answers
        """Evaluate JavaScript and give its value."""
        answer = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            pytest.fail(f"the page threw: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Wait until JavaScript gives a true value."""
        until = time.monotonic() + _PATIENCE
        while not self.run(expression):
            if time.monotonic() > until:
                pytest.fail(f"still not so: {expression}")
            time.sleep(0.02)

    def press(self, *keys: str, control: bool = False) -> None:
        """Press keys one after the other, as a person would."""
        for key in keys:
            text = _TEXT.get(key, key if len(key) == 1 else "")
            code = _KEYS.get(key, ord(key.upper()) if len(key) == 1 else 0)
            common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": _CONTROL if control else 0}
            down = {"type": "keyDown", "text": text} if text and not control else {"type": "rawKeyDown"}
            self.ask("Input.dispatchKeyEvent", **down, **common)
            self.ask("Input.dispatchKeyEvent", type="keyUp", **common)

    def type(self, text: str) -> None:
        """Put text where the focus is."""
        self.ask("Input.insertText", text=text)

    def look(self, *, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Give the window a size and the reader a preference."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def picture(self, *, whole: bool = False) -> bytes:
        """Take a PNG of the window, or of the whole page."""
        answer = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(answer["data"])

    def heard(self, event: str, parameters: dict[str, Any]) -> None:
        """Note what a good page never does."""
        match event:
            case "Runtime.exceptionThrown":
                self.complaints.append(f"threw: {parameters['exceptionDetails']}")
            case "Runtime.consoleAPICalled":
                self.complaints.append(f"console: {parameters['args']}")
            case "Log.entryAdded":
                self.complaints.append(f"log: {parameters['entry']['text']}")
            case "Network.requestWillBeSent" if not parameters["request"]["url"].startswith("file:"):
                self.complaints.append(f"request: {parameters['request']['url']}")


class Browser:
    """The process and its two pipes."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        read_by_browser, self._to = os.pipe()
        self._from, written_by_browser = os.pipe()
        arguments = [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
            "about:blank",
        ]
        self._pid = os.posix_spawn(
            CHROMIUM,
            arguments,
            os.environ | {"HOME": str(profile)},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, read_by_browser, 3),
                (os.POSIX_SPAWN_DUP2, written_by_browser, 4),
                (os.POSIX_SPAWN_OPEN, 2, str(profile / "stderr"), os.O_WRONLY | os.O_CREAT, 0o600),
            ],
            setpgroup=0,
        )
        os.close(read_by_browser)
        os.close(written_by_browser)
        self._number = 0
        self._buffer = b""
        self._pages: dict[str, Page] = {}

    def __enter__(self) -> Self:
        """Hand over the running browser."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the browser and its children: the group that was made for them."""
        os.close(self._to)
        os.close(self._from)
        with suppress(ProcessLookupError):
            os.killpg(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    @contextmanager
    def page(self) -> Iterator[Page]:
        """Open a page and close it at the end."""
        target = self.ask(None, None, "Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.ask(None, None, "Target.attachToTarget", {"targetId": target, "flatten": True})
        page = self._pages[attached["sessionId"]] = Page(self, attached["sessionId"])
        yield page
        self.ask(None, None, "Target.closeTarget", {"targetId": target})

    def ask(
        self, page: Page | None, session: str | None, method: str, parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """Send a command and read on until its answer, handing events to their pages."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            heard = self._next(method)
            if heard.get("id") == self._number:
                if "error" in heard:
                    pytest.fail(f"{method}: {heard['error']}")
                answer: dict[str, Any] = heard["result"]
                return answer
            if "method" in heard and (listener := self._pages.get(heard.get("sessionId", ""), page)):
                listener.heard(heard["method"], heard["params"])

    def _next(self, method: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], _PATIENCE)
            more = os.read(self._from, 1 << 20) if ready else b""
            if not more:
                pytest.fail(f"chromium did not answer {method}")
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        heard: dict[str, Any] = json.loads(message)
        return heard
