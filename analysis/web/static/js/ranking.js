// Which candidate is better, by how much, how sure: the table, one interval bar a verdict, around 1.0.

import { h, s } from "./dom.js";
import { change, count } from "./format.js";
import { told } from "./hidden.js";
import { Notes } from "./notes.js";

export const METRICS = [["ttft", "TTFT"], ["visible", "Visible text"], ["itl", "ITL"], ["tpot", "TPOT"], ["e2e", "E2E"]];
const PROMOTABLE = "faster also by an interval that assumes nothing about the distribution";
const SIGNS = { FASTER: "▲", SLOWER: "▼", EQUIVALENT: "=", UNDECIDED: "?", WITHHELD: "!" };

/** How far from 1.0 (in log ratio) every bar of one table reaches, so that bars compare by eye. */
function reach(ranking) {
  const margin = Math.log1p(ranking.margin ?? 0);
  const ends = ranking.candidates.flatMap((c) => told([c], METRICS).flatMap(([key]) => { const v = c.verdicts?.[key]; return [v?.ratio, v?.lower, v?.upper]; }));
  const logs = ends.filter((v) => typeof v === "number" && v > 0).map((v) => Math.abs(Math.log(v)));
  return Math.min(Math.log(4), Math.max(margin * 2.5, ...logs) * 1.05) || 0.1;
}

function bar(verdict, label, margin, limit) {
  const x = (ratio) => 60 + 58 * Math.max(-1, Math.min(1, Math.log(ratio) / limit));
  const band = [x(1 / (1 + margin)), x(1 + margin)];
  const interval = [verdict.lower, verdict.upper].every((v) => typeof v === "number" && v > 0);
  const title = interval ? `ratio to control ${verdict.ratio?.toFixed(3)}, interval ${verdict.lower.toFixed(3)} to ${verdict.upper.toFixed(3)}, margin band ${(1 / (1 + margin)).toFixed(3)} to ${(1 + margin).toFixed(3)}` : "no interval yet";
  return s("svg", { class: `interval ${label}`, viewBox: "0 0 120 14", preserveAspectRatio: "none", role: "img", "aria-label": title },
    s("title", {}, title),
    s("rect", { class: "band", x: band[0], width: band[1] - band[0], y: 0, height: 14 }),
    s("line", { class: "axis", x1: 2, x2: 118, y1: 7, y2: 7 }),
    s("line", { class: "one", x1: 60, x2: 60, y1: 0, y2: 14 }),
    interval ? s("line", { class: "span", x1: x(verdict.lower), x2: Math.max(x(verdict.upper), x(verdict.lower) + 1), y1: 7, y2: 7 }) : null,
    interval ? s("rect", { class: "dot", x: x(verdict.ratio) - 1.5, y: 2, width: 3, height: 10 }) : null);
}

function cell(verdict, margin, limit, notes) {
  if (!verdict) return h("td", { class: "dim" }, "–");
  const label = verdict.word;
  const has = typeof verdict.lower === "number" && typeof verdict.upper === "number";
  return h("td", { class: "verdict" },
    h("div", { class: "line" }, h("span", { class: `badge ${label}` }, `${SIGNS[label] ?? ""} ${label}`), notes.mark(verdict.withheld), h("span", { class: "change" }, change(verdict.ratio))),
    bar(verdict, label, margin, limit),
    h("div", { class: "ci" }, has ? `${change(verdict.lower)} … ${change(verdict.upper)}` : ["no interval", notes.mark(verdict.why)]),
    verdict.promotable ? h("div", { class: "ci" }, "✓ promotable", notes.mark(PROMOTABLE)) : null,
    label === "UNDECIDED" && typeof verdict.progress === "number" ? h("progress", { class: "small", max: 1, value: verdict.progress.toFixed(3), "aria-label": "progress to a decision" }) : null);
}

export function verdictBadge(label) {
  return h("span", { class: `badge ${label ?? "UNDECIDED"}` }, `${SIGNS[label] ?? "?"} ${label ?? "UNDECIDED"}`);
}

/** The label of a candidate's outputs, with the number of what is lacking until there is one. */
export function outputBadge(outputs, notes) {
  const label = outputs?.label ?? "UNDECIDED";
  return [h("span", { class: `badge ${label}` }, `${{ SAME: "=", DIVERGES: "≠" }[label] ?? "?"} ${label}`), notes.mark(outputs?.lacking)];
}

export function rankingTable(ranking) {
  const margin = ranking.margin ?? 0;
  const limit = reach(ranking);
  const shown = told(ranking.candidates, METRICS);
  const notes = new Notes();
  const order = [...ranking.candidates].sort((a, b) => (a.rank ?? 1e9) - (b.rank ?? 1e9));
  return h("div", { class: "panel" }, h("div", { class: "scroll" }, h("table", { "aria-label": `Ranking of ${ranking.experiment}` },
    h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "r" }, "#"), h("th", { scope: "col" }, "Candidate"), shown.map(([, name]) => h("th", { scope: "col" }, name, h("span", { class: "wide" }, " vs control"))), h("th", { scope: "col" }, "Outputs"))),
    h("tbody", {}, order.map((c) => h("tr", { "data-candidate": c.name },
      h("td", { class: "r dim" }, c.rank ?? "–"),
      h("th", { scope: "row" }, c.name, h("div", { class: "ci" }, `${count(c.n)} answers`), c.errors ? h("div", { class: "ci why" }, `${count(c.errors)} errors`) : null),
      shown.map(([key]) => cell(c.verdicts?.[key], margin, limit, notes)),
      h("td", {}, outputBadge(c.outputs, notes))))))), notes.list(),
    h("p", { class: "note" }, `Change in the geometric mean against control; less is better. Bars run from ${change(Math.exp(-limit))} to ${change(Math.exp(limit))} on one scale; the tinted band is the ±${(margin * 100).toFixed(1)} % margin within which candidates count as equivalent.`));
}
