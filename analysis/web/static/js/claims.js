// What else is claimed of candidates: shares of failed and slow answers, percentiles, golden requests, who is beaten.

import { h } from "./dom.js";
import { change, count } from "./format.js";
import { hides, told } from "./hidden.js";

const LATENCIES = [["ttft", "TTFT"], ["visible", "visible text"], ["itl", "ITL"], ["tpot", "TPOT"], ["e2e", "E2E"]];
const PERCENTILES = ["p50", "p95", "p99"];
const WORDS = { errors: "failed", slo: "beyond an objective" };
const LABELS = { MORE: ["no", "more"], FEWER: ["ok", "fewer"], NO_MORE: ["ok", "no more"], UNDECIDED: ["none", "undecided"] };
const known = (value) => typeof value === "number";
const percent = (value) => (known(value) ? `${(value * 100).toFixed(1)} %` : "–");
const points = (value) => `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(1)}`;
const head = (name, at) => h("th", { scope: "col", class: at > 1 ? "r" : null }, name);

function table(name, caption, note, heads, rows) {
  if (rows.length === 0) return null;
  return h("div", { class: "panel scroll", "data-panel": name }, h("table", { class: "tight" },
    h("caption", {}, caption, h("span", {}, note)), h("thead", {}, h("tr", {}, heads.map(head))), h("tbody", {}, rows)));
}

function rate(c, key, said) {
  const latency = LATENCIES.find(([name]) => `slow_${name}` === key)?.[1];
  const [badge, label] = LABELS[said.label] ?? LABELS.UNDECIDED;
  return h("tr", {}, h("th", { scope: "row" }, c.name), h("td", {}, WORDS[key] ?? (known(said.beyond_ms) ? `${latency} beyond ${said.beyond_ms.toFixed(0)} ms` : key)),
    h("td", { class: "r" }, percent(said.control)), h("td", { class: "r" }, percent(said.candidate)),
    h("td", { class: "r" }, known(said.lower) ? [points(said.excess), h("div", { class: "ci" }, `${points(said.lower)} … ${points(said.upper)}`)] : "no interval before 2 windows"),
    h("td", { class: "r" }, h("span", { class: `badge ${badge}` }, label)));
}

export function ratesPanel(ranking) {
  return table("rates", "Failed and slow answers", "slow: longer than 19 in 20 of the control's took in the calibration; differences in points hold at every look",
    ["Candidate", "Answers that", "Control", "Candidate", "Difference", "So"],
    ranking.candidates.flatMap((c) => Object.entries(c.rates ?? {}).filter(([key]) => key !== "slow_visible" || hides(c)).map(([key, said]) => rate(c, key, said))));
}

export function percentilesPanel(ranking) {
  const cell = (said) => h("td", { class: "r" }, known(said?.ratio) ? [change(said.ratio), h("div", { class: "ci" }, `${change(said.lower)} … ${change(said.upper)}`)] : h("span", { class: "dim" }, said?.refused ?? "–"));
  const row = (c, key, name) => {
    const said = c.percentiles?.[key];
    return known(said?.horizon) ? h("tr", {}, h("th", { scope: "row" }, c.name), h("td", {}, name), h("td", { class: "r" }, count(said.horizon)), PERCENTILES.map((p) => cell(said[p]))) : null;
  };
  return table("percentiles", "Percentiles against control", "over so many first pairs, fixed beforehand; each holds for one look",
    ["Candidate", "Latency", "Pairs", ...PERCENTILES], ranking.candidates.flatMap((c) => told([c], LATENCIES).map(([key, name]) => row(c, key, name))).filter(Boolean));
}

function goldenSaid({ requests, neither, label, unmarked }) {
  const said = !requests ? "none is marked yet" : neither === requests ? "nobody got one right" : String(label).toLowerCase();
  return unmarked ? `${said}; of ${unmarked}${requests ? " more" : ""} there is no word` : said;
}

export function goldenPanel(ranking) {
  return table("golden", "Golden requests", "right answers of requests whose answers are known",
    ["Candidate", "Requests", "Control right", "Candidate right", "So"],
    ranking.candidates.filter((c) => c.quality?.awaited).map(({ name, quality }) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, count(quality.requests)),
      h("td", { class: "r" }, percent(quality.control_passed)), h("td", { class: "r" }, percent(quality.candidate_passed)),
      h("td", { class: "r" }, goldenSaid(quality)))));
}

/** Who is beaten, and who differs from the control when all are looked at together; null where nobody is. */
export function togetherNote(ranking) {
  const beaten = (ranking.beaten ?? []).map((one) => `${one.name} is beaten by ${one.by}, since window ${one.units}`);
  const differ = ranking.candidates.length < 2 ? [] : told(ranking.candidates, LATENCIES).filter(([key]) => ranking.discoveries?.[key]?.length).map(([key, name]) => `${name} ${ranking.discoveries[key].join(" ")}`);
  if (differ.length) beaten.push(`differ from the control, by e-BH over all candidates on one metric: ${differ.join(", ")}`);
  return beaten.length ? h("p", { class: "note", "data-panel": "together" }, `${beaten.join("; ")}.`) : null;
}
