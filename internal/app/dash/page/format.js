// SPDX-License-Identifier: Apache-2.0
"use strict";

// format writes numbers for people: powers of 1000, three digits.
const format = (() => {
  const short = (n, units, step) => {
    let i = 0;
    while (Math.abs(n) >= 999.5 && i < units.length - 1) { n /= step; i++; }
    const digits = i === 0 && Number.isInteger(n) ? 0 : Math.abs(n) < 9.995 ? 2 : Math.abs(n) < 99.95 ? 1 : 0;
    return [n === 0 ? "0" : n.toFixed(digits), units[i]];
  };
  const join = ([n, unit]) => unit ? n + " " + unit : n;
  return {
    count: (n) => short(n, ["", "k", "M", "G", "T", "P"], 1000).join(""),
    bytes: (n) => join(short(n, ["B", "kB", "MB", "GB", "TB", "PB"], 1000)),
    rate: (n) => join(short(n, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"], 1000)),
    perSecond: (n) => (n < 9.95 ? Math.round(n * 10) / 10 : short(Math.round(n), ["", "k", "M", "G"], 1000).join("")) + "/s",
    time: (ns) => ns ? join(short(ns, ["ns", "µs", "ms", "s"], 1000)) : "–",
    exact: (n) => n.toLocaleString("en"),
  };
})();
