#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""marking.py: flows through a bottleneck that marks, for marking.sh: see there.

With --router INTERFACE it is the router: it answers a line, arguments of tc, by what tc writes. Otherwise it measures.
It is in a network namespace with tap0 and tap1, the two links of the router, and moves tap1 to a namespace of the
receiver's own.
"""
import argparse
import ctypes
import fcntl
import json
import os
import re
import socket
import statistics
import struct
import subprocess
import sys
import time

PORT = 7471
SENDER, RECEIVER, NEAR, FAR = "10.9.0.1", "10.9.1.1", "10.9.0.2", "10.9.1.2"
WARM = 6  # seconds at the start that are not counted
EVERY = 0.02  # seconds between two samples of the queue

# DCQCN's times are 1000 times those of the paper: as long as notifications take to have an effect here, the queue
# included. Rates are smaller accordingly. See docs/congestion.md.
DCQCN = ("dcqcn,clamp_tgt_rate=0,rpg_max_rate=40,rpg_min_rate=0.1,rpg_ai_rate=0.1,rpg_hai_rate=1,rpg_time_reset=55000,"
         "dce_tcp_rtt=55000,min_time_between_cnps=50000")
SWIFT = "swift,base_target=40000,fs_range=10000"
CASES = [  # name, program, control; of TCP also whether it has ECN
    ("window", "ramjet", "window", None),
    ("dcqcn", "ramjet", "dcqcn", None),
    ("dcqcn, adapted", "ramjet", DCQCN, None),
    ("swift, 40 ms", "ramjet", SWIFT, None),
    ("TCP cubic", "iperf3", "cubic", 0),
    ("TCP cubic, ECN", "iperf3", "cubic", 1),
    ("TCP bbr", "iperf3", "bbr", 0),
]


def ungroup():
    """Turns generic receive offload off, which makes one packet of several: red would mark or drop them as one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _, name in socket.if_nameindex():
            value = ctypes.create_string_buffer(struct.pack("II", 0x2C, 0))  # ETHTOOL_SGRO
            try:
                fcntl.ioctl(s, 0x8946, struct.pack("16sP16x", name.encode(), ctypes.addressof(value)))  # SIOCETHTOOL
            except OSError as e:
                print(f"{name}: {e}", flush=True)


def router(interface):
    """Answers lines on PORT. One tc stays alive for the samples, since a new one costs the slow guest too much."""
    ungroup()
    tc = subprocess.Popen(["tc", "-s", "-b", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    listener = socket.create_server(("", PORT))
    while True:
        c, _ = listener.accept()
        c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for line in c.makefile():
            if line != "sample\n":
                p = subprocess.run(["tc"] + line.replace("DEV", interface).split(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                c.sendall((json.dumps([p.returncode, p.stdout]) + "\n").encode())
                continue
            tc.stdin.write(f"qdisc show dev {interface}\n")
            tc.stdin.flush()
            text = ""
            while "marked" not in text:
                text += tc.stdout.readline()
            c.sendall((json.dumps([0, text]) + "\n").encode())
        c.close()


class Router:
    """The router, as the sender reaches it."""

    def __init__(self):
        for left in range(59, -1, -1):  # until it listens
            try:
                self.c = socket.create_connection((NEAR, PORT), 60)
                break
            except OSError:
                if not left:
                    raise
                time.sleep(1)
        self.c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lines = self.c.makefile()

    def tc(self, line):
        self.c.sendall(line.encode() + b"\n")
        status, text = json.loads(self.lines.readline())
        return status, text

    def bottleneck(self, a):
        self.tc("qdisc del dev DEV root")
        for line in (f"qdisc add dev DEV root handle 1: tbf rate {a.rate}mbit burst {a.bucket} limit {a.limit}",
                     f"qdisc add dev DEV parent 1:1 handle 10: red limit {a.limit} min {a.min} max {a.max} avpkt 1000 burst {a.burst} probability {a.probability} bandwidth {a.rate}mbit ecn"):
            status, text = self.tc(line)
            if status:
                sys.exit(f"tc {line}: {text}")

    def sample(self):
        """Returns the time, the bytes that have left, those that wait, packets dropped and marked."""
        _, text = self.tc("sample")
        red = text[text.index("qdisc red"):]
        sent = re.search(r"Sent (\d+) bytes \d+ pkt \(dropped (\d+)", text)
        waiting = re.search(r"backlog (\d+)(\w+)", red)
        scale = {"b": 1, "Kb": 1024, "Mb": 1 << 20}[waiting[2]]
        return time.monotonic(), int(sent[1]), int(waiting[1]) * scale, int(re.search(r"dropped (\d+)", red)[1]), int(re.search(r"marked (\d+)", red)[1])


def flows(case, n, a, receiver):
    """Starts n flows, and returns the server and the client."""
    name, program, control, ecn = case
    there = ["ip", "netns", "exec", receiver]
    seconds = str(WARM + a.seconds + 1)
    if program == "iperf3":
        for where in ([], there):
            subprocess.run(where + ["sh", "-c", f"echo {ecn} >/proc/sys/net/ipv4/tcp_ecn"], check=True)
        server = there + ["iperf3", "-s", "-1", "-B", RECEIVER]
        client = ["iperf3", "-c", RECEIVER, "-C", control, "-P", str(n), "-t", seconds, "-J"]
        env = {}
    else:
        env = {"RAMJET_CC": control}
        server = there + ["ramjet", "perf", "write", "bw", "-e", "-d", "roce:" + RECEIVER]
        client = ["ramjet", "perf", "write", "bw", "-e", "-q", str(n), "-t", "16", "-D", seconds, "--json", "-d", "roce:" + SENDER, RECEIVER]
    env = dict(os.environ, **env)
    s = subprocess.Popen(server, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    time.sleep(1)
    return s, subprocess.Popen(client, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def goodput(program, out):
    """Returns that which the program says it had, in Mbit/s."""
    r = json.loads(out[out.index("{"):])
    if program == "iperf3":
        return r["end"]["sum_received"]["bits_per_second"] / 1e6
    return r["results"][0]["median"]["bw_average_mib_per_second"] * (1 << 20) * 8 / 1e6


def measure(case, n, a, r, receiver):
    r.bottleneck(a)
    server, client = flows(case, n, a, receiver)
    begin, samples = time.monotonic(), []
    while client.poll() is None and time.monotonic() < begin + WARM + a.seconds + 20:
        samples.append(r.sample())
        time.sleep(EVERY)
    try:
        out, err = client.communicate(timeout=1)
    finally:
        for p in client, server:
            if p.poll() is None:
                p.terminate()
    said = server.communicate()[0]
    if client.returncode:
        raise RuntimeError(f"{case[0]}: {client.returncode}: {out}{err}\n{said}")
    whole = samples
    start = next(s[0] for s in samples if s[1] > 200e3)  # the connection's own packets are fewer
    samples = [s for s in samples if start + WARM <= s[0] < start + WARM + a.seconds]
    first, last = samples[0], samples[-1]
    to_ms = 8 / (a.rate * 1e3)
    queue = sorted(s[2] * to_ms for s in samples)
    return dict(name=case[0], flows=n, link=(last[1] - first[1]) * 8 / (last[0] - first[0]) / (a.rate * 1e6),
                goodput=goodput(case[1], out) / a.rate, median=statistics.median(queue), p95=queue[int(0.95 * len(queue))],
                longest=max(s[2] for s in whole) * to_ms, marked=whole[-1][4], dropped=whole[-1][3], samples=len(samples),
                trace=[(s[0] - start, s[2] * to_ms) for s in whole])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--router")
    p.add_argument("--out", default=".")
    p.add_argument("--rate", type=float, default=10, help="of the bottleneck, Mbit/s")
    p.add_argument("--seconds", type=float, default=9, help="for which a case is measured")
    p.add_argument("--flows", type=int, nargs="*", default=[1, 4])
    p.add_argument("--only", nargs="*", default=[], help="cases")
    p.add_argument("--cc", nargs="*", default=[], help="controls to measure beside, instead of the cases")
    p.add_argument("--bucket", type=int, default=20_000, help="tbf's burst, bytes: what leaves at once where the guest's timer is late")
    p.add_argument("--limit", type=int, default=300_000, help="longest queue, bytes")
    p.add_argument("--min", type=int, default=20_000, help="queue from which packets are marked, bytes")
    p.add_argument("--max", type=int, default=60_000, help="queue from which all are")
    p.add_argument("--burst", type=int, default=34, help="red's: packets")
    p.add_argument("--probability", type=float, default=0.1)
    a = p.parse_args()
    if a.router:
        router(a.router)
    receiver = f"marking-{os.getpid()}"
    run = lambda *args: subprocess.run(args, check=True)
    run("ip", "netns", "add", receiver)
    try:
        run("ip", "link", "set", "tap1", "netns", receiver)
        there = ("ip", "-n", receiver)
        run(*there, "link", "set", "lo", "up")
        run(*there, "addr", "add", RECEIVER + "/24", "dev", "tap1")
        run(*there, "link", "set", "tap1", "up")
        run(*there, "route", "add", SENDER + "/32", "via", FAR)
        run("ip", "route", "add", RECEIVER + "/32", "via", NEAR)
        # What is longer than a packet would be marked, and dropped, as one.
        run("ip", "link", "set", "tap0", "gso_max_segs", "1")
        r = Router()
        cases = [c for c in CASES if not a.only or c[0] in a.only]
        if a.cc:
            cases = [(c, "ramjet", c, None) for c in a.cc]
        print("| control | flows | link | goodput | queue: median | 95 % | longest | marked | dropped |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |", flush=True)
        with open(os.path.join(a.out, "queue.csv"), "w") as f, open(os.path.join(a.out, "table.md"), "w") as table:
            print("control,flows,seconds,queue_ms", file=f)
            for n in a.flows:
                for case in cases:
                    try:
                        m = measure(case, n, a, r, receiver)
                    except (RuntimeError, ValueError, subprocess.TimeoutExpired) as e:
                        print(f"{case[0]}, {n} flows: {e}", file=sys.stderr)
                        for where in sys.stdout, table:
                            print(f"| {case[0]} | {n} | failed, or did not end | | | | | | |", file=where, flush=True)
                        continue
                    row = "| {name} | {flows} | {link:.3f} | {goodput:.3f} | {median:.1f} ms | {p95:.1f} ms | {longest:.1f} ms | {marked} | {dropped} |".format(**m)
                    print(row, flush=True)
                    print(row, file=table, flush=True)
                    for t, q in m["trace"]:
                        print(f'"{m["name"]}",{n},{t:.3f},{q:.2f}', file=f)
    finally:
        subprocess.run(["ip", "netns", "del", receiver])


if __name__ == "__main__":
    main()
