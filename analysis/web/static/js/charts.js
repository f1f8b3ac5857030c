// How do the ratios run over time?  One chart a metric: each window of each candidate, the mean so far, the margin band.

import { h } from "./dom.js";

const CHARTS = [["tpot", "TPOT"], ["ttft", "TTFT"]];
const DASHES = [[], [6, 3], [2, 3], [9, 3, 2, 3], [4, 2], [1, 3]];
const CHARTED = Symbol("charts");
const HEIGHT = 190;
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Sorted by name: a candidate keeps its colour when its rank changes. */
const arms = (ranking) => [...ranking.candidates].sort((a, b) => (a.name < b.name ? -1 : 1));

/** Two series a candidate on one time axis: each window's change, and the running geometric mean of them. */
function columns(ranking, metric) {
  const times = new Set();
  for (const c of arms(ranking)) for (const [at] of c.series?.[metric] ?? []) times.add(at);
  const xs = [...times].sort((a, b) => a - b);
  const percent = (log) => Math.expm1(log) * 100;
  const ys = arms(ranking).flatMap((c) => {
    const at = new Map(c.series?.[metric] ?? []);
    let sum = 0;
    let n = 0;
    const logs = xs.map((x) => { const y = at.get(x); return typeof y === "number" && y > 0 ? Math.log(y) : null; });
    const means = logs.map((y) => { if (y === null) return null; sum += y; n += 1; return percent(sum / n); });
    return [logs.map((y) => (y === null ? null : percent(y))), means];
  });
  return [xs, ...ys];
}

function band(margin) {
  return (u) => {
    const top = u.valToPos(margin * 100, "y", true);
    const bottom = u.valToPos((1 / (1 + margin) - 1) * 100, "y", true);
    const one = u.valToPos(0, "y", true);
    u.ctx.save();
    u.ctx.fillStyle = style("--band");
    u.ctx.fillRect(u.bbox.left, top, u.bbox.width, bottom - top);
    u.ctx.strokeStyle = style("--dim");
    u.ctx.lineWidth = 1;
    u.ctx.beginPath();
    u.ctx.moveTo(u.bbox.left, one);
    u.ctx.lineTo(u.bbox.left + u.bbox.width, one);
    u.ctx.stroke();
    u.ctx.restore();
  };
}

function clock(seconds) {
  return seconds < 600 ? `${Math.round(seconds)} s` : seconds < 36000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function options(ranking, width) {
  const font = `11px ${style("--sans")}`;
  const axis = { stroke: style("--dim"), font, grid: { stroke: style("--line"), width: 1 }, ticks: { show: false } };
  const margin = (ranking.margin ?? 0) * 100;
  return {
    width, height: HEIGHT, padding: [10, 10, 0, 0], legend: { show: false }, cursor: { points: { size: 5 }, drag: { x: true, y: false } },
    scales: { x: { time: false }, y: { range: (u, low, high) => { const pad = Math.max(2, (high - low) * 0.1); return [Math.min(low ?? 0, -margin * 1.5) - pad, Math.max(high ?? 0, margin * 1.5) + pad]; } } },
    axes: [{ ...axis, size: 26, values: (u, at) => at.map(clock) }, { ...axis, size: 56, values: (u, at) => at.map((v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Math.abs(v)} %`) }],
    series: [{}, ...arms(ranking).flatMap((c, i) => {
      const colour = style(`--c${i % 6}`);
      const windows = { label: `${c.name}, window`, stroke: `${colour}70`, paths: () => null, points: { show: true, size: 3.5, fill: `${colour}70`, width: 0 } };
      return [windows, { label: c.name, stroke: colour, width: 2, dash: DASHES[i % 6], spanGaps: true, points: { show: (u) => (u.data[0]?.length ?? 0) < 2, size: 4 } }];
    })],
    hooks: { drawAxes: [band(ranking.margin ?? 0)] },
  };
}

function build(section, slot, ranking) {
  for (const chart of section.charts?.list ?? []) chart.plot.destroy();
  const list = [];
  slot.replaceChildren(h("div", { class: "grid" }, CHARTS.map(([metric, name]) => {
    const host = h("figure", { class: "chart", role: "img", "aria-label": `${name} of each candidate against control, in per cent: each window and the mean so far` });
    const note = h("p", { class: "note" }, "The first full window will appear here.");
    list.push({ metric, host, note });
    return h("div", { class: "w6 m6 panel" }, h("h3", {}, `${name} vs control over time`),
      h("ul", { class: "legend" }, arms(ranking).map((c, i) => h("li", {}, h("span", { class: `key k${i % 6}`, "aria-hidden": "true" }), c.name)), h("li", {}, "dots: single windows, line: mean so far")), host, note);
  })));
  for (const entry of list) entry.plot = new window.uPlot(options(ranking, Math.max(200, entry.host.clientWidth - 16)), columns(ranking, entry.metric), entry.host);
  return { list, names: JSON.stringify([arms(ranking).map((c) => c.name), ranking.margin]) };
}

export function drawCharts(section, slot, ranking) {
  if (typeof window.uPlot !== "function") return;
  if (slot.shadowlanePrint !== CHARTED) {
    for (const chart of section.charts?.list ?? []) chart.plot.destroy();
    section.charts = undefined;
    slot.shadowlanePrint = CHARTED;
  }
  const names = JSON.stringify([arms(ranking).map((c) => c.name), ranking.margin]);
  section.latest = ranking;
  if (!section.watching) {
    section.watching = true;
    window.addEventListener("shadowlane-theme", () => { if (section.charts) section.charts = build(section, slot, section.latest); });
    new ResizeObserver(() => { for (const entry of section.charts?.list ?? []) entry.plot.setSize({ width: Math.max(200, entry.host.clientWidth - 16), height: HEIGHT }); }).observe(slot);
  }
  if (!section.charts || section.charts.names !== names) section.charts = build(section, slot, ranking);
  for (const entry of section.charts.list) {
    const data = columns(ranking, entry.metric);
    entry.note.hidden = data[0].length > 0;
    const print = JSON.stringify([data[0].length, data.map((column) => column[column.length - 1])]);
    if (print !== entry.print) entry.plot.setData(data);
    entry.print = print;
  }
}
