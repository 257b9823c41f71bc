"""Headless Chromium driven by its DevTools protocol, like a user."""

import contextlib
import itertools
import json
import shutil
import subprocess
import threading
import time
import urllib.request

from browser import FLAGS
from processes import wait_until
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect


class Browser:
    """Chromium with a separate profile and a network log."""

    def __init__(self, directory, *arguments):
        self.profile = directory / "profile"
        self.network_log = directory / "network.json"
        self.downloads = directory / "downloads"
        self.downloads.mkdir(parents=True)
        program = shutil.which("chromium")
        assert program, "chromium is missing: scripts/test.sh installs it"
        command = [
            program,
            *FLAGS,
            f"--user-data-dir={self.profile}",
            f"--log-net-log={self.network_log}",
            "--remote-debugging-port=0",
            *arguments,
            "about:blank",
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        file = self.profile / "DevToolsActivePort"
        wait_until(lambda: file.exists() and file.read_text().count("\n"), "Chromium listens")
        self.port = int(file.read_text().splitlines()[0])

    def targets(self):
        """Returns the targets: pages, and frames with their own process."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/json/list", timeout=10
        ) as response:
            return json.load(response)

    def pages(self):
        return [target for target in self.targets() if target["type"] == "page"]

    def tab(self):
        (page,) = self.pages()
        tab = Tab(page["webSocketDebuggerUrl"])
        tab.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads))
        return tab

    def close(self):
        """Ends Chromium, and returns its network log."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.network_log.read_text(errors="replace") if self.network_log.exists() else ""


class Tab:
    """A page with its frames."""

    def __init__(self, address):
        self._resources = contextlib.ExitStack()
        self._socket = self._resources.enter_context(connect(address, max_size=None))
        self._numbers = itertools.count(1)
        self._answers = {}
        self._changed = threading.Condition()
        self.frames = []
        self._dialogs = []
        threading.Thread(target=self._listen, daemon=True).start()
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call(
            "Target.setAutoAttach", autoAttach=True, waitForDebuggerOnStart=False, flatten=True
        )
        # Records the messages that a frame sends to the page, which has no script for them.
        self.call(
            "Page.addScriptToEvaluateOnNewDocument",
            source="addEventListener('message', e => (window.received ??= []).push(e.data))",
        )

    def _listen(self):
        while (text := self._next()) is not None:
            message = json.loads(text)
            with self._changed:
                if "id" in message:
                    self._answers[message["id"]] = message
                elif message["method"] == "Target.attachedToTarget":
                    if message["params"]["targetInfo"]["type"] == "iframe":
                        self.frames.append(message["params"]["sessionId"])
                elif message["method"] == "Target.detachedFromTarget":
                    detached = message["params"]["sessionId"]
                    self.frames = [session for session in self.frames if session != detached]
                self._changed.notify_all()

    def _next(self):
        """Returns the browser's next message; None after it has ended."""
        try:
            return self._socket.recv()
        except ConnectionClosed:
            return None

    def call(self, method, session=None, **parameters):
        number = next(self._numbers)
        request = {"id": number, "method": method, "params": parameters}
        if session is not None:
            request["sessionId"] = session
        self._socket.send(json.dumps(request))
        with self._changed:
            answered = self._changed.wait_for(lambda: number in self._answers, timeout=90)
            assert answered, f"{method} is not answered"
            answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def run(self, script, session=None):
        """Evaluates an expression in the page, or in one of its frames."""
        result = self.call(
            "Runtime.evaluate",
            session,
            expression=script,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, address):
        self.call("Page.navigate", url=address)
        wait_until(
            lambda: (
                self.run("document.readyState") == "complete" and self.address() != "about:blank"
            ),
            f"{address} is loaded",
        )

    def address(self):
        """Returns the URL in the address bar; None between two pages."""
        try:
            history = self.call("Page.getNavigationHistory")
        except AssertionError as error:
            if "Not attached to an active page" not in str(error):
                raise
            return None
        return history["entries"][history["currentIndex"]]["url"]

    def messages(self):
        return self.run("window.received ?? []")

    def press(self, key, text=None, modifiers=0):
        """Sends the events of a key with its text, which is the key itself unless it is given."""
        event = {"key": key, "modifiers": modifiers}
        if key == "Enter":
            event |= {"code": "Enter", "windowsVirtualKeyCode": 13}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text or key, **event)
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def click(self, x, y, button="left", modifiers=0):
        """Sends real mouse events, which count as user activation for the document."""
        event = {"x": x, "y": y, "button": button, "clickCount": 1, "modifiers": modifiers}
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, **event)
            time.sleep(0.02)
