#!/usr/bin/env python3
"""docs-data.py [--check]: tables and plots of the docs from the series in docs/data/*.csv.

Every series has the columns date, machine, commit and command before its figures (machines.csv says what a machine
is; an empty commit was not recorded). In a page, what stands between

    <!-- table SERIES: column, column as "title", ... where column=value -->
    <!-- end -->

is written by this script, and docs/no-gain.md wholly. Plots go to docs/plots/*.svg. --check writes nothing and fails
if a page or a plot is not what the data give.
"""
import csv
import html
import re
import sys

from tree_files import ROOT

DATA = ROOT / "docs/data"
META = ["date", "machine", "commit", "command"]
BLOCK = re.compile(r"(<!-- table ([\w-]+): (.*?)(?: where (.*?)=(.*?))? -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def series(name):
    """The rows of a series, each a dict; a ValueError names what is wrong with the file."""
    path = DATA / f"{name}.csv"
    if not path.is_file():
        raise ValueError(f"docs/data/{name}.csv is not there")
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        rows = list(reader)
    if name != "machines" and reader.fieldnames[:4] != META:
        raise ValueError(f"docs/data/{name}.csv: the first columns are {reader.fieldnames[:4]}, expected {META}")
    for number, row in enumerate(rows, 2):
        if None in row or None in row.values():
            raise ValueError(f"docs/data/{name}.csv:{number}: as many fields as columns expected")
        if name != "machines" and row["machine"] not in MACHINES:
            raise ValueError(f'docs/data/{name}.csv:{number}: machine "{row["machine"]}" is not in machines.csv')
    return rows


def grouped(text):
    """Thousands apart: 49022 to 49,022. Dates and small numbers stay."""
    return re.sub(r"(?<![\w.-])\d{4,6}(?![\w.-])", lambda m: f"{int(m[0]):,}", text)


def table(name, columns, where):
    rows = [row for row in series(name) if not where[0] or row[where[0]] == where[1]]
    picked = []
    for column in re.findall(r'(?:[^,"]|"[^"]*")+', columns):
        source, _, title = column.strip().partition(" as ")
        source, title = source.strip('"'), title.strip('"') or source.strip('"')
        if rows and source not in rows[0]:
            raise ValueError(f"docs/data/{name}.csv: no column {source}")
        picked.append((source, title))
    lines = ["| " + " | ".join(title for _, title in picked) + " |", "|" + "---|" * len(picked)]
    for row in rows:
        lines.append("| " + " | ".join(row[s] if s == "date" else grouped(row[s]) for s, _ in picked) + " |")
    return "\n".join(lines) + "\n"


def no_gain():
    """docs/no-gain.md: one line for each change that was tried and gained less than it cost."""
    lines = ["# What gained nothing", "",
             "One line for each change that was tried, measured and left out: time with it by the time without, so 1.00 is no",
             "difference and above 1 is slower. Written by `scripts/docs-data.py` from `docs/data/no_gain.csv`, which has the dates.", ""]
    machine = None
    for row in series("no_gain"):
        if row["machine"] != machine:
            machine = row["machine"]
            lines += [f"## {MACHINES[machine]['processor']}", ""]
        lines.append(f"- {row['tried']}: {row['time by the time without']}")
    text = "\n".join(lines)
    return re.sub(r"\n(## )", r"\n\n\1", text).replace("\n\n\n", "\n\n") + "\n"


def number(text):
    """The number a bar stands for: the middle of "a to b"."""
    found = [float(x) for x in re.findall(r"\d+(?:\.\d+)?", text)]
    return sum(found[:2]) / len(found[:2]) if found else 0.0


def bars(title, groups, unit):
    """A bar chart as SVG. groups: [(label, [(name, value)])]; a line marks 1."""
    height_of, gap, left, width = 13, 8, 250, 760
    top, n_bars = 46, sum(len(g[1]) for g in groups)
    height = top + n_bars * height_of + len(groups) * gap + 36
    most = max(value for _, group in groups for _, value in group) * 1.08
    scale = (width - left - 60) / most
    colours = ["#1f6fb2", "#d98032", "#4a9c5d", "#8c6bb1", "#c44e52", "#7f7f7f"]
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="11">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="12" y="22" font-size="15" font-weight="bold">{html.escape(title)}</text>']
    names = [name for name, _ in groups[0][1]]
    x = left
    for colour, name in zip(colours, names):
        out.append(f'<rect x="{x}" y="30" width="9" height="9" fill="{colour}"/><text x="{x + 13}" y="38">{html.escape(name)}</text>')
        x += 26 + 6.6 * len(name)
    y = top
    for label, group in groups:
        middle = y + len(group) * height_of / 2 + 4
        out.append(f'<text x="{left - 8}" y="{middle:.1f}" text-anchor="end">{html.escape(label)}</text>')
        for colour, (_, value) in zip(colours, group):
            if value:
                out.append(f'<rect x="{left}" y="{y}" width="{value * scale:.1f}" height="{height_of - 2}" fill="{colour}"/>'
                           f'<text x="{left + value * scale + 4:.1f}" y="{y + height_of - 3}" font-size="10">{value:.2f}</text>')
            y += height_of
        y += gap
    one = left + scale
    out.append(f'<line x1="{one:.1f}" x2="{one:.1f}" y1="{top - 4}" y2="{y}" stroke="black" stroke-dasharray="3,3"/>')
    out.append(f'<text x="{one:.1f}" y="{y + 14}" text-anchor="middle">1</text>')
    out.append(f'<text x="{width - 12}" y="{y + 27}" text-anchor="end" fill="#555">{html.escape(unit)}</text></svg>')
    return "\n".join(out) + "\n"


def plots():
    peers = series("summary_peers")
    columns = [c for c in peers[0] if c not in META and c not in ("shape", "weights")]
    yield "peers.svg", bars("Beside the best of llama.cpp, ik_llama.cpp, OpenVINO and PyTorch",
                            [(f'{row["shape"]} {row["weights"]}', [(c, number(row[c])) for c in columns]) for row in peers],
                            "their time by ours, two Zen 5 cores; right of 1 this engine is faster")
    yield "speculation.svg", bars("Tokens a second with speculation by those without, bundled pair",
                                  [(f'{MACHINES[row["machine"]]["processor"].split(" (")[0].replace("AMD EPYC, ", "").replace("AMD EPYC ", "")}: {row["setting"]}',
                                    [("length 4", number(row["length 4"])), ("auto", number(row["auto"]))])
                                   for row in series("summary_speculation")], "two cores each; greedy, texts identical")
    yield "draft_ahead.svg", bars("Verdicts for which a proposal was drafted ahead, bundled pair",
                                  [(f'{row["branches"]} outcomes drafted for', [("rate of hits", number(row["rate of hits"]))])
                                   for row in series("draft_ahead_fan_out")], "verifier 20 ms, drafter 3 ms a pass, 5 tokens; 1 is every verdict")
    decode = series("1b_throughput")
    yield "limits.svg", bars("Llama-3.2-1B shape by its limits, two Zen 5 cores",
                             [(row["subject"], [("decode by a bare read", number(row["decode, of the bare read"].split(" (")[0])),
                                                ("prefill by the peak", number(row["of the peak"].split(" (")[0]))]) for row in decode],
                             "1 is what the machine allows")


def main():
    check, stale = sys.argv[1:] == ["--check"], []

    def put(path, text):
        old = path.read_text(encoding="utf-8") if path.is_file() else ""
        if old == text:
            return
        stale.append(str(path.relative_to(ROOT)))
        if not check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")

    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        put(page, BLOCK.sub(lambda m: m[1] + "\n" + table(m[2], m[3], (m[4], m[5])) + "\n" + m[7], text))
    put(ROOT / "docs/no-gain.md", no_gain())
    for name, text in plots():
        put(ROOT / "docs/plots" / name, text)
    n = 0
    for path in sorted(DATA.glob("*.csv")):
        series(path.stem)
        n += 1
    if stale and check:
        print("\n".join(f"{path}: is not what docs/data gives; run scripts/docs-data.py" for path in stale))
        return 1
    print(f"docs-data: {n} series" + (f", wrote {', '.join(stale)}" if stale else ", pages and plots are what they give"))
    return 0


try:
    MACHINES = {}
    MACHINES.update({row["machine"]: row for row in series("machines")})
    sys.exit(main())
except ValueError as error:
    print(error, file=sys.stderr)
    sys.exit(1)
