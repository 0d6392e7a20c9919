"""Runs the binary for the end-to-end tests: one call, or a server that says when it is ready."""

import json
import os
import select
import signal
import subprocess
import time
from pathlib import Path

SUPPRESSIONS = Path(__file__).resolve().parent.parent / "support" / "lsan.supp"
QUICKLY = 60  # seconds that nothing here should take, on a slow machine under sanitizers


class Result:
    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr.decode(errors="replace")

    @property
    def json(self):
        return json.loads(self.out)


class Pilotfish:
    """The binary at `path`; its calls see an empty home, so that no cache of the machine is used."""

    def __init__(self, path, home):
        self.path = str(path)
        self.environment = {**os.environ, "HOME": str(home), "NO_COLOR": "", "TERM": "xterm",
                            "LSAN_OPTIONS": f"suppressions={SUPPRESSIONS}:print_suppressions=0"}
        for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
            self.environment.pop(name, None)

    def run(self, *arguments, stdin=b"", stdout=subprocess.PIPE, environment=None, timeout=QUICKLY, **options):
        return Result(subprocess.run([self.path, *map(str, arguments)], input=stdin, stdout=stdout,
                                     stderr=subprocess.PIPE, timeout=timeout,
                                     env={**self.environment, **(environment or {})}, **options))

    def start(self, *arguments, stderr=subprocess.PIPE, **options):
        return subprocess.Popen([self.path, *(a if isinstance(a, bytes) else str(a) for a in arguments)],
                                stdout=subprocess.PIPE, stderr=stderr,
                                stdin=subprocess.DEVNULL, env=self.environment, **options)

    def serve(self, role, model, address, *arguments):
        return Server(self.start(role, "-m", model, "--listen", address, *arguments))

    def serve_lookup(self, drafter, address, *arguments):
        """A worker without a model."""
        return Server(self.start("worker", "--drafter", drafter, "--listen", address, *arguments))


class Server:
    """A worker or a verifier; use it in a with statement."""

    def __init__(self, process):
        self.process = process
        line = read_line(process.stdout, QUICKLY)
        if not line.startswith(b"ready "):
            process.kill()
            _, err = process.communicate()
            raise AssertionError(f"no ready line, but {line!r}; stderr: {err.decode(errors='replace')}")
        self.ready_at = time.monotonic()
        self.address = line.split()[1].decode()

    def end(self, number=signal.SIGTERM):
        """Returns the exit status; what it said on stderr is then in `err`."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            err = self.process.communicate(timeout=QUICKLY)[1]
            self.err = err.decode(errors="replace") if err else ""
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


def read_some(pipe, seconds):
    """What there is on a pipe, waiting for the first byte; b"" at its end."""
    ready, _, _ = select.select([pipe], [], [], seconds)
    if not ready:
        raise AssertionError(f"nothing was written for {seconds} s")
    return os.read(pipe.fileno(), 1 << 16)


def read_line(pipe, seconds):
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(pipe.fileno(), 1) if select.select([pipe], [], [], seconds)[0] else b""
        if not part:
            break
        line += part
    return line
