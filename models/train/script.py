"""Shared code of the scripts in this folder: arguments, atomic files, and one sentence for an interrupt, a full disk or a
failed command."""

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path


class Interrupts:
    """SIGINT and SIGTERM raise KeyboardInterrupt; with `later` set the first one is only counted, and the caller checks it."""

    def __init__(self):
        self.count, self.later = 0, False

    def __call__(self, *_):
        self.count += 1
        if self.count > 1 or not self.later:
            raise KeyboardInterrupt


interrupts = Interrupts()


def parser(doc: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--work", type=Path, default=Path.home() / ".cache/pilotfish/train", help="the work folder")
    return made


def above_zero(kind):
    def parse(text):
        value = kind(text)
        if not value > 0:
            raise ValueError
        return value
    parse.__name__ = f"{kind.__name__} above 0"
    return parse


def training_parser(doc: str, minutes: float, seed: int) -> argparse.ArgumentParser:
    made = parser(doc)
    made.add_argument("--minutes", type=above_zero(float), default=minutes)
    made.add_argument("--steps", type=above_zero(int), help="how many, instead of --minutes")
    made.add_argument("--seed", type=int, default=seed)
    made.add_argument("--threads", type=above_zero(int), default=os.cpu_count())
    return made


def write_whole(path: Path, content: bytes) -> None:
    temporary = path.with_suffix(".tmp")
    try:
        temporary.write_bytes(content)
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def run(main) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupts)
    name = Path(sys.argv[0]).name
    try:
        main()
    except (KeyboardInterrupt, Exception) as error:
        if interrupts.count:   # the error may be a consequence, such as a compiler that the interrupt ended too
            print(f"\n{name}: interrupted", file=sys.stderr)
            sys.exit(130)
        if "No space left on device" in str(error):   # the text of OSError and safetensors
            sys.exit(f"\n{name}: the disk is full: {error}")
        if isinstance(error, subprocess.CalledProcessError):
            sys.exit(f"\n{name}: {error}")
        raise
