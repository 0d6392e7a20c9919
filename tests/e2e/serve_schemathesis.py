"""schemathesis over the description of `pilotfish serve`: requests of its schemas, and such as break them, get no 5xx. As: FILE BINARY [EXAMPLES]."""

import json
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from command_line import Pilotfish  # noqa: E402

EXAMPLES = 40   # of each operation
TEMPLATE = "{% for m in messages %}{{ m.role + ': ' + (m.content if m.content is string else '') + '\\n' }}{% endfor %}assistant:"


def main():
    n_examples = sys.argv[2] if len(sys.argv) > 2 else str(EXAMPLES)
    with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as home:
        (Path(home) / "template").write_text(TEMPLATE)
        pilotfish = Pilotfish(sys.argv[1], home)
        with pilotfish.serve("serve", ROOT / "models/target", "localhost:0", "-d", ROOT / "models/draft", "--chat-template",
                             Path(home) / "template", "--context", "256") as server:
            url = f"http://{server.address}"
            subprocess.run([Path(sys.executable).parent / "schemathesis", "run", f"{url}/openapi.json", "--url", url, "--checks",
                            "not_a_server_error", "--phases", "fuzzing,stateful", "--max-examples", n_examples, "--workers", "4",
                            "--request-timeout", "60", "--generation-deterministic"], cwd=home, check=True)
            body = json.dumps({"prompt": "The list type", "max_tokens": 4, "temperature": 0}).encode()
            with urllib.request.urlopen(f"{url}/v1/completions", body, timeout=60) as reply:   # it still serves
                assert json.load(reply)["usage"]["completion_tokens"] <= 4
    print("schemathesis: no 5xx")


main()
