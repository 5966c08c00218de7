// SPDX-License-Identifier: Apache-2.0
"use strict";

// map draws processes with their devices at the left, other hosts at the right, and connections between them.
const map = (() => {
  const most = 40; // devices, and hosts
  const wide = 900, narrow = 400;
  const make = (name, attributes, text) => {
    const e = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const cut = (text, n) => text.length > n ? text.slice(0, n - 1) + "…" : text;
  const addressOf = (name) => name.slice(name.indexOf(":") + 1);

  const queuePairs = (n) => `${format.exact(n)} queue pair${n === 1 ? "" : "s"}`;

  // activate makes a shape a button, for the pointer and for Enter and Space.
  function activate(g, act) {
    g.addEventListener("click", act);
    g.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" && e.key !== " ") return;
      e.preventDefault();
      act();
    });
  }

  // links are connections of devices, by both ends: to another device that is shown, or to an address.
  function links(devices) {
    const all = new Map();
    for (const d of devices) {
      for (const q of d.qps) {
        if (!q.peer || q.gone) continue;
        const there = devices.filter((o) => addressOf(o.name) === q.peer);
        const other = there.find((o) => o !== d && o.qps.some((p) => p.qpn === q.peer_qpn)) ?? there.find((o) => o.qps.some((p) => p.qpn === q.peer_qpn && p !== q)) ?? there[0];
        const ends = other ? [d.id, other.id].sort((a, b) => a - b) : [d.id, "host " + q.peer];
        const id = ends.join(" ");
        const speed = 125000 * d.ports.reduce((n, p) => Math.max(n, p.speed_mbps), 0);
        const l = all.get(id) ?? { id, from: ends[0], to: ends[1], peer: q.peer, qps: 0, bytes: 0, again: 0, failed: 0, failures: new Set(), speed };
        l.qps++;
        if (!other || d.id === ends[0]) l.bytes += q.rates.sent_bytes + q.rates.received_bytes;
        l.again += q.rates.retransmitted_packets;
        if (q.failed) {
          l.failed++;
          l.failures.add(q.failed);
        }
        all.set(id, l);
      }
    }
    return [...all.values()];
  }

  function show(s) {
    const parent = $("map");
    const width = parent.clientWidth < 700 ? narrow : wide, box = width === wide ? 330 : 165, row = 34, letters = width === wide ? 44 : 21;
    const devices = s.processes.flatMap((p) => p.devices.filter((d) => !d.gone).map((d) => ({ ...d, process: p }))).slice(0, most);
    const lines = links(devices);
    const hosts = [...new Set(lines.filter((l) => typeof l.to === "string").map((l) => l.to))].slice(0, most);
    const busiest = Math.max(1, ...lines.map((l) => l.bytes));
    const at = new Map(), boxes = [];
    let y = 8, process = null;
    for (const d of devices) {
      if (d.process !== process) {
        process = d.process;
        boxes.push(make("text", { class: "map-process", x: 4, y: y + 14 }, cut(`${process.command || "process"} ${process.pid}`, letters)));
        y += 22;
      }
      const b = make("g", { class: "map-device", tabindex: "0", role: "button" });
      b.append(make("title", {}, `${d.name}: ${queuePairs(d.qps_total)}. Enter shows its graphs.`),
        make("rect", { x: 4, y, width: box, height: row - 6, rx: 6 }), make("text", { x: 14, y: y + 19 }, cut(d.name, letters)));
      b.setAttribute("aria-label", `${d.name}, ${queuePairs(d.qps_total)}: show its graphs`);
      activate(b, () => setScope(d.id));
      b.dataset.id = d.id;
      boxes.push(b);
      at.set(d.id, [box + 4, y + row / 2 - 3]);
      y += row;
    }
    hosts.forEach((h, i) => {
      const hy = 30 + i * row;
      boxes.push(make("rect", { class: "map-host", "aria-hidden": "true", x: width - box + 40, y: hy, width: box - 44, height: row - 6, rx: 6 }), make("text", { x: width - box + 50, y: hy + 19 }, cut(h, letters - 5)));
      at.set(h, [width - box + 40, hy + row / 2 - 3]);
      y = Math.max(y, hy + row);
    });
    const paths = [];
    for (const l of lines) {
      const [a, b] = [at.get(l.from), at.get(l.to)];
      if (!a || !b) continue;
      const share = Math.min(1, l.bytes / (l.speed || busiest));
      const bend = typeof l.to === "string" ? (b[0] - a[0]) / 2 : 26 + Math.min(120, Math.abs(a[1] - b[1]) / 2);
      const d = typeof l.to === "string" ? `M${a[0]} ${a[1]}C${a[0] + bend} ${a[1]} ${b[0] - bend} ${b[1]} ${b[0]} ${b[1]}`
        : l.from === l.to ? `M${a[0]} ${a[1] - 7}c34 -6 34 20 0 14` : `M${a[0]} ${a[1]}C${a[0] + bend} ${a[1]} ${b[0] + bend} ${b[1]} ${b[0]} ${b[1]}`;
      const g = make("g", { class: "map-line" + (l.failed ? " failed" : l.again ? " again" : l.bytes ? "" : " idle") });
      const said = `${queuePairs(l.qps)}, ${format.rate(l.bytes)}` + (l.speed ? `, ${(100 * share).toFixed(1)} % of the port` : "") + (l.failed ? `, ${l.failed} failed` : "");
      const name = (id) => typeof id === "string" ? id.replace("host ", "") : devices.find((o) => o.id === id)?.name;
      g.setAttribute("role", "img");
      g.setAttribute("aria-label", `${name(l.from)} and ${name(l.to)}: ${said}`);
      if (l.failed) {
        g.setAttribute("role", "button");
        g.setAttribute("tabindex", "0");
        g.setAttribute("aria-haspopup", "dialog");
        g.dataset.id = l.id;
        activate(g, () => tellWhy([...l.failures].join(", "), [...l.failures].flatMap((f) => s.explained[f] ?? [])));
      }
      g.append(make("title", {}, said + (l.failed ? ". Enter says what that means." : "")), make("path", { d, "stroke-width": (1.2 + 9 * share).toFixed(1) }));
      if (width === wide && l.bytes) g.append(make("text", { x: typeof l.to === "string" ? b[0] - 44 : a[0] + bend * 0.75 + 8, y: typeof l.to === "string" ? b[1] - 6 : (a[1] + b[1]) / 2 - 4 }, format.rate(l.bytes)));
      paths.push(g);
    }
    const focused = document.activeElement?.closest?.("#map [tabindex]")?.dataset.id;
    const svg = make("svg", { viewBox: `0 0 ${width} ${y + 6}`, role: "group", "aria-label": `${devices.length} devices, ${lines.length} connections, ${hosts.length} other hosts` });
    svg.append(...paths, ...boxes);
    parent.replaceChildren(svg);
    if (focused) parent.querySelector(`[data-id="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }
  return { show };
})();
