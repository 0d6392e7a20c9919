"""The page of `pilotfish serve` in headless Chromium: a conversation with the bundled target, light and dark, wide and narrow.

As: FILE BINARY [FOLDER for screenshots]. Status 77, which ctest reads as skipped, where there is no Chromium.
"""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.dont_write_bytecode = True
from command_line import Pilotfish  # noqa: E402

MODELS = Path(__file__).resolve().parents[2] / "models"
SAMPLE = """# Title

Some **bold**, *soft*, `code`, [a link](https://example.com/) <img src=x onerror=alert(1)> [bad](javascript:alert(1))

- one
- two
  - inner

```python
return x < 1
```

| a | b |
|---|---|
| 1 | 2 |

> quoted
"""


class Browser:
    """Chromium by its debugging protocol: JSON that ends with a NUL, on descriptors 3 and 4."""

    def __init__(self, program, home):
        to_read, self.out = os.pipe()
        self.back, to_write = os.pipe()

        def pass_pipes():
            read, write = os.dup(to_read), os.dup(to_write)   # 3 or 4 may be one of them
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", f"--user-data-dir={home}"],
            preexec_fn=pass_pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.n, self.session, self.problems = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Accessibility"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.n:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]
            if answer.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.problems.append(answer["params"])

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.back, 1 << 16)
            if not part:
                raise AssertionError("Chromium has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def run(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, expression, seconds=60):
        until = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > until:
                raise AssertionError(f"not within {seconds} s: {expression}")
            time.sleep(0.1)

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && document.getElementById('model').textContent !== ''")

    def look(self, scheme="light", width=1100, height=760):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def press(self, key, code, text=None):
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **more)

    def ask(self, text):
        self.run("document.getElementById('text').focus()")
        self.call("Input.insertText", text=text)
        self.press("Enter", 13, "\r")

    def save(self, folder, name):
        if folder:
            shot = self.call("Page.captureScreenshot", format="png")["data"]
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(shot))

    def end(self):
        self.process.kill()
        self.process.wait()


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def count(browser, selector):
    return browser.run(f"document.querySelectorAll({json.dumps(selector)}).length")


def converse(browser, folder):
    browser.run("settings.max = 120; settings.temperature = 0; settings.length = 4; 1")
    browser.ask("The list type")
    browser.wait("running === null && document.querySelectorAll('article').length === 2")
    figures = browser.run("document.querySelector('.figures').textContent")
    for word in ("120 tokens", "tokens/s", "of drafts accepted"):
        expect(word in figures, f"no {word!r} in {figures!r}")
    browser.save(folder, "answer-light")
    text = browser.run("current.messages[1].content")
    browser.run("document.getElementById('colours').click()")
    expect(count(browser, "mark.drafted") > 0 and count(browser, "mark:not(.drafted)") > 0, "drafted text has no colour")
    expect(browser.run("document.querySelector('.raw').textContent") == text, "the coloured text is another")
    browser.look("dark")
    browser.save(folder, "drafted-dark")
    browser.run("document.getElementById('colours').click()")


def show_markdown(browser, folder):
    message = {"role": "assistant", "content": SAMPLE, "pieces": None, "figures": {"tokens": 1}, "error": ""}
    browser.run(f"current.messages.push({json.dumps(message)}); showChat(); 1")
    browser.save(folder, "markdown-dark")
    for selector, n in (("#log img", 0), ("#log strong", 1), ("#log em", 1), ("#log li", 3), ("#log td", 2), ("#log a", 1)):
        expect(count(browser, selector) == n, f"{selector}: {count(browser, selector)}, expected {n}")
    expect(browser.run("document.querySelector('#log a').href") == "https://example.com/", "the link is another")


def stop_an_answer(browser):
    browser.run("settings.max = ''; 1")
    browser.ask("Once upon a time")
    browser.wait("running !== null && current.messages.at(-1).content.length > 0")
    browser.press("Escape", 27)
    browser.wait("running === null", 10)
    expect("stopped" in browser.run("document.getElementById('status').textContent"), "the answer was not stopped")


def try_page(browser, url, folder):
    browser.look()
    browser.open(url)
    converse(browser, folder)
    show_markdown(browser, folder)
    browser.look("light", 390, 800)
    expect(browser.run("document.documentElement.scrollWidth <= innerWidth"), "a phone has to scroll sideways")
    browser.save(folder, "phone-light")
    browser.look()
    stop_an_answer(browser)
    browser.open(url)
    expect(browser.run("chats.length") == 1, "the history is not kept")
    nodes = browser.call("Accessibility.getFullAXTree")["nodes"]
    controls = [n for n in nodes if not n.get("ignored") and n["role"]["value"] in ("button", "textbox", "link")]
    expect(len(controls) >= 5 and all(n["name"]["value"] for n in controls), "a control has no name")
    expect(not browser.problems, browser.problems)


def main():
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if not program:
        print("there is no Chromium here")
        return 77
    folder = sys.argv[2] if len(sys.argv) > 2 else None
    with tempfile.TemporaryDirectory(prefix="pilotfish-test-", ignore_cleanup_errors=True) as home:
        pilotfish = Pilotfish(sys.argv[1], home)
        with pilotfish.serve("serve", MODELS / "target", "localhost:0", "-d", MODELS / "draft") as server:
            browser = Browser(program, Path(home) / "browser")
            try:
                try_page(browser, f"http://{server.address}/", folder)
            finally:
                browser.end()
    print("the page is as it should be")
    return 0


sys.exit(main())
