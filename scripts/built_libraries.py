"""The modules' libraries in a build directory, for the checks that look into objects."""
import sys

LTO_ALONE = (b"__gnu_lto_slim", b"`\nBC\xc0\xde")   # a symbol of gcc's; what clang's begin with, behind an archive's header


def built_libraries(build):
    """The libraries, at least one; where their objects hold no machine code yet there is nothing to check."""
    libraries = [p for p in sorted(build.rglob("libpf_*.a")) if "/tests/" not in str(p)]
    if not libraries:
        print(f"no libpf_*.a under {build}; build first")
        sys.exit(1)
    for library in libraries:
        if any(mark in library.read_bytes() for mark in LTO_ALONE):
            print(f"skipped: the objects of {library} are for optimization at link time alone")
            sys.exit(77)
    return libraries
