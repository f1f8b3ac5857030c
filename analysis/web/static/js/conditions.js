// Under which conditions the arms run: load beside production's, what their GPUs do, and verdicts at equal content.

import { h } from "./dom.js";
import { change, count } from "./format.js";
import { Notes } from "./notes.js";
import { verdictBadge } from "./ranking.js";

const LATENCIES = [["itl", "ITL"], ["tpot", "TPOT"], ["e2e", "E2E"]];
const GIB = 2 ** 30;
const known = (value) => typeof value === "number";
const fixed = (value, digits) => (known(value) ? value.toFixed(digits) : "–");
const percent = (value) => (known(value) ? `${(value * 100).toFixed(0)} %` : "–");
const right = (name) => h("th", { scope: "col", class: "r" }, name);

/** Requests in flight of each arm and of one production engine; null before the first figures. */
export function loadPanel(ranking) {
  const load = ranking.load ?? {};
  const arms = Object.entries(load.arms ?? {});
  if (arms.length === 0) return null;
  const row = (name, mean) => h("tr", {}, h("th", { scope: "row" }, name), h("td", { class: "r" }, fixed(mean, 1)), h("td", { class: "r" }, load.production ? fixed(mean / load.production, 2) : "–"));
  return h("div", { class: "panel scroll" }, h("table", { class: "tight" },
    h("caption", {}, "Load", h("span", {}, "requests in flight, on average; control and production should be alike")),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Arm"), right("In flight"), right("Times production's"))),
    h("tbody", {}, arms.map(([name, mean]) => row(name, mean)), known(load.production) ? row("one production engine", load.production) : null)),
    known(load.rate) ? h("p", { class: "note" }, `Each conversation is copied ${load.rate.toFixed(2)} times on average, ${load.matched ? "so that the control is loaded as one production engine" : "as configured"}.`) : null);
}

function throttled(gpu) {
  if (!known(gpu.throttled)) return "–";
  if (!gpu.throttled) return "never";
  return [percent(gpu.throttled), Object.entries(gpu.throttling ?? {}).map(([why, share]) => h("div", { class: "ci" }, `${why} ${percent(share)}`))];
}

/** What the GPUs of each arm do; null without readings. */
export function gpuPanel(ranking) {
  const gpus = Object.entries(ranking.hardware ?? {}).flatMap(([arm, told]) => told.gpus.map((gpu) => [arm, gpu]));
  if (gpus.length === 0) return null;
  const cell = (...said) => h("td", { class: "r" }, ...said);
  return h("div", { class: "panel scroll" }, h("table", { class: "tight" },
    h("caption", {}, "GPUs", h("span", {}, "means over the readings; the most memory; energy by the GPU's own counter")),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Arm"), ["Busy", "Memory GiB", "Power W", "Energy Wh", "Clock MHz", "Throttled", "XID"].map(right))),
    h("tbody", {}, gpus.map(([arm, gpu]) => h("tr", {},
      h("th", { scope: "row" }, arm, h("div", { class: "ci" }, gpu.name ?? "GPU"), h("div", { class: "ci mono" }, gpu.uuid)),
      cell(percent(gpu.utilisation)),
      cell(known(gpu.memory_used_bytes) ? (gpu.memory_used_bytes / GIB).toFixed(1) : "–"),
      cell(fixed(gpu.power_w, 0)),
      cell(fixed(gpu.energy_wh, 2)),
      cell(fixed(gpu.sm_clock_mhz, 0), h("span", { class: "dim" }, ` / ${fixed(gpu.sm_clock_least_mhz, 0)}`)),
      cell(throttled(gpu)),
      cell(gpu.xid?.length ? h("span", { class: "why" }, gpu.xid.join(", ")) : "none"))))));
}

/** Verdicts while every arm decodes the control's tokens; null where there is no such phase. */
export function forcedPanel(ranking) {
  const forced = ranking.forced;
  if (!forced) return null;
  if (forced.why) return h("div", { class: "panel" }, h("h3", {}, "At equal content"), h("p", { class: "note" }, `Tokens were not forced: ${forced.why}.`));
  const notes = new Notes();
  const cell = (said) => h("td", {}, verdictBadge(said?.word), notes.mark(said?.withheld), ` ${change(said?.ratio)}`, h("div", { class: "ci" }, known(said?.lower) && known(said?.upper) ? `${change(said.lower)} … ${change(said.upper)}` : ["no interval", notes.mark(said?.why)]));
  return h("div", { class: "panel scroll" }, h("table", { class: "tight" },
    h("caption", {}, "At equal content", h("span", {}, `${count(forced.pairs)} of ${count(forced.wanted_pairs)} pairs in which every arm decodes the control's tokens`)),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Candidate"), LATENCIES.map(([, name]) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, Object.entries(forced.candidates ?? {}).map(([name, verdicts]) => h("tr", {}, h("th", { scope: "row" }, name), LATENCIES.map(([key]) => cell(verdicts[key])))))), notes.list());
}
