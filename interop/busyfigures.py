#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""busyfigures.py RAMJET [OTHER]: what Ramjet gets done on a machine that does other things, too.

RAMJET is the built command, and OTHER an earlier one to compare with. All that is compared takes turns, so that what
others do on the machine concerns it alike. A line for each figure: the median, and the median of its ratios to TCP's and to
OTHER's figure of the same run, with the least and the greatest. Two parts, which PARTS chooses from:

  bulk        1 MiB and 64 bytes between two processes that poll, beside nothing, beside two busy loops, and beside a
              light load that changes: jobs of 50 to 300 ms, one at a time. TCP is what `perf --compare` measures.
  neighbours  pairs of processes that send 64 bytes to and fro, polling and asleep on events, beside TCP's, which sleep:
              round trips of all pairs, the slowest pair's part of the fastest's, and what a loop beside them keeps of a
              processor.

From outside, by environment: PARTS, RUNS (7), SECONDS (2) of each measurement, PAIRS (1 4 8), DEVICES (roce iwarp shm).
"""
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RUNS = int(os.environ.get("RUNS", "7"))
SECONDS = float(os.environ.get("SECONDS", "2"))
PAIRS = [int(n) for n in os.environ.get("PAIRS", "1 4 8").split()]
DEVICES = os.environ.get("DEVICES", "roce iwarp shm").split()
PARTS = os.environ.get("PARTS", "bulk neighbours").split()
LOOP = "while True: pass"
# One job at a time, with a pause as long as it in between.
LIGHT = "import random, time\nwhile True:\n t = random.uniform(.05, .3); end = time.time() + t\n while time.time() < end: pass\n time.sleep(t)"
# A loop for so many seconds, which prints what it kept of a processor.
KEEPS = ("import resource, sys, time\ns = float(sys.argv[1]); end = time.time() + s\nwhile time.time() < end: pass\n"
         "r = resource.getrusage(resource.RUSAGE_SELF); print((r.ru_utime + r.ru_stime) / s)")


@contextlib.contextmanager
def beside(*programs):
    """Python programs that run meanwhile, each in a session of its own."""
    running = [subprocess.Popen([sys.executable, "-c", p], start_new_session=True) for p in programs]
    try:
        yield
    finally:
        for p in running:
            p.kill()
            p.wait()


def port():
    """A port for a control connection."""
    return str(random.randrange(20000, 30000))


def perf(ramjet, *arguments):
    """Starts `ramjet perf`, both sides on this machine."""
    return subprocess.Popen([ramjet, "perf", *arguments, "--loopback", "-p", port(), "-D", f"{int(SECONDS * 1000)}ms"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)


def output(process):
    out, _ = process.communicate(timeout=30 + 20 * SECONDS)
    return out


def row(out, size):
    """The figures after the size in a table's line, or None: the measurement has failed."""
    found = re.search(rf"^ *{size} +(.*)$", out, re.M)
    return found and [float(f) for f in found[1].split()]


def tcp(out):
    """TCP's figures in what --compare prints, as GB/s or µs, by congestion control."""
    units = {"MB/s": 1e-3, "GB/s": 1, "ns": 1e-3, "µs": 1, "ms": 1e3}
    return {name: float(n) * units[unit] for name, n, unit in
            re.findall(r"^ *\d+ +(TCP(?:, cubic)?) +([\d.]+) (GB/s|MB/s|ns|µs|ms)", out, re.M)}


def bulk(commands):
    loads = {"nothing": [], "two loops": [LOOP] * 2, "light load": [LIGHT]}
    for _ in range(RUNS):
        for load, programs in loads.items():
            with beside(*programs):
                for device in DEVICES:
                    for op in ("write", "read", "send"):
                        values = {}
                        for name, ramjet in commands.items():
                            if r := row(output(perf(ramjet, op, "bw", "-d", device + ":", "-s", "1M")), 1 << 20):
                                values[name] = r[2] * (1 << 20) / 1e9
                        yield f"{op} 1 MiB, {device}, beside {load}, GB/s", values
                    values = {}
                    for name, ramjet in commands.items():
                        if r := row(output(perf(ramjet, "send", "lat", "-d", device + ":", "-s", "64")), 64):
                            values[name] = 2 * r[4]
                    yield f"round trip 64 B, {device}, beside {load}, average in µs", values
                yield f"1 MiB, beside {load}, GB/s", tcp(output(perf(
                    next(iter(commands.values())), "write", "bw", "-d", "roce:", "-s", "1M", "--compare")))
                yield f"round trip 64 B, asleep, beside {load}, µs", tcp(output(perf(
                    next(iter(commands.values())), "send", "lat", "-e", "-d", "roce:", "-s", "64", "--compare")))


def kept(seconds):
    """What a loop keeps, which begins when the pairs have."""
    time.sleep(min(1, seconds / 4))
    run = subprocess.run([sys.executable, "-c", KEEPS, str(seconds / 2)], capture_output=True, text=True, start_new_session=True)
    return float(run.stdout)


def neighbours(commands, tcppairs):
    for _ in range(RUNS):
        for pairs in PAIRS:
            p = subprocess.Popen([tcppairs, str(pairs), str(SECONDS)], stdout=subprocess.PIPE, text=True)
            keeps = kept(SECONDS)
            trips = [int(n) / SECONDS for n in output(p).split()]
            base, basekept = sum(trips), keeps
            for device in DEVICES:
                for mode in ([], ["-e"]):
                    totals, equal, loop = {"TCP": base}, {"TCP": min(trips) / max(trips)}, {"TCP": basekept}
                    for name, ramjet in commands.items():
                        started = [perf(ramjet, "send", "lat", "-d", device + ":", "-s", "64", *mode) for _ in range(pairs)]
                        keeps = kept(SECONDS)
                        rows = [row(output(p), 64) for p in started]
                        if all(rows):
                            n = [r[0] / SECONDS for r in rows]
                            totals[name], equal[name], loop[name] = sum(n), min(n) / max(n), keeps
                    what = f"{pairs} pairs, {device}, {'on events' if mode else 'polling'}"
                    yield f"{what}: round trips a second", totals
                    yield f"{what}: slowest of fastest", equal
                    yield f"{what}: a loop keeps", loop


def line(what, runs):
    """A figure's line: medians, and ratios of the first command to the others."""
    names = list(dict.fromkeys(n for r in runs for n in r))
    medians = "  ".join(f"{n} {statistics.median(r[n] for r in runs if n in r):.4g}" for n in names)
    ratios = ""
    for other in names[1:] if "ramjet" in names[:1] else names:
        both = sorted(r["ramjet"] / r[other] for r in runs if other != "ramjet" and r.get(other) and "ramjet" in r)
        if both:
            ratios += f"  {statistics.median(both):.2f} of {other} ({both[0]:.2f} to {both[-1]:.2f})"
    return f"{what}: {medians}{ratios}"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    commands = {"ramjet": sys.argv[1]}
    if len(sys.argv) == 3:
        commands["other"] = sys.argv[2]
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        tcppairs = os.path.join(folder, "tcppairs")
        subprocess.run(["gcc", "-O2", "-o", tcppairs, os.path.join(HERE, "testdata", "tcppairs.c")], check=True)
        for part in PARTS:
            for what, values in {"bulk": bulk, "neighbours": lambda c: neighbours(c, tcppairs)}[part](commands):
                figures.setdefault(what, []).append(values)
                print(what, json.dumps(values), file=sys.stderr, flush=True)
    print("load average at the end:", *os.getloadavg())
    for what, runs in figures.items():
        if any(runs):
            print(line(what, runs))


main()
