// SPDX-License-Identifier: Apache-2.0
"use strict";

const $ = (id) => document.getElementById(id);
const every = 1000; // ms between requests of the state
const ladderEvery = 1500;

// key is what stands behind the number sign of the URL.
const key = location.hash.slice(1);
let scope = 0; // what the graphs show
let opened = 0; // the queue pair whose details are shown
let paused = false, state = null, failures = 0;

// element makes an element with a class and text.
function element(name, css, text) {
  const e = document.createElement(name);
  if (css) e.className = css;
  if (text !== undefined) e.textContent = text;
  return e;
}

// say sets a text, and leaves it alone if that is there: what is read aloud is not repeated.
function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// each has a parent show one child for each item, in order, and keeps the children that there were.
function each(parent, items, make, update) {
  const old = new Map(Array.from(parent.children, (c) => [c.dataset.id, c]));
  items.forEach((item, i) => {
    const id = String(item.id);
    let child = old.get(id);
    if (!child) {
      child = make(item);
      child.dataset.id = id;
    }
    old.delete(id);
    if (parent.children[i] !== child) {
      const focus = child.contains(document.activeElement) ? document.activeElement : null;
      parent.insertBefore(child, parent.children[i] ?? null);
      focus?.focus({ preventScroll: true });
    }
    update(child, item);
  });
  for (const child of old.values()) {
    const focused = child.contains(document.activeElement);
    child.remove();
    if (focused) $("devices").focus({ preventScroll: true });
  }
}

// facts fills a list of terms.
function facts(list, entries) {
  each(list, entries.map(([id, text, css]) => ({ id, text, css })), (f) => {
    const box = element("div");
    box.append(element("dt", "", f.id), element("dd"));
    return box;
  }, (box, f) => {
    say(box.lastChild, f.text);
    box.className = f.css ?? "";
  });
}

// explanations are what errors mean, as `ramjet explain` says it: each with its causes, how to tell them apart and what mends them.
function explanations(list) {
  return list.flatMap((e) => {
    const causes = element("ul");
    for (const c of e.causes ?? []) {
      const li = element("li", "", c.what);
      if (c.check) li.append(element("div", "check", "To tell: " + c.check));
      if (c.mend) li.append(element("div", "check", "What helps: " + c.mend));
      causes.append(li);
    }
    const parts = [element("h3", "", e.title), element("p", "", e.means)];
    if (e.causes?.length) parts.push(element("p", "", "The usual causes, the most frequent first:"), causes);
    return parts;
  });
}

// tellWhy shows what errors mean; without any that is known it says so.
function tellWhy(title, list) {
  $("why-title").textContent = title;
  $("why-text").replaceChildren(...list.length ? explanations(list) : [element("p", "", "Nothing more is known of this error.")]);
  $("why").showModal();
  $("why").scrollTop = 0;
}

// whyButton is an error that is linked to what it means.
function whyButton(text, list) {
  const b = element("button", "why");
  b.type = "button";
  b.append(element("span", "why-text", text), " ", element("span", "why-link", "What it means"));
  b.setAttribute("aria-haspopup", "dialog");
  b.addEventListener("click", (e) => {
    e.stopPropagation();
    tellWhy(text, b.list);
  });
  b.list = list;
  return b;
}

// showProblems lists errors: as buttons if what they mean is known, else as texts of a style.
function showProblems(parent, problems, css) {
  each(parent, problems.map((p) => ({ id: p.text, list: p.list })), (p) => p.list.length ? whyButton(p.id, p.list) : element("p", css, p.id), (b, p) => { b.list = p.list; });
}

// Refused is what the server has said no to.
class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

// ask sends a request to the server.
async function ask(path, body) {
  const options = { headers: { Authorization: "Bearer " + key }, signal: AbortSignal.timeout(15000) };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  const r = await fetch(path, options);
  const answer = await r.json();
  if (!r.ok) throw new Refused(r.status, answer.error);
  return answer;
}

const graphLines = {
  throughput: ["Throughput", [{ name: "sent", class: "sent", field: "sent_bytes", fill: true }, { name: "received", class: "received", field: "received_bytes" }], format.rate],
  latency: ["Round trip", [{ name: "", class: "rtt", field: "rtt_ns", gaps: true, fill: true }], format.time],
  again: ["Retries", [{ name: "packets", class: "again", field: "retransmits", fill: true }, { name: "causes", class: "retries", field: "retries" },
    { name: "unexpected", class: "unexpected", field: "unexpected" }, { name: "late", class: "late", field: "late" }], format.perSecond],
};
const graphsIn = (parent) => Object.values(graphLines).map((g) => new Graph(parent, ...g));
const mainGraphs = graphsIn($("graphs")), detailGraphs = graphsIn($("detail-graphs"));
const mainLatency = new Histogram($("graphs"), "Completion latency"), detailLatency = new Histogram($("detail-graphs"), "Completion latency, of the device");

function show(s) {
  state = s;
  say($("host"), s.host);
  document.title = s.host ? "Ramjet: " + s.host : "Ramjet";
  const t = s.total, o = s.objects;
  facts($("tiles"), [["processes", format.exact(o.processes)], ["devices", format.exact(o.devices)], ["queue pairs", format.exact(o.qps)],
    ["memory regions", format.exact(o.mrs)], ["sent", format.rate(t.sent_bytes)], ["received", format.rate(t.received_bytes)],
    ["messages", format.perSecond(t.sent_messages + t.received_messages)],
    ["retransmitted", format.perSecond(t.retransmitted_packets), t.retransmitted_packets > 0 ? "warn" : ""]]);
  if (s.scope.kind === "qp" && s.scope.id === opened) {
    showDetail(s.scope);
  } else if (opened) {
    showDetail(null);
  }
  if (!opened) {
    if (s.scope.id === 0) scope = 0; // what it was is gone
    say($("graphs-of"), s.scope.id === 0 ? "All processes" : s.scope.label + (s.scope.gone ? " (gone)" : ""));
    $("all").hidden = s.scope.id === 0;
    for (const g of mainGraphs) g.show(s.scope.series);
    mainLatency.show(s.scope.latency);
  }
  showDevices(s);
  if ($("map-of").open && !$("why").open) map.show(s); // the focus comes back from there
}

// columns are those of the table: what stands above, the style, and by what they are sorted, which is what the cells say.
const columns = [["QP", "number", (q) => q.qpn], ["Type", "short", (q) => q.type], ["State", "short", (q) => q.state], ["Peer", "peer", (q) => peerOf(q, " ")],
  ["Sent", "num", (q) => q.rates.sent_bytes], ["Received", "num", (q) => q.rates.received_bytes],
  ["Messages", "num", (q) => q.rates.sent_messages + q.rates.received_messages], ["RTT", "num", (q) => q.rtt_ns],
  ["Window", "num minor", (q) => q.window_bytes], ["In flight", "num minor", (q) => q.in_flight_bytes],
  ["Sent again", "num", (q) => q.counts.retransmitted_packets], ["Late", "num", (q) => q.counts.late_acks]];
let sorted = 0, down = false; // the column that the table is sorted by, and whether the largest comes first

function compare(a, b) {
  const [x, y] = [columns[sorted][2](a), columns[sorted][2](b)];
  const n = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
  return (down ? -n : n) || a.qpn - b.qpn;
}

function sortBy(column, largestFirst) {
  [sorted, down] = [column, largestFirst];
  for (const [i, th] of Array.from($("heads").cells).entries()) {
    if (i === column) th.setAttribute("aria-sort", down ? "descending" : "ascending");
    else th.removeAttribute("aria-sort");
  }
  $("order").value = String(column);
  if (state) showDevices(state);
}

for (const [i, [text, css]] of columns.entries()) {
  const th = element("th", css), button = element("button", "sort", text);
  th.scope = "col";
  button.type = "button";
  button.addEventListener("click", () => sortBy(i, i === sorted ? !down : css.startsWith("num") && css !== "number"));
  th.append(button);
  $("heads").append(th);
  const option = element("option", "", text);
  option.value = String(i);
  $("order").append(option);
}

function showDevices(s) {
  const filtering = $("filter").value.trim() !== "";
  const devices = [];
  for (const p of s.processes) {
    if (p.error) devices.push({ id: "error" + p.id, process: p, name: "", qps: [], ports: [], spark_bytes_per_second: [] });
    for (const d of p.devices) if (!filtering || d.qps.length) devices.push({ ...d, process: p });
  }
  if (sorted !== 0 || down) { // groups in the order of their first rows
    const first = new Map(devices.map((d) => [d, [...d.qps].sort(compare)[0]]));
    devices.sort((a, b) => first.get(a) && first.get(b) ? compare(first.get(a), first.get(b)) : Boolean(first.get(b)) - Boolean(first.get(a)));
  }
  each($("list"), [{ id: "heads" }, ...devices], makeDevice, updateDevice);
  $("list").hidden = devices.length === 0;
  $("empty").hidden = s.processes.length > 0;
  $("no-match").hidden = !(s.processes.length > 0 && filtering && devices.length === 0);
  $("keys").hidden = devices.every((d) => d.qps.length === 0);
  const left = s.left_out, more = [];
  if (left.qps) more.push(format.exact(left.qps) + " queue pairs");
  if (left.devices) more.push(format.exact(left.devices) + " devices");
  if (left.processes) more.push(format.exact(left.processes) + " processes");
  $("left-out").hidden = more.length === 0;
  say($("left-out"), more.length ? `Not shown: ${more.join(", ")}. Those in trouble and those that do most are. The filter finds others.` : "");
  const buttons = rowButtons();
  if (buttons.length && !buttons.some((b) => b.tabIndex === 0)) buttons[0].tabIndex = 0;
}

// A device is a group of rows: its own, and one for each of its queue pairs.
function makeDevice() {
  const group = element("tbody", "device");
  group.setAttribute("role", "rowgroup");
  return group;
}

function makeGroup(row) {
  const tr = element("tr", "group"), th = element("th");
  tr.setAttribute("role", "row");
  th.setAttribute("role", "rowheader");
  th.colSpan = columns.length;
  th.scope = "rowgroup";
  const name = element("button", "name");
  name.type = "button";
  name.addEventListener("click", () => setScope(Number(tr.parentElement.dataset.id)));
  const spark = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  spark.setAttribute("class", "spark");
  const head = element("div", "group-head");
  head.append(name, element("span", "process"), element("span", "ports"), element("span", "note"), spark, element("span", "device-rate"), element("div", "problems"));
  th.append(head);
  tr.append(th);
  return tr;
}

function updateGroup(tr, d) {
  const p = d.process;
  const [name, process, ports, note, spark, rate, problems] = tr.firstChild.firstChild.children;
  say(name, d.name || p.command || "a process");
  name.disabled = !d.name;
  if (d.name) name.setAttribute("aria-label", `${d.name}: show its graphs`);
  say(process, `${p.command || "process"} ${p.pid}`);
  say(ports, d.ports.map((q) => (d.ports.length > 1 ? q.num + " " : "") + q.state.replace("PORT_", "").toLowerCase() + (q.netdev ? " on " + q.netdev : "") + (q.mtu_bytes ? ", MTU " + q.mtu_bytes : "")).join("; "));
  Graph.spark(spark, d.spark_bytes_per_second);
  say(rate, d.gone || p.gone || !d.rates ? "" : format.rate(d.rates.sent_bytes + d.rates.received_bytes));
  let text = "";
  const wrong = (d.problems ?? []).map((e) => ({ text: e.text, list: state.explained[e.error] ?? [] }));
  if (p.error && !d.name) wrong.push({ text: "It cannot be read: " + p.error, list: state.explained[p.error] ?? [] });
  else if (p.gone) text = "The process has ended.";
  else if (d.gone) text = "The device was closed.";
  else if (d.qps_total === 0) text = "No queue pairs.";
  else if (d.problems_left_out) text = `${format.exact(d.problems_left_out)} more problems.`;
  if (d.injected_faults) text = (text && text + " ") + "Injected faults: " + d.injected_faults; // perhaps the reason
  say(note, text);
  note.hidden = !text;
  showProblems(problems, wrong, "failed");
  problems.hidden = wrong.length === 0;
}

function updateDevice(group, d) {
  if (d.id === "heads") return;
  group.classList.toggle("gone", Boolean(d.gone || d.process.gone));
  const rows = [...d.qps].sort(compare);
  each(group, [{ id: "group", of: d }, ...rows], (r) => r.of ? makeGroup(r) : makeRow(r), (tr, r) => r.of ? updateGroup(tr, r.of) : updateRow(tr, r));
}

function makeRow(q) {
  const row = element("tr");
  row.setAttribute("role", "row"); // also where the styles make it no table
  for (const [name, css] of columns) {
    const td = element("td", css);
    td.dataset.label = name;
    td.setAttribute("role", "cell");
    row.append(td);
  }
  const open = element("button", "open");
  open.type = "button";
  open.tabIndex = -1;
  row.cells[0].append(open);
  row.addEventListener("click", () => openQP(q.id));
  return row;
}

// peerOf names a peer; 0 is no number of a queue pair that has one, as with transports that have none.
const peerOf = (q, between) => q.peer + (q.peer_qpn ? `${between}QP ${q.peer_qpn}` : "");

function updateRow(row, q) {
  const open = row.cells[0].firstChild;
  say(open, String(q.qpn));
  open.setAttribute("aria-label", `Queue pair ${q.qpn}, ${q.state}${q.peer ? ", peer " + q.peer : ""}: open`);
  const again = q.counts.retransmitted_packets;
  const texts = [null, q.type, q.gone ? "gone" : q.state, q.peer ? peerOf(q, " ") : "-", format.rate(q.rates.sent_bytes), format.rate(q.rates.received_bytes),
    format.perSecond(q.rates.sent_messages + q.rates.received_messages), q.rtt_ns ? format.time(q.rtt_ns) : "-", q.window_bytes ? format.bytes(q.window_bytes) : "-",
    format.bytes(q.in_flight_bytes), format.count(again), format.count(q.counts.late_acks)];
  texts.forEach((t, i) => { if (t !== null) say(row.cells[i], t); });
  row.cells[2].className = "state " + (q.gone ? "" : q.state.toLowerCase());
  row.cells[10].className = "num" + (q.rates.retransmitted_packets > 0 ? " warn" : "");
  row.className = q.gone ? "gone" : q.failed ? "has-failed" : "";
}

const rowButtons = () => Array.from(document.querySelectorAll("#list .open"));

$("list").addEventListener("keydown", (e) => {
  const at = document.activeElement;
  if (!at?.classList.contains("open")) return;
  const all = rowButtons(), i = all.indexOf(at);
  const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: all.length - 1 }[e.key];
  if (to === undefined || e.altKey || e.ctrlKey || e.metaKey) return;
  e.preventDefault();
  const next = all[Math.max(0, Math.min(to, all.length - 1))];
  at.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
});

$("list").addEventListener("focusin", (e) => { // the Tab key comes back to where it left
  if (!e.target.classList.contains("open")) return;
  for (const b of rowButtons()) b.tabIndex = b === e.target ? 0 : -1;
});

function setScope(id) {
  scope = id;
  $("all").hidden = id === 0;
  poll();
}

$("span").addEventListener("change", () => {
  Graph.span = Number($("span").value) * 1000;
  for (const g of [...mainGraphs, ...detailGraphs]) if (g.series) g.draw();
  poll();
});

$("map-of").addEventListener("toggle", () => { if ($("map-of").open && state) map.show(state); });

$("all").addEventListener("click", () => {
  setScope(0);
  $("graphs-of").scrollIntoView({ block: "nearest" });
});

// The details of a queue pair.

let opener = null;

function openQP(id) {
  opener = document.querySelector(`#list tr[data-id="${id}"] .open`);
  opened = id;
  let found = null;
  for (const p of state.processes) for (const d of p.devices) found ??= d.qps.find((q) => q.id === id);
  if (found) $("detail-title").textContent = `Queue pair ${found.qpn}`;
  clearLadder();
  detailLatency.show({ bounds_ns: [], operations: [] });
  for (const g of detailGraphs) g.show({ ago_ms: [], over_ms: [], sent_bytes: [], received_bytes: [], rtt_ns: [], retries: [], unexpected: [], late: [], retransmits: [] });
  if (found) showFacts(found, false);
  $("detail").showModal();
  $("detail").scrollTop = 0;
  poll();
  pollLadder();
}

$("why-close").addEventListener("click", () => $("why").close());
$("why").addEventListener("click", (e) => { if (e.target === $("why")) $("why").close(); });

$("close").addEventListener("click", () => $("detail").close());
$("detail").addEventListener("click", (e) => { if (e.target === $("detail")) $("detail").close(); });
$("detail").addEventListener("close", () => {
  if ($("detail").open) return; // once more, before this event came
  opened = 0;
  clearTimeout(ladderTimer);
  // This event comes late: the focus may be elsewhere by then.
  if (opener?.isConnected && document.activeElement === document.body) opener.focus();
  poll();
});

function showFacts(q, gone) {
  facts($("facts"), [["state", gone ? "gone, last " + q.state : q.state], ["type", q.type], ["peer", q.peer ? peerOf(q, ", ") : "none"],
    ["number", `${q.qpn} (0x${q.qpn.toString(16).padStart(6, "0")})`],
    ["window", q.window_bytes ? format.bytes(q.window_bytes) : "none"], ["in flight", format.bytes(q.in_flight_bytes)],
    ["congestion control", q.congestion_control || "of the transport below"],
    ["rate allowed", q.rate_bps ? `${format.count(q.rate_bps)} b/s${q.alpha ? `, alpha ${q.alpha.toFixed(3)}` : ""}` : "not limited"],
    ["round trip aimed at", q.target_delay_ns ? format.time(q.target_delay_ns) : "none"],
    ["round trip", q.rtt_ns ? `${format.time(q.rtt_ns)} ± ${format.time(q.rtt_variation_ns)}` : "not measured"],
    ["send queue", format.exact(q.send_queue)], ["receive queue", format.exact(q.receive_queue)],
    ["sent", `${format.count(q.counts.sent_messages)} messages, ${format.bytes(q.counts.sent_bytes)}`],
    ["received", `${format.count(q.counts.received_messages)} messages, ${format.bytes(q.counts.received_bytes)}`]]);
  const injected = q.injected_faults ? [["injected faults", q.injected_faults, "warn"]] : [];
  const c = q.counts;
  facts($("causes"), [["packets retransmitted", c.retransmitted_packets], ["acknowledgement timeouts", c.timeouts], ["acknowledgements that were only late: nothing was lost", c.late_acks],
    ["NAKs: the peer missed a packet", c.sequence_errors],
    ["missing responses", c.lost_responses], ["RNR NAKs received: no receive at the peer", c.rnr_naks_received], ["RNR NAKs sent: no receive here", c.rnr_naks_sent],
    ["duplicate requests of the peer", c.duplicates], ["requests out of sequence", c.out_of_sequence], ["packets received that switches had marked (ECN)", c.ecn_marked],
    ["congestion notifications sent (CNP)", c.cnps_sent], ["congestion notifications received", c.cnps_received]].map(([k, n]) => [k, format.exact(n), n ? "warn" : "zero"]).concat(injected));
}

// showDetail shows what is known of the queue pair that is open; null: nothing any more.
function showDetail(s) {
  const gone = !s || s.gone;
  $("detail-gone").hidden = !gone;
  if (!s?.qp) return;
  say($("detail-title"), s.label[0].toUpperCase() + s.label.slice(1));
  $("detail-failed").hidden = !s.qp.failed;
  say($("detail-failed"), s.qp.failed ? "It failed: " + s.qp.failed : "");
  each($("means"), (s.qp.failed && state.explained[s.qp.failed] || []).map((e) => ({ ...e, id: e.title })), (e) => {
    const box = element("details");
    box.setAttribute("aria-label", e.title);
    box.append(element("summary", "", "What it means: " + e.title), ...explanations([e]).slice(1));
    return box;
  }, () => {});
  showFacts(s.qp, gone);
  for (const g of detailGraphs) g.show(s.series);
  detailLatency.show(s.latency);
}

// The ladder. Its styles become a style sheet of the shadow tree, as the policy of the page forbids them in the text.

const shadow = $("ladder").attachShadow({ mode: "open" });
let ladderTimer = 0, ladderHeld = false, ladderText = "", ladderBusy = false;

function clearLadder() {
  clearTimeout(ladderTimer);
  shadow.replaceChildren();
  $("ladder-ends").replaceChildren();
  $("ladder-ends").hidden = true;
  ladderText = "";
  ladderHeld = false;
  $("ladder-save").disabled = true;
  holdLadder(false);
  say($("ladder-note"), "Waiting for packets. They are kept from now on, their headers only.");
}

function holdLadder(on) {
  ladderHeld = on;
  $("ladder-pause").setAttribute("aria-pressed", on);
  say($("ladder-pause"), on ? "Go on" : "Hold");
}

$("ladder-pause").addEventListener("click", () => {
  holdLadder(!ladderHeld);
  if (!ladderHeld) pollLadder();
});

$("ladder-save").addEventListener("click", () => {
  const a = element("a");
  a.href = URL.createObjectURL(new Blob([ladderText], { type: "image/svg+xml" }));
  a.download = $("detail-title").textContent.toLowerCase().replace(/[^a-z0-9.]+/g, "-") + ".svg";
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
});

function showLadder(l) {
  const drawn = `${format.exact(l.packets)} of ${format.exact(l.seen)} packets since watching began, headers only.`;
  say($("ladder-note"), l.svg ? [drawn, ...l.notes].join(" ") : ladderText ? "No packet since watching began again. These are the last packets that were seen before."
    : "No packet yet. They are kept from now on, their headers only.");
  showProblems($("ladder-ends"), (l.endings ?? []).map((e) => ({ text: e.text, list: e.errors ?? [] })), "note");
  $("ladder-ends").hidden = !l.endings?.length;
  if (!l.svg || l.svg === ladderText) return;
  ladderText = l.svg;
  const styles = /<style>([^<]*)<\/style>/;
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(l.svg.match(styles)?.[1] ?? "");
  const svg = document.importNode(new DOMParser().parseFromString(l.svg.replace(styles, ""), "image/svg+xml").documentElement, true);
  svg.setAttribute("role", "list"); // of packets, which have their titles
  svg.setAttribute("aria-label", drawn);
  for (const row of svg.querySelectorAll(".row")) {
    row.setAttribute("role", "listitem");
    row.setAttribute("aria-label", row.querySelector("title")?.textContent.replaceAll("\n", "; ") ?? row.textContent);
    for (const part of row.children) part.setAttribute("aria-hidden", "true");
  }
  shadow.adoptedStyleSheets = [sheet];
  shadow.replaceChildren(svg);
  $("ladder-save").disabled = false;
}

async function pollLadder() {
  clearTimeout(ladderTimer);
  const id = opened;
  if (!id || ladderHeld || ladderBusy || document.hidden) return;
  ladderBusy = true;
  let gone = false;
  try {
    const l = await ask("api/ladder", { id, width: $("ladder").clientWidth });
    if (id === opened && !ladderHeld) showLadder(l);
  } catch (e) {
    gone = e.status === 404;
    if (id === opened) {
      const why = e instanceof Refused ? e.message : "the connection to the server is lost";
      say($("ladder-note"), (ladderText ? "These are the last packets that were seen: " : "No packets: ") + why + ".");
    }
  }
  ladderBusy = false;
  if (id !== opened) pollLadder(); // another one was opened meanwhile
  else if (!gone) ladderTimer = setTimeout(pollLadder, ladderEvery);
}

// Asking the server.

let timer = 0, asking = false, again = false;

function status(css, text) {
  $("live").className = css;
  say($("live-text"), text);
}

function alarm(text) {
  $("alert").hidden = !text;
  say($("alert"), text);
}

async function poll() {
  clearTimeout(timer);
  if (asking) {
    again = true;
    return;
  }
  if (document.hidden || paused) {
    status("held", paused ? "Paused" : "Hidden");
    return;
  }
  asking = true;
  again = false;
  let wait = every;
  try {
    const s = await ask("api/state?" + new URLSearchParams({ scope: opened || scope, filter: $("filter").value, span: $("span").value }));
    failures = 0;
    alarm("");
    status("on", "Live");
    show(s);
  } catch (e) {
    failures++;
    wait = Math.min(1000 * 2 ** failures, 15000);
    status("off", "No data");
    if (e instanceof Refused) alarm(e.message[0].toUpperCase() + e.message.slice(1) + ".");
    else alarm(`The connection to ramjet dash is lost${state ? "; what is below is old" : ""}. Trying again in ${Math.round(wait / 1000)} s: does it still run?`);
  }
  asking = false;
  timer = setTimeout(poll, again ? 0 : wait);
}

document.addEventListener("visibilitychange", () => {
  poll();
  pollLadder();
});

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", paused);
  say($("pause"), paused ? "Go on" : "Pause");
  poll();
});

let typing = 0;
$("filter").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(poll, 200);
});
$("order").addEventListener("change", () => {
  const column = Number($("order").value);
  sortBy(column, columns[column][1].startsWith("num") && column !== 0);
});
sortBy(0, false);

addEventListener("hashchange", () => location.reload()); // another key

poll();
