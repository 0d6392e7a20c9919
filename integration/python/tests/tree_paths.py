"""Makes the package of this folder and the helpers of tests/e2e importable, without an installation."""

import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent
ROOT = PACKAGE.parent.parent
sys.dont_write_bytecode = True
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests" / "e2e")]
