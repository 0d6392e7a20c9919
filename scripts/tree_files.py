#!/usr/bin/env python3
"""The tree, for the checks that look at all of its files; as a program: their list."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tree_files():
    """The files of the tree by their path from its root, without those of builds in it; outside of a repository there is
    nothing to check."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True, text=True).stdout.split("\0")[:-1]   # a line would have é as "\303\251"
    except (OSError, subprocess.CalledProcessError) as why:
        words = getattr(why, "stderr", None) or str(why)   # of git's several lines the first says it
        print(f"skipped: git does not list the tree: {words.splitlines()[0]}", file=sys.stderr)
        sys.exit(77)
    builds = tuple(path.removesuffix("CMakeCache.txt") for path in listed if path.endswith("/CMakeCache.txt"))
    return [path for path in listed if not path.startswith(builds) and (ROOT / path).is_file()]


if __name__ == "__main__":
    print(*tree_files(), sep="\n")
