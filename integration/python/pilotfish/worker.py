"""Starts the installed `pilotfish` binary as a draft worker, and starts it again when it ends.

The binary is the one that the environment variable PILOTFISH_BINARY names, else `pilotfish` in PATH. As a program, the console
script `pilotfish-worker` is `pilotfish worker` with the same arguments.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import Mapping, NoReturn, Optional, Union

log = logging.getLogger("pilotfish")
_RESTART_S = (0.5, 2.0, 10.0)   # before a new start, by how many starts failed in a row

# Becomes the worker in a process that gets SIGTERM when its parent ends, however that ends: a program that is killed, or
# a process of multiprocessing, runs nothing at its end. Its arguments: the parent's pid, the binary, and the binary's own.
_BECOME_WORKER = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""


def find_binary() -> str:
    """The path of the binary; FileNotFoundError says where it was looked for."""
    named = os.environ.get("PILOTFISH_BINARY")
    if named:
        if not os.access(named, os.X_OK):
            raise FileNotFoundError(f"PILOTFISH_BINARY is {named}, which is not an executable file")
        return named
    found = shutil.which("pilotfish")
    if found is None:
        raise FileNotFoundError("there is no pilotfish in PATH, and PILOTFISH_BINARY names none: install the binary with "
                                "`./dev install` in Pilotfish's source tree")
    return found


def _arguments(options: Mapping[str, object]) -> list[str]:
    """Options as the command line has them: {"max_sequences": 64, "strict": True} is --max-sequences 64 --strict."""
    words: list[str] = []
    for name, value in options.items():
        if value is None or value is False:
            continue
        words.append("--" + name.replace("_", "-"))
        if value is not True:
            words.append(str(value))
    return words


class Worker:
    """A worker process of this program, on a unix socket in a folder of its own. It ends with the program, even a killed one.

    `model` is the draft: a Hugging Face directory, a GGUF file or org/name from the local cache. `options` are those of
    `pilotfish worker`: cores="0-3", threads=4, dtype="int8", head="screened", max_sequences=64, ... A worker that ends is
    started again: after 0.5 s at first, and 10 s later. One that says in its first start that it cannot run, for want of its model or by its
    options, is not.
    """

    def __init__(self, model: Union[str, os.PathLike[str]], **options: object) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pilotfish-")
        self.address = f"unix:{self._folder.name}/worker.sock"
        self._command = [find_binary(), "worker", "--model", str(model), "--listen", self.address, *_arguments(options)]
        self._closing = threading.Event()
        self._changed = threading.Condition()
        self._is_ready = False
        self._refusal: Optional[int] = None     # the status of a first start that ended with an error before it was ready
        # The process ends with the thread that starts it: that is always the supervising one.
        started: queue.SimpleQueue[Union[subprocess.Popen[bytes], OSError]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, args=(started,), name="pilotfish-worker", daemon=True)
        self._thread.start()
        process = started.get()
        if isinstance(process, OSError):
            self._folder.cleanup()
            raise process
        atexit.register(self.close)

    @property
    def pid(self) -> int:
        """Of the process that runs now, or ran last."""
        return self._process.pid

    def wait_ready(self, timeout_s: float) -> bool:
        """Waits until the worker accepts connections; False where it does not by then. RuntimeError where it cannot run: standard error has
        its reason, and the worker is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_ready or self._refusal is not None, timeout_s)
            is_ready, refusal = self._is_ready, self._refusal
        if refusal is not None:
            self.close()
            raise RuntimeError(f"the worker ended with status {refusal} before it was ready, standard error has its reason: "
                               f"{shlex.join(self._command)}")
        return is_ready

    def close(self) -> None:
        """Ends the process: by SIGTERM, and by SIGKILL after 5 s."""
        if self._closing.is_set():
            return
        self._closing.set()
        atexit.unregister(self.close)
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(5.0)
        self._folder.cleanup()

    def _start(self) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}   # an engine's own OpenMP
        return subprocess.Popen([sys.executable, "-I", "-S", "-c", _BECOME_WORKER, str(os.getpid()), *self._command],
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment)

    def _run(self, started: queue.SimpleQueue[Union[subprocess.Popen[bytes], OSError]]) -> None:
        try:
            self._process = self._start()
        except OSError as error:
            started.put(error)
            return
        started.put(self._process)
        self._supervise()

    def _supervise(self) -> None:
        n_failed, is_first = 0, True
        while True:
            output = self._process.stdout
            assert output is not None
            with output:
                if output.readline().startswith(b"ready "):
                    self._set(is_ready=True)
                    n_failed, is_first = 0, False
                output.read()     # until the process ends
            status = self._process.wait()
            self._set(is_ready=False)
            if self._closing.is_set():
                return
            if is_first and status > 0:
                self._set(refusal=status)
                return
            n_failed += 1
            is_first = False
            delay = _RESTART_S[min(n_failed, len(_RESTART_S)) - 1]
            log.warning("the worker ended with status %d; it is started again in %.1f s", status, delay)
            if self._closing.wait(delay):
                return
            self._process = self._start()
            if self._closing.is_set():
                self._process.kill()

    def _set(self, is_ready: bool = False, refusal: Optional[int] = None) -> None:
        with self._changed:
            self._is_ready, self._refusal = is_ready, refusal
            self._changed.notify_all()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()


def main() -> NoReturn:
    """The console script: becomes `pilotfish worker ARGUMENTS`."""
    try:
        binary = find_binary()
    except FileNotFoundError as error:
        print(f"pilotfish-worker: {error}", file=sys.stderr)
        sys.exit(1)
    os.execv(binary, [binary, "worker", *sys.argv[1:]])


if __name__ == "__main__":
    main()
