// How far distributions are apart: the control's tokens as every arm scores them, and the control against itself.

import { h } from "./dom.js";
import { change, count } from "./format.js";
import { Notes } from "./notes.js";

const METRICS = [["kl_k3", "KL (k3)"], ["kl_top", "KL (top)"], ["logprob_gap", "Perplexity"], ["flips", "Flips"], ["flips_when_sure", "Sure flips"]];
const known = (value) => typeof value === "number" && Number.isFinite(value);

function said(unit, value, signed) {
  if (!known(value)) return "–";
  if (unit === "ratio") return change(value);
  const sign = signed && value > 0 ? "+" : "";
  return unit === "share" ? `${sign}${(value * 100).toFixed(2)} %` : `${sign}${value.toFixed(4)}`;
}

/** Each candidate's distances with what is beyond the floor; null where there is no such phase. */
export function scoredPanel(ranking) {
  const scored = ranking.scored;
  if (!scored) return null;
  if (scored.why) return h("div", { class: "panel" }, h("h3", {}, "Distributions"), h("p", { class: "note" }, `Tokens were not scored: ${scored.why}.`));
  const notes = new Notes();
  const cell = (one) => h("td", { class: "r" }, said(one?.unit, one?.value), h("div", { class: "ci" }, one?.excess ? `${said(one.unit, one.excess.lower, true)} … ${said(one.unit, one.excess.upper, true)} beyond the floor` : ["no interval", notes.mark(one?.why)]));
  const found = Object.entries(scored.outputs ?? {});
  const floor = (key) => found.map(([, told]) => told[key]).find((one) => known(one?.floor));
  return h("div", { class: "panel scroll" }, h("table", { class: "tight" },
    h("caption", {}, "Distributions", h("span", {}, `${count(scored.pairs)} of ${count(scored.wanted_pairs)} pairs in which every arm scores the control's tokens; KL in nats a token`)),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Candidate"), METRICS.map(([, name]) => h("th", { scope: "col", class: "r" }, name)))),
    h("tbody", {}, found.map(([name, told]) => h("tr", {}, h("th", { scope: "row" }, name), METRICS.map(([key]) => cell(told[key])))),
      h("tr", { class: "reference" }, h("th", { scope: "row" }, "control, twice"), METRICS.map(([key]) => h("td", { class: "r" }, said(floor(key)?.unit, floor(key)?.floor)))))), notes.list());
}
