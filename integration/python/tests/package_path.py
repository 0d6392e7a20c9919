"""As tree_paths, for tests of the client: ends with a sentence where grpcio or protobuf is missing."""

import sys

from tree_paths import PACKAGE, ROOT  # noqa: F401

try:
    import grpc  # noqa: F401
    from google import protobuf  # noqa: F401
except ImportError as missing:
    sys.exit(f"{missing}: these tests need Debian's python3-grpcio and python3-protobuf, or the packages grpcio and protobuf")
