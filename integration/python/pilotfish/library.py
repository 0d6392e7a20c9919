"""Loads libpilotfish.so.0 through cffi in ABI mode.

The declarations are those of the public headers: pilotfish.cdef and pilotfish_peer.cdef are links to them in the source tree, and
copies in an installed package. No compiler is needed. tests/library_test.py compares the size and the offsets of each struct with
the compiler's.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional, Union

try:
    import cffi
except ImportError as missing:
    raise ImportError(f"{missing}: a model on libpilotfish needs the package cffi, or Debian's python3-cffi") from missing

SONAME = "libpilotfish.so.0"
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_CPLUSPLUS = re.compile(r"^#ifdef __cplusplus\n.*?^#endif$", re.DOTALL | re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", re.MULTILINE)


class PilotfishError(RuntimeError):
    """A failure that the library reports: `status` is "invalid", "format", "limit", ...; the text is its sentence."""

    def __init__(self, status: str, sentence: str) -> None:
        super().__init__(sentence or status)
        self.status = status


class Library(NamedTuple):
    ffi: Any
    lib: Any       # its functions and constants
    path: str

    def check(self, status: int, why: Any = None) -> None:
        """Raises PilotfishError unless `status` is PF_OK. `why` is the pf_error that the function filled in."""
        if status != self.lib.PF_OK:
            name = self.text(self.lib.pf_status_name(status))
            raise PilotfishError(name, self.text(why.text) if why is not None else name)

    def text(self, characters: Any) -> str:
        """The text of a `char *`, or of a `char[]`."""
        return bytes(self.ffi.string(characters)).decode("utf-8", "replace")

    def init(self, struct: str) -> Any:
        """PF_INIT: a zeroed struct with its size set."""
        made = self.ffi.new(struct + " *")
        made.size = self.ffi.sizeof(struct)
        return made


def declarations() -> str:
    """What the headers declare, without comments and preprocessor lines."""
    here = Path(__file__).resolve().parent
    text = "\n".join((here / name).read_text() for name in ("pilotfish_peer.cdef", "pilotfish.cdef"))
    for pattern in (_COMMENT, _CPLUSPLUS, _DIRECTIVE):
        text = pattern.sub("", text)
    return text.replace("PF_MUST_USE ", "")


@functools.lru_cache(maxsize=None)
def declared() -> Any:
    """The cffi object that knows the declarations."""
    ffi = cffi.FFI()
    ffi.cdef(declarations())
    return ffi


def _places(path: Optional[str]) -> Iterator[tuple[str, str]]:
    """Where the library is looked for, and what names that place. One that the caller names is the only one."""
    if path is not None:
        yield path, "the argument `library`"
        return
    if os.environ.get("PILOTFISH_LIBRARY"):
        yield os.environ["PILOTFISH_LIBRARY"], "PILOTFISH_LIBRARY"
        return
    binary = shutil.which(os.environ.get("PILOTFISH_BINARY") or "pilotfish")
    if binary is not None:
        prefix = Path(binary).resolve().parent.parent
        for folder in sorted({*prefix.glob("lib"), *prefix.glob("lib64"), *prefix.glob("lib/*-linux-*")}):
            yield str(folder / SONAME), f"the installation of {binary}"
    yield SONAME, "the system's loader"


@functools.lru_cache(maxsize=None)
def _open(path: str) -> Library:
    ffi = declared()
    lib = ffi.dlopen(path)
    for name in re.findall(r"\b(pf_\w+)\(", declarations()):
        try:
            getattr(lib, name)
        except AttributeError:
            raise OSError(f"it has no function {name}: it is of another version than this package") from None
    return Library(ffi, lib, path)


def load(path: Union[str, os.PathLike[str], None] = None) -> Library:
    """libpilotfish.so.0 at `path`, else at PILOTFISH_LIBRARY, else beside the installed binary, else the system's.

    FileNotFoundError says where it was looked for, and why what is there was not loaded.
    """
    tried = []
    for place, named_by in _places(None if path is None else os.fspath(path)):
        try:
            return _open(os.path.join(place, SONAME) if os.path.isdir(place) else place)
        except OSError as error:
            tried.append(f"{place} ({named_by}): {error}")
    raise FileNotFoundError(f"{SONAME} was not loaded. Looked at:\n  " + "\n  ".join(tried) + "\nInstall it with `./dev install` in "
                            "Pilotfish's source tree, or set PILOTFISH_LIBRARY to its path.")
