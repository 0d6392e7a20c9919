"""The tree, for the checks that look at all of its files."""
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tree_files():
    """The files of the tree by their path from its root; outside of a repository there is nothing to check."""
    try:
        return subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True,
                              capture_output=True, text=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError) as why:
        print(f"skipped: not a git repository: {why}")
        sys.exit(77)
