// SPDX-License-Identifier: Apache-2.0
"use strict";

// Graph draws lines over the last seconds or minutes as SVG, and says what was when under the pointer.
class Graph {
  static span = 120000; // ms
  static pause = 5; // times the usual length of a sample: a longer one is of a time in which nobody watched
  static #ns = "http://www.w3.org/2000/svg";

  // lines have a name, a class of the styles, and a field of the series.
  constructor(parent, title, lines, write) {
    this.lines = lines;
    this.write = write;
    this.title = title;
    this.root = document.createElement("figure");
    this.root.setAttribute("aria-label", title);
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
    this.svg = Graph.#make("svg", { role: "img", tabindex: "0" });
    this.tip = document.createElement("p");
    this.tip.className = "tip";
    this.tip.setAttribute("role", "status");
    this.tip.hidden = true;
    this.root.append(caption, this.svg, this.tip);
    this.at = -1; // the sample that is pointed at
    this.svg.addEventListener("pointermove", (e) => this.#point(this.#nearest(e.clientX - this.svg.getBoundingClientRect().left)));
    this.svg.addEventListener("pointerleave", () => this.#point(-1));
    this.svg.addEventListener("blur", () => this.#point(-1));
    this.svg.addEventListener("keydown", (e) => this.#key(e));
    parent.append(this.root);
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  static #make(name, attributes, text) {
    const e = document.createElementNS(Graph.#ns, name);
    for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
    if (text !== undefined) e.textContent = text;
    return e;
  }

  // #nearest is the sample nearest to a place, if there is one.
  #nearest(x) {
    if (!this.place) return -1;
    let best = -1, least = Infinity;
    this.series.ago_ms.forEach((ms, i) => {
      const d = Math.abs(this.place(ms) - x);
      if (ms <= Graph.span && d < least) [best, least] = [i, d];
    });
    return best;
  }

  #key(e) {
    const first = this.series?.ago_ms.findIndex((ms) => ms <= Graph.span) ?? -1, last = (this.series?.ago_ms.length ?? 0) - 1;
    if (first < 0) return;
    const from = this.at < 0 ? last + 1 : this.at;
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: first, End: last, Escape: -1 }[e.key];
    if (to === undefined || e.key === "Escape" && this.at < 0) return;
    e.preventDefault();
    e.stopPropagation();
    this.#point(to < 0 ? -1 : Math.max(first, Math.min(to, last)));
  }

  // #point shows the values of a sample; -1: none.
  #point(i) {
    this.at = i;
    if (i >= 0) this.when = this.series.ago_ms[i];
    this.#mark();
  }

  #mark() {
    const shown = this.at >= 0 && this.at < this.series.ago_ms.length;
    this.tip.hidden = !shown;
    this.svg.querySelector(".cursor")?.remove();
    if (!shown) return;
    const ms = this.series.ago_ms[this.at], x = this.place(ms);
    this.svg.append(Graph.#make("line", { class: "cursor", x1: x, x2: x, y1: 8, y2: this.height - 20 }));
    const clock = new Date(Date.now() - ms).toLocaleTimeString("en-GB");
    const text = `${clock}, ${format.time(Math.round(ms / 1000) * 1e9)} ago: ` + this.lines.map((l) => `${l.name || this.title} ${this.write(this.series[l.field][this.at])}`).join(", ");
    if (this.tip.textContent !== text) this.tip.textContent = text;
    const room = this.root.clientWidth - this.tip.offsetWidth - 8;
    this.tip.style.left = Math.max(4, Math.min(x + 12 - this.tip.offsetWidth / 2, room)) + "px";
  }

  // nice is the next of 1, 2 or 5 times a power of ten.
  static nice(n) {
    if (n <= 0) return 1;
    const p = 10 ** Math.floor(Math.log10(n));
    return [1, 2, 5, 10].find((m) => m * p >= n * 0.9999) * p;
  }

  show(series) {
    this.series = series;
    if (this.at >= 0) this.at = series.ago_ms.findLastIndex((ms) => ms >= this.when); // the pointer stays, time goes on
    this.draw();
  }

  draw() {
    const width = this.root.clientWidth - 24, height = 100, left = 58, right = 6, top = 8, bottom = 20;
    if (!this.series || width <= left + right) return;
    const { ago_ms: ago, over_ms: over } = this.series;
    const shown = ago.findIndex((ms) => ms <= Graph.span), first = shown < 0 ? ago.length : shown; // the first sample in the picture
    let most = 0;
    for (const l of this.lines) for (const v of this.series[l.field].slice(first)) most = Math.max(most, v);
    const limit = Graph.nice(most);
    const x = (ms) => width - right - (width - left - right) * ms / Graph.span;
    [this.place, this.height] = [x, height];
    const usual = this.series.every_ms ?? 1000, pause = Graph.pause * usual;
    const y = (v) => height - bottom - (height - top - bottom) * v / limit;
    const parts = [];
    for (const share of most > 0 ? [0, 0.5, 1] : [0]) {
      parts.push(Graph.#make("line", { class: "grid", x1: left, x2: width - right, y1: y(limit * share), y2: y(limit * share) }),
        Graph.#make("text", { class: "axis", x: left - 6, y: y(limit * share) + 4, "text-anchor": "end" }, share ? this.write(limit * share).replace(/(\.\d*[1-9])0+|\.0+/, "$1") : "0"));
    }
    const before = (ms) => "−" + format.time(ms * 1e6).replace(/\.0+ /, " ");
    for (const [ms, text, anchor] of [[Graph.span, before(Graph.span), "start"], [Graph.span / 2, before(Graph.span / 2), "middle"], [0, "now", "end"]]) {
      parts.push(Graph.#make("text", { class: "axis", x: x(ms), y: height - 4, "text-anchor": anchor }, text));
    }
    // Where nobody watched only the mean is known: a line of its own, on a ground that says why.
    const pauses = ago.flatMap((ms, i) => i >= first && over[i] >= pause ? [{ i, ms, from: Math.min(ms + over[i], Graph.span) }] : []);
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
        if (run && run.at(-1).i === i - 1 && over[i] < pause) run.push({ i, ms, v });
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
    this.svg.setAttribute("aria-label", `${this.title}, last ${format.time(Graph.span * 1e6)}. Now: ${said.join(", ")}. Highest: ${this.write(most)}. Arrow keys say what was when.`);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    for (const p of parts) p.setAttribute("aria-hidden", "true"); // the label says it
    this.svg.replaceChildren(...parts);
    this.#mark();
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

// Histogram draws how long work requests of an operation took: bars over buckets of time.
class Histogram {
  static #ns = "http://www.w3.org/2000/svg";

  constructor(parent, title) {
    this.title = title;
    this.root = document.createElement("figure");
    this.root.setAttribute("aria-label", title);
    this.root.className = "histogram";
    const caption = document.createElement("figcaption"), name = document.createElement("span");
    name.className = "graph-title";
    name.textContent = title;
    this.select = document.createElement("select");
    this.select.setAttribute("aria-label", title + ": operation");
    this.select.addEventListener("change", () => this.draw());
    caption.append(name, this.select);
    this.svg = document.createElementNS(Histogram.#ns, "svg");
    this.svg.setAttribute("role", "img");
    this.root.append(caption, this.svg);
    parent.append(this.root);
    new ResizeObserver(() => this.draw()).observe(this.root);
  }

  // micros writes a time in microseconds.
  static micros(ns) {
    return `${(ns / 1000).toLocaleString("en", { maximumSignificantDigits: 3 })} µs`;
  }

  show(latency) {
    this.latency = latency;
    const names = latency.operations.map((o) => o.name);
    if (names.join() !== Array.from(this.select.options, (o) => o.value).join()) {
      const was = this.select.value;
      this.select.replaceChildren(...names.map((n) => new Option(n, n)));
      if (names.includes(was)) this.select.value = was;
    }
    this.select.hidden = names.length === 0;
    this.draw();
  }

  // quantile is the bound of the bucket in which a share of the samples ends; null: the last one, which has none.
  static quantile(operation, bounds, share) {
    let sum = 0;
    const i = operation.buckets.findIndex((n) => (sum += n) >= share * operation.samples);
    return bounds[i] ?? null;
  }

  draw() {
    const width = this.root.clientWidth - 24, height = 100, left = 58, right = 6, top = 24, bottom = 20;
    if (!this.latency || width <= left + right) return;
    const make = (name, attributes, text) => {
      const e = document.createElementNS(Histogram.#ns, name);
      for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
      if (text !== undefined) e.textContent = text;
      return e;
    };
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    const bounds = this.latency.bounds_ns, operation = this.latency.operations.find((o) => o.name === this.select.value);
    if (!operation) {
      this.svg.setAttribute("aria-label", `${this.title}: nothing measured`);
      this.svg.replaceChildren(make("text", { class: "axis", x: (left + width - right) / 2, y: height / 2, "text-anchor": "middle" }, "nothing measured"));
      return;
    }
    const first = operation.buckets.findIndex((n) => n > 0), last = operation.buckets.findLastIndex((n) => n > 0);
    const from = Math.max(0, first - 1), to = Math.min(operation.buckets.length - 1, last + 1), step = (width - left - right) / (to - from + 1);
    const most = Math.max(...operation.buckets), limit = Graph.nice(most);
    const y = (n) => height - bottom - (height - top - bottom) * n / limit;
    const range = (i) => i >= bounds.length ? `more than ${Histogram.micros(bounds.at(-1))}` : `up to ${Histogram.micros(bounds[i])}`;
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      parts.push(make("line", { class: "grid", x1: left, x2: width - right, y1: y(limit * share), y2: y(limit * share) }),
        make("text", { class: "axis", x: left - 6, y: y(limit * share) + 4, "text-anchor": "end" }, limit * share % 1 ? "" : limit * share < 1000 ? String(limit * share) : format.count(limit * share)));
    }
    const every = Math.ceil(62 / step); // labels do not touch
    for (let i = from; i <= to; i++) {
      const n = operation.buckets[i], x = left + (i - from) * step;
      if (n) {
        const bar = make("rect", { class: "bar-box", x: x + 1, y: y(n), width: Math.max(1, step - 2), height: Math.max(1, height - bottom - y(n)) });
        bar.append(make("title", {}, `${range(i)}: ${format.exact(n)} samples`));
        parts.push(bar);
      }
      if (i < bounds.length && i < to && (i - from) % every === 0 && x + step + 22 < width) {
        parts.push(make("text", { class: "axis", x: x + step, y: height - 4, "text-anchor": "middle" }, Histogram.micros(bounds[i])));
      }
    }
    const at = (share) => {
      const bound = Histogram.quantile(operation, bounds, share);
      return bound === null ? `> ${Histogram.micros(bounds.at(-1))}` : `≤ ${Histogram.micros(bound)}`;
    };
    const said = `median ${at(0.5)}, 99 % ${at(0.99)}`;
    parts.push(make("text", { class: "axis", x: left, y: 11 }, said));
    const listed = operation.buckets.flatMap((n, i) => n ? [`${range(i)}: ${format.exact(n)}`] : []);
    this.svg.setAttribute("aria-label", `${this.title}, ${operation.name}, ${format.exact(operation.samples)} samples. ${said}, mean ${Histogram.micros(operation.mean_ns)}. By time: ${listed.join("; ")}.`);
    for (const p of parts) p.setAttribute("aria-hidden", "true"); // the label says it
    this.svg.replaceChildren(...parts);
  }
}
