#!/usr/bin/env python3
"""Scenarios and results for simulators.sh: see there."""
import bisect
import csv
import math
import random
import sys

DCQCN = ("dcqcn,clamp_tgt_rate=0,rpg_time_reset=300,rpg_threshold=1,rpg_ai_rate=20,rpg_hai_rate=200,rpg_min_rate=1000,"
         "min_time_between_cnps=4,dce_tcp_rtt=1")


def permutation(k=8, size=1_000_000):
    """Writes a permutation of a fat tree's hosts for all three."""
    half = k // 2
    hosts = k * half * half
    edge, aggregate, core = hosts, hosts + k * half, hosts + 2 * k * half
    links = [(host, edge + host // half) for host in range(hosts)]
    for pod in range(k):
        for a in range(half):
            links += [(edge + pod * half + e, aggregate + pod * half + a) for e in range(half)]
            links += [(aggregate + pod * half + a, core + a * half + c) for c in range(half)]
    switches = range(hosts, core + half * half)
    with open("mix/fat128.txt", "w") as f:
        print(hosts + len(switches), len(switches), len(links), file=f)
        print(*switches, file=f)
        for a, b in links:
            print(a, b, "100Gbps 0.001ms 0", file=f)
    order = random.Random(1).sample(range(hosts), hosts)
    flows = list(zip(order, order[1:] + order[:1]))
    with open("mix/perm.txt", "w") as f:
        print(len(flows), file=f)
        for src, dst in flows:
            print(src, dst, 3, 100, size, 2.0, file=f)
    with open("mix/none.flows", "w") as f:
        print(0, file=f)
    with open("perm.cm", "w") as f:
        print(f"Nodes {hosts}\nConnections {len(flows)}", file=f)
        for i, (src, dst) in enumerate(flows):
            print(f"{src}->{dst} id {i + 1} start 0 size {size}", file=f)
    for name, control, ecn in ("perm", "window", ", ecn: {kmin: 0B, kmax: 0B}"), ("perm-dcqcn", DCQCN, ""):
        with open(name + ".yaml", "w") as f:
            print(f"""topology: {{kind: hpcc, file: mix/fat128.txt}}
host: {{congestion: '{control}', window: 16MiB}}
switch: {{buffer: 32MiB{ecn}}}
traffic:
- {{kind: hpcc, file: mix/perm.txt}}""", file=f)


def flows(name):
    """Prints the flows of ramjet sim in HPCC's format, from 2 seconds on."""
    rows = list(csv.DictReader(open(name)))
    print(len(rows))
    for r in rows:
        print(r["src"], r["dst"], 3, 100, r["bytes"], "%.9f" % (2 + float(r["start_s"])))


def ours(name):
    return [(int(r["bytes"]), float(r["slowdown"])) for r in csv.DictReader(open(name))]


def theirs(name):
    fields = (line.split() for line in open(name))
    return [(int(f[4]), max(1, int(f[6]) / int(f[7]))) for f in fields]


SIZES = [1e3, 1e4, 1e5, 1e6, 1e7, 3e7]
SHARES = [0.5, 0.95, 0.99]


def percentile(values, share):
    values = sorted(values)
    return values[min(int(share * len(values)), len(values) - 1)]


def table(flows):
    by_size = [[] for _ in SIZES]
    for size, slowdown in flows:
        by_size[bisect.bisect_left(SIZES, size)].append(slowdown)
    return [(size, [percentile(v, s) for s in SHARES]) for size, v in zip(SIZES, by_size) if v]


def curve(flows, share, points=20):
    """Slowdowns of as many groups of flows by size, each as large."""
    flows = sorted(flows)
    groups = [flows[len(flows) * i // points:len(flows) * (i + 1) // points] for i in range(points)]
    return [(g[-1][0], percentile([s for _, s in g], share)) for g in groups]


def slowdowns(name, out):
    """Prints slowdowns of an experiment by size, and draws those of the 95th percentile."""
    series = []
    for control, title, colour in ("dcqcn", "DCQCN", "#c0392b"), ("dcqcn_vwin", "DCQCN and a window", "#2471a3"):
        for flows, who, dash in (theirs(f"mix/fct_fat_{name}_{control}.txt"), "HPCC's ns-3", "6 4"), (ours(f"{name}-{control}/flows.csv"), "ramjet sim", ""):
            print(f"{title}, {who}: {len(flows)} flows; median, 95 %, 99 %")
            for size, row in table(flows):
                print(f"  up to {size:>10,.0f} B", *("%7.2f" % v for v in row))
            series.append((f"{title}, {who}", colour, dash, curve(flows, 0.95)))
    draw(out, series)


def draw(out, series, width=720, height=400, left=60, right=20, top=20, bottom=50):
    most = max(8, math.ceil(max(v for *_, line in series for _, v in line)))
    points = len(series[0][3])
    x = lambda i: left + (width - left - right) * i / (points - 1)
    y = lambda v: height - bottom - (height - top - bottom) * (v - 1) / (most - 1)
    size = lambda n: f"{n / 1e6:.3g} MB" if n >= 1e6 else f"{n / 1e3:.3g} kB" if n >= 1e3 else f"{n} B"
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for v in range(1, most + 1, math.ceil(most / 10)):
        svg.append(f'<path d="M{left} {y(v):.1f}H{width - right}" stroke="#ddd"/><text x="{left - 8}" y="{y(v) + 4:.1f}" text-anchor="end">{v}</text>')
    for i, (n, _) in enumerate(series[0][3]):
        if i % 3 == 1:
            svg.append(f'<text x="{x(i):.1f}" y="{height - bottom + 18}" text-anchor="middle">{size(n)}</text>')
    svg.append(f'<text x="{(left + width) / 2}" y="{height - 10}" text-anchor="middle">size, each twentieth of all flows</text>')
    svg.append(f'<text x="16" y="{height / 2}" transform="rotate(-90 16 {height / 2})" text-anchor="middle">FCT slowdown, 95th percentile</text>')
    for k, (name, colour, dash, line) in enumerate(series):
        style = f'stroke="{colour}" stroke-width="2" fill="none"' + (f' stroke-dasharray="{dash}"' if dash else "")
        svg.append(f'<path d="M{"L".join(f"{x(i):.1f} {y(v):.1f}" for i, (_, v) in enumerate(line))}" {style}/>')
        svg.append(f'<path d="M{left + 14} {top + 14 + 18 * k}h30" {style}/><text x="{left + 52}" y="{top + 18 + 18 * k}">{name}</text>')
    open(out, "w").write("\n".join(svg + ["</svg>"]) + "\n")


if __name__ == "__main__":
    {"permutation": permutation, "flows": flows, "slowdowns": slowdowns}[sys.argv[1]](*sys.argv[2:])
