"""aiperf against `pilotfish serve`, each API of it, streamed and whole: no request fails, and tokens are counted alike. As: FILE BINARY."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from command_line import Pilotfish  # noqa: E402

TEMPLATE = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}assistant:"
REQUESTS, N_OUT = 24, 32
RUNS = [("chat", True), ("chat", False), ("completions", True), ("responses", True), ("messages", True)]


def profile(url, kind, streams, home):
    """The figures of a run, of its own and those that it has read of the server: 8 requests at once."""
    out = home / f"{kind}-{streams}"
    command = [Path(sys.executable).parent / "aiperf", "profile", "-m", "target", "-u", url, "--endpoint-type", kind,
               "--tokenizer", ROOT / "models/target", "--concurrency", 8, "--request-count", REQUESTS, "--synthetic-input-tokens-mean", 64,
               "--output-tokens-mean", N_OUT, "--use-server-token-count", "--ui", "none", "--artifact-dir", out, "--random-seed", 1]
    if kind in ("chat", "completions"):
        command += ["--extra-inputs", "ignore_eos:true"]
    if streams:
        command.append("--streaming")
    done = subprocess.run([str(w) for w in command], cwd=home, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stdout)
    return json.loads((out / "profile_export_aiperf.json").read_text()), json.loads((out / "server_metrics_export.json").read_text())


def check(kind, streams, figures, metrics):
    where = f"{kind}, {'streamed' if streams else 'whole'}"
    n = figures["request_count"]["avg"]
    if n != REQUESTS or figures.get("error_request_count", {}).get("avg"):
        raise AssertionError(f"{where}: {n} requests of {REQUESTS}; {figures.get('error_summary')}")
    tokens = figures["output_sequence_length"]
    if tokens["max"] > N_OUT or (kind in ("chat", "completions") and tokens["min"] < N_OUT):
        raise AssertionError(f"{where}: answers of {tokens['min']} to {tokens['max']} tokens, expected {N_OUT}")
    if streams and not 0 < figures["time_to_first_token"]["avg"] <= figures["request_latency"]["avg"]:
        raise AssertionError(f"{where}: {figures['time_to_first_token']}")
    if "vllm:num_requests_running" not in json.dumps(metrics):
        raise AssertionError(f"{where}: aiperf has read no metrics of the server")


def main():
    with tempfile.TemporaryDirectory(prefix="pilotfish-test-") as directory:
        home = Path(directory)
        (home / "template").write_text(TEMPLATE)
        pilotfish = Pilotfish(sys.argv[1], home)
        with pilotfish.serve("serve", ROOT / "models/target", "localhost:0", "-d", ROOT / "models/draft", "--chat-template",
                             home / "template") as server:
            for kind, streams in RUNS:
                check(kind, streams, *profile(f"http://{server.address}", kind, streams, home))
    print(f"aiperf: {len(RUNS)} runs of {REQUESTS} requests, none failed")


main()
