// SPDX-License-Identifier: Apache-2.0
"use strict";

// Graph draws lines over the last two minutes as SVG.
class Graph {
  static span = 120000; // ms
  static pause = 5000; // ms: a longer sample is of a time in which nobody watched
  static #ns = "http://www.w3.org/2000/svg";

  // lines have a name, a class of the styles, and a field of the series.
  constructor(parent, title, lines, write) {
    this.lines = lines;
    this.write = write;
    this.title = title;
    this.root = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const name = document.createElement("span");
    name.className = "graph-title";
    name.textContent = title;
    caption.append(name);
    this.values = lines.map((l) => {
      const entry = document.createElement("span");
      entry.className = "legend " + l.class;
      entry.append(l.name ? l.name + " " : "");
      const value = document.createElement("b");
      entry.append(value);
      caption.append(entry);
      return value;
    });
    this.svg = Graph.#make("svg", { role: "img" });
    this.root.append(caption, this.svg);
    parent.append(this.root);
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  static #make(name, attributes, text) {
    const e = document.createElementNS(Graph.#ns, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  }

  // nice is the next of 1, 2 or 5 times a power of ten.
  static nice(n) {
    if (n <= 0) return 1;
    const p = 10 ** Math.floor(Math.log10(n));
    return [1, 2, 5, 10].find((m) => m * p >= n * 0.9999) * p;
  }

  show(series) {
    this.series = series;
    this.draw();
  }

  draw() {
    const width = this.root.clientWidth - 24, height = 132, left = 58, right = 6, top = 8, bottom = 20;
    if (!this.series || width <= left + right) return;
    const { ago_ms: ago, over_ms: over } = this.series;
    const shown = ago.findIndex((ms) => ms <= Graph.span), first = shown < 0 ? ago.length : shown; // the first sample in the picture
    let most = 0;
    for (const l of this.lines) for (const v of this.series[l.field].slice(first)) most = Math.max(most, v);
    const limit = Graph.nice(most);
    const x = (ms) => width - right - (width - left - right) * ms / Graph.span;
    const y = (v) => height - bottom - (height - top - bottom) * v / limit;
    const parts = [];
    for (const share of most > 0 ? [0, 0.5, 1] : [0]) {
      parts.push(Graph.#make("line", { class: "grid", x1: left, x2: width - right, y1: y(limit * share), y2: y(limit * share) }),
        Graph.#make("text", { class: "axis", x: left - 6, y: y(limit * share) + 4, "text-anchor": "end" }, share ? this.write(limit * share).replace(/(\.\d*[1-9])0+|\.0+/, "$1") : "0"));
    }
    for (const [ms, text, anchor] of [[120000, "−2 min", "start"], [60000, "−1 min", "middle"], [0, "now", "end"]]) {
      parts.push(Graph.#make("text", { class: "axis", x: x(ms), y: height - 4, "text-anchor": anchor }, text));
    }
    // Where nobody watched only the mean is known: a line of its own, on a ground that says why.
    const pauses = ago.flatMap((ms, i) => i >= first && over[i] >= Graph.pause ? [{ i, ms, from: Math.min(ms + over[i], Graph.span) }] : []);
    for (const p of pauses) {
      const [a, b] = [x(p.from), x(p.ms)];
      parts.push(Graph.#make("rect", { class: "unwatched", x: a, y: top, width: b - a, height: height - top - bottom }));
      if (b - a > 76) parts.push(Graph.#make("text", { class: "axis", x: (a + b) / 2, y: top + 11, "text-anchor": "middle" }, "not watched"));
    }
    let any = false;
    for (const l of this.lines) {
      const runs = []; // a pause in the samples is one in the line
      ago.forEach((ms, i) => {
        const v = this.series[l.field][i];
        if (i < first || l.gaps && !v) return;
        const run = runs.at(-1);
        if (run && run.at(-1).i === i - 1 && over[i] < Graph.pause) run.push({ i, ms, v });
        else runs.push([{ i, ms, v }]);
      });
      if (!l.gaps) for (const p of pauses) parts.push(Graph.#make("line", { class: "line mean " + l.class, x1: x(p.from), x2: x(p.ms), y1: y(this.series[l.field][p.i]), y2: y(this.series[l.field][p.i]) }));
      for (const run of runs) {
        any = true;
        const points = run.map((p) => `${x(p.ms).toFixed(1)} ${y(p.v).toFixed(1)}`).join("L");
        if (run.length > 1) {
          if (l.fill) parts.push(Graph.#make("path", { class: "area " + l.class, d: `M${x(run[0].ms).toFixed(1)} ${y(0)}L${points}L${x(run.at(-1).ms).toFixed(1)} ${y(0)}z` }));
          parts.push(Graph.#make("path", { class: "line " + l.class, d: "M" + points }));
        } else {
          parts.push(Graph.#make("circle", { class: "point " + l.class, cx: x(run[0].ms), cy: y(run[0].v), r: 2 }));
        }
      }
    }
    if (!any) parts.push(Graph.#make("text", { class: "axis", x: (left + width - right) / 2, y: height / 2, "text-anchor": "middle" }, "nothing measured"));
    const said = this.lines.map((l, n) => {
      const now = this.series[l.field].at(-1) ?? 0;
      this.values[n].textContent = ago.length || !l.gaps ? this.write(now) : "-";
      return `${l.name || this.title} ${this.write(now)}`;
    });
    this.svg.setAttribute("aria-label", `${this.title}, last two minutes. Now: ${said.join(", ")}. Highest: ${this.write(most)}.`);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.replaceChildren(...parts);
  }

  // spark returns a small line without axes, for what is on it already as a number.
  static spark(svg, values) {
    const width = 96, height = 22, most = Math.max(1, ...values);
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("aria-hidden", "true");
    const points = values.map((v, i) => `${(width - (values.length - 1 - i) * width / 59).toFixed(1)} ${(height - 2 - (height - 4) * v / most).toFixed(1)}`);
    svg.replaceChildren(...values.length > 1 ? [Graph.#make("path", { class: "line sent", d: "M" + points.join("L") })] : []);
  }
}
