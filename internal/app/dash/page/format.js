// SPDX-License-Identifier: Apache-2.0
"use strict";

// format writes numbers for people as package units does: whole and exact below 10,000, or three digits
// and a prefix of 1000.
const format = (() => {
  const none = "-";
  const below = (n) => n > 0 && n < 0.005 ? "<0.01" : n < 0 && n > -0.005 ? ">-0.01" : n.toFixed(2);
  const digits = (n) => n.toFixed(Math.abs(n) >= 100 ? 0 : Math.abs(n) >= 10 ? 1 : 2);
  const prefixed = (n, prefixes) => {
    let i = 0;
    for (n = Number(n.toPrecision(3)); Math.abs(n) >= 1000 && i < prefixes.length - 1; i++) n = Number((n / 1000).toPrecision(3));
    return [digits(n), prefixes[i]];
  };
  const scaled = (n) => {
    if (!Number.isFinite(n)) return [none, ""];
    const whole = Math.sign(n) * Math.round(Math.abs(n));
    if (Math.abs(whole) < 10000 && (whole === n || Math.abs(n) >= 99.95)) return [String(whole || 0), ""];
    return Math.abs(n) < 1 ? [below(n), ""] : prefixed(n, ["", "k", "M", "G", "T", "P", "E"]);
  };
  const unit = ([text, prefix], name) => text === none ? none : text + " " + prefix + name;
  const count = (n) => scaled(n).join("");
  const minutes = (s) => {
    const big = s >= 3600 ? [3600, "h", 60, "min"] : [60, "min", 1, "s"];
    const rest = Math.floor(s % big[0] / big[2]);
    return `${exact(Math.floor(s / big[0]))} ${big[1]}` + (rest ? ` ${rest} ${big[3]}` : "");
  };
  const time = (ns) => {
    const short = Number(ns.toPrecision(3));
    if (!Number.isFinite(ns)) return none;
    if (ns === 0) return "0 s";
    if (ns < 0) return "-" + time(-ns);
    if (ns < 1) return below(ns) + " ns";
    if (short < 1e3 && Number.isInteger(short)) return short + " ns";
    if (ns >= 3599.5e9) return minutes(Math.round(ns / 60e9) * 60);
    if (short >= 60e9) return minutes(Math.round(ns / 1e9));
    return prefixed(ns, ["ns", "µs", "ms", "s"]).join(" ");
  };
  const exact = (n) => n.toLocaleString("en");
  return {
    count,
    exact,
    time,
    bytes: (n) => unit(scaled(n), "B"),
    rate: (n) => unit(scaled(n), "B/s"),
    perSecond: (n) => Number.isFinite(n) ? count(n) + "/s" : none,
  };
})();
