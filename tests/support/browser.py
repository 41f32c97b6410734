"""A headless Chromium that opens a page: what it says on its console, what it asks for, and what a pointer does there.

Driven by the DevTools protocol, over the web socket of tornado, which the tests have by dask.
"""

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from tornado.websocket import WebSocketClientConnection, websocket_connect

from .waiting import HANG_S, until

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
OPTIONS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--remote-debugging-port=0", "--hide-scrollbars",
)  # fmt: skip
MOST_BYTES = 64 << 20


class Page:
    """An open page. Attributes: said: errors and warnings of its console; asked: addresses that it has asked for."""

    def __init__(self, loop: asyncio.AbstractEventLoop, socket: WebSocketClientConnection) -> None:
        self.said: list[str] = []
        self.asked: list[str] = []
        self._loop, self._socket, self._number = loop, socket, 0
        self._loaded = False

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """What the browser answers. Raises: AssertionError: it reports an error."""
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        self._loop.run_until_complete(self._write(json.dumps(asked)))
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, message
                result: dict[str, Any] = message["result"]
                return result

    def open(self, file: Path) -> None:
        """Show a file, and wait until all of it is there."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Page.navigate", url=file.as_uri())
        while not self._loaded:
            self._next()

    def value(self, expression: str) -> Any:
        """Of a piece of JavaScript."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        """Move the pointer to a place of the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, file: Path, width: int = 1400) -> None:
        """Write what is seen of all of the page."""
        height = self.value("document.documentElement.scrollHeight")
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        file.write_bytes(base64.b64decode(shot["data"]))

    def _next(self) -> dict[str, Any]:
        """The next message; an event is noted."""
        text = self._loop.run_until_complete(asyncio.wait_for(self._read(), HANG_S))
        assert text is not None, "the browser has left"
        message: dict[str, Any] = json.loads(text)
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.said.append(str(parameters["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.said.append(str(parameters["args"]))
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.said.append(str(parameters["entry"]))
            case "Network.requestWillBeSent":
                self.asked.append(parameters["request"]["url"])
            case "Page.loadEventFired":
                self._loaded = True
        return message

    async def _write(self, text: str) -> None:
        await self._socket.write_message(text)

    async def _read(self) -> str | bytes | None:
        return await self._socket.read_message()


@contextmanager
def chromium(profile: Path) -> Iterator[int]:
    """A browser. Args: profile: folder of its own. Gives: the port that it listens at."""
    command = [str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}", "--window-size=1400,1000", "about:blank"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    port = profile / "DevToolsActivePort"
    try:
        until(lambda: process.poll() is not None or (port.exists() and port.read_text().count("\n") >= 1))
        assert process.poll() is None, "Chromium has ended"
        yield int(port.read_text().split()[0])
    finally:
        process.terminate()
        process.wait()


@contextmanager
def opened(port: int, file: Path) -> Iterator[Page]:
    """A file in a tab of its own. Args: port: of the browser."""
    request = Request(f"http://127.0.0.1:{port}/json/new?about:blank", method="PUT")
    with urlopen(request, timeout=HANG_S) as answer:
        address = json.loads(answer.read())["webSocketDebuggerUrl"]
    loop = asyncio.new_event_loop()
    socket = loop.run_until_complete(_connected(address))
    try:
        page = Page(loop, socket)
        page.open(file)
        yield page
        page.call("Page.close")
    finally:
        socket.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


async def _connected(address: str) -> WebSocketClientConnection:
    return await websocket_connect(address, max_message_size=MOST_BYTES)
