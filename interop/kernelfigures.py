#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""kernelfigures.py DEVICE ADDRESS [RUNS]: a device by package kernel beside the same device by perftest.

A run of perftest and one of `ramjet perf` take turns, with the same message size, number of messages, depth and
moderation of completions. Both commands are found by PATH. The table has the medians, and the median of the runs' ratios with the lowest and the
highest. From outside, by environment:

  SERVER         the servers' device, if it is not the clients': one of this host, where the servers run
  REMOTE         HOST:PORT where `kernelfigures.py --clients PORT` runs the clients; without it they run here
  PERFTEST_ENV   NAME=VALUE pairs for perftest here; RAMJET_ENV for ramjet
  GID            perftest's -x for the client
  SCALE          of the numbers of messages
  IWARP          not empty: connections are made by the connection manager (perftest's -R)
"""
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import time

scale = float(os.environ.get("SCALE", 1))
port = 18600

# operation, what, size, messages
MEASURES = [
    ("write", "lat", 64, 2000),
    ("send", "lat", 64, 2000),
    ("write", "bw", 64, 20000),
    ("send", "bw", 64, 20000),
    ("write", "bw", 1 << 20, 200),
    ("send", "bw", 1 << 20, 200),
]


def environment(name):
    e = dict(os.environ)
    e.update(p.split("=", 1) for p in os.environ.get(name, "").split())
    return e


def listening(process, at):
    """Waits until somebody listens at a TCP port."""
    for _ in range(600):
        for f in ("/proc/net/tcp", "/proc/net/tcp6"):
            for line in open(f).readlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and int(fields[1].split(":")[1], 16) == at:
                    return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    raise RuntimeError("nobody listens:\n" + process.communicate()[0])


def clients(at):
    """Runs what is asked for at a port: a line of JSON, a program's arguments, is answered by its status and output."""
    listener = socket.create_server(("", at))
    while True:
        c, _ = listener.accept()
        line = c.makefile().readline()
        if not line:  # somebody looked whether this listens
            continue
        argv = json.loads(line)
        try:
            p = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
            status, out = p.returncode, p.stdout
        except subprocess.TimeoutExpired as e:
            status, out = 124, f"{argv}: did not end: {e.stdout}"
        c.sendall(json.dumps([status, out]).encode())
        c.close()


def run(argv, env):
    """Runs a client, and returns its status and output."""
    if "REMOTE" not in os.environ:
        p = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
        return p.returncode, p.stdout
    host, at = os.environ["REMOTE"].split(":")
    for left in range(59, -1, -1):  # until the clients' side listens
        try:
            c = socket.create_connection((host, int(at)), 150)
            break
        except OSError:
            if not left:
                raise
            time.sleep(1)
    with c:
        c.sendall(json.dumps(argv).encode() + b"\n")
        return json.load(c.makefile())


def pair(server, client, env, at):
    """Runs a server and its client, and returns what the client says."""
    s = subprocess.Popen(server, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    listening(s, at)
    status, said = run(client, env)
    try:
        out, _ = s.communicate(timeout=10 if status else 60)
    except subprocess.TimeoutExpired:
        s.kill()
        out, _ = s.communicate()
    if status or s.returncode:
        raise RuntimeError(f"{client}: {status}, {s.returncode}\n{said}\n{out}")
    return said


def moderation(size):
    return 1 if size > 8192 else 100


def perftest(op, what, size, n, at):
    args = [f"ib_{op}_{what}", "-s", str(size), "-n", str(n), "-p", str(at), "-F"]
    if what == "bw":
        args += ["-t", "128", "-Q", str(moderation(size))]
    if os.environ.get("IWARP"):
        args.append("-R")
    gid = ["-x", os.environ["GID"]] if os.environ.get("GID") else []
    out = pair(args + ["-d", re.sub(":.*", "0", server)], args + gid + ["-d", device, address], environment("PERFTEST_ENV"), at)
    fields = [l.split() for l in out.splitlines() if re.match(rf"\s*{size}\s+\d+\s", l)][-1]
    return float(fields[4]) if what == "lat" else float(fields[3])  # typical time in µs; average MiB/s


def ours(op, what, size, n, at):
    args = ["perf", op, what, "-s", str(size), "-n", str(n), "-p", str(at)]
    if what == "bw":
        args += ["-t", "128", "-Q", str(moderation(size))]
    here = server if ":" in server else "kernel:" + server
    out = pair(["ramjet"] + args + ["-d", here], ["ramjet"] + args + ["--json", "-d", "kernel:" + device, address], environment("RAMJET_ENV"), at)
    return json.loads(out[out.index("{"):])


def measure(op, what, size, n, at):
    """Returns perftest's figure, ours, and how many objects ours has allocated: microseconds, or MiB a second."""
    for left in range(4, -1, -1):
        try:
            theirs = perftest(op, what, size, n, at)
            break
        except (RuntimeError, IndexError, subprocess.TimeoutExpired) as e:
            if not left:
                raise
            at += 1000
            print(f"once more: {e}", file=sys.stderr)  # with -R its client may come too early, or its end too late
    r = ours(op, what, size, n, at + 1)["results"][0]
    m = r["median"]
    return theirs, m["t_typical_usec"] if what == "lat" else m["bw_average_mib_per_second"], r["runs"][0]["local"]["allocs"]


def main():
    results = {m: [] for m in MEASURES}
    at = port
    for run in range(runs):
        for m in MEASURES:
            at += 2
            r = measure(*m[:3], max(10, int(m[3] * scale)), at)
            results[m].append(r)
            print(run, *m, *r, file=sys.stderr, flush=True)
    print("| | perftest | `ramjet perf` | ratio | lowest to highest | objects allocated |\n| --- | ---: | ---: | ---: | --- | ---: |")
    for (op, what, size, n), all in results.items():
        theirs, mine, allocs = (statistics.median(x) for x in zip(*all))
        ratios = sorted(o / t for t, o, _ in all)
        name, unit = f"{op.upper()} {size} B", "MiB/s"
        if what == "lat":
            name, unit = name + ", half a round trip", "µs"
        elif size < 1024:
            name, unit, theirs, mine = name + ", deep queue", "/s", theirs * 2**20 / size, mine * 2**20 / size
        print(f"| {name} | {theirs:.4g} {unit} | {mine:.4g} {unit} | {statistics.median(ratios):.2f} | {ratios[0]:.2f} to {ratios[-1]:.2f} | {allocs:.0f} of {max(10, int(n * scale))} |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--clients":
        sys.exit(clients(int(sys.argv[2])))
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    device, address = sys.argv[1:3]
    runs = int(sys.argv[3]) if len(sys.argv) > 3 else 7
    server = os.environ.get("SERVER", device)
    main()
