#!/usr/bin/env python3
"""Compares what-if predictions with measurements: writes docs/data/what_if.csv.

    python3 bench/what_if.py --pilotfish build/release/pilotfish --machine NAME [--prompts N] [--tokens N] [--repeats N]

The bundled pair is measured once at a fixed length. From its acceptance rates `bench acceptance --what-if` predicts the best length and
the speed-up of targets and drafts that take other times. Each prediction is then measured: with passes that take these times
(--simulate-step-ms, --simulate-token-ms), at the length that was predicted to be the best.
"""
import argparse
import csv
import datetime
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[1]
CELLS = ((100, 5), (100, 15), (100, 30), (100, 60))  # a step of the target and a pass of the draft, ms
MEASURED_LENGTH = 8
COLUMNS = ("step ms", "pass ms", "length", "predicted", "measured", "measured to predicted")


def bench(arguments, *options):
    command = [arguments.pilotfish, "bench", "acceptance", "-m", ROOT / "models" / "target", "-d", ROOT / "models" / "draft",
               "--limit", arguments.prompts, "-n", arguments.tokens, "--ignore-eos", "--threads", 1, "--json", *options]
    done = subprocess.run([str(x) for x in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"pilotfish bench acceptance: exit {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)["runs"][0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pilotfish", required=True, help="the binary")
    parser.add_argument("--machine", required=True, help="its name in docs/data/machines.csv")
    parser.add_argument("--commit", default="", help="of the binary")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    questions = [option for step, draft in CELLS for option in ("--what-if", f"{step}:{draft}:0")]
    predictions = bench(arguments, "--draft-len", MEASURED_LENGTH, *questions)["what_if"]
    rows = []
    for (step, draft), prediction in zip(CELLS, predictions, strict=True):
        length = max(1, prediction["best_draft_len"])
        run = bench(arguments, "--draft-len", length, "--simulate-step-ms", step, "--simulate-token-ms", draft,
                    "--repeats", arguments.repeats)
        command = f"bench acceptance --limit {arguments.prompts} -n {arguments.tokens} --draft-len {length} " \
                  f"--simulate-step-ms {step} --simulate-token-ms {draft} --repeats {arguments.repeats}"
        rows.append([datetime.date.today().isoformat(), arguments.machine, arguments.commit, command, step, draft, length,
                     f"{prediction['speedup']:.2f}", f"{run['speedup']:.2f}", f"{run['speedup'] / prediction['speedup']:.2f}"])
        print(*rows[-1][4:], flush=True)
    with open(ROOT / "docs" / "data" / "what_if.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["date", "machine", "commit", "command", *COLUMNS])
        writer.writerows(rows)


if __name__ == "__main__":
    main()
