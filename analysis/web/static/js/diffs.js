// How answers part from the control's, beside how its own part: by token, by length, by finish reason.

import { h } from "./dom.js";
import { Notes } from "./notes.js";

const known = (value) => typeof value === "number" && Number.isFinite(value);
const percent = (value, digits) => (known(value) ? `${(value * 100).toFixed(digits)} %` : "–");
const points = (value, digits) => (known(value) ? `${value < 0 ? "−" : "+"}${Math.abs(value * 100).toFixed(digits)}` : "–");
const HEADS = ["Candidate", "Of answers", "Share", "Floor", "Beyond it, points"];

function rows(candidate, notes) {
  const { hazard, by_length: bands = [], finish_reasons: reasons = [] } = candidate.diffs ?? {};
  const row = (what, said, digits, excess) => h("tr", {}, h("th", { scope: "row" }, candidate.name), h("td", {}, what),
    h("td", { class: "r" }, percent(said.value ?? said.share, digits)), h("td", { class: "r" }, percent(said.floor, digits)), h("td", { class: "r" }, excess));
  const beyond = ({ excess, why }, digits) => (known(excess?.lower)
    ? [points(excess.value, digits), h("div", { class: "ci" }, `${points(excess.lower, digits)} … ${points(excess.upper, digits)}`)]
    : ["–", notes.mark(why ?? "the control was not compared with itself for it")]);
  return [
    hazard?.tokens ? row("divergence hazard, a token", hazard, 3, beyond(hazard, 3)) : null,
    bands.filter((band) => band.pairs).map((band) => row(`exact match, ${band.tokens} tokens (${band.pairs} pairs)`, band, 1, beyond(band, 1))),
    reasons.filter((one) => one.control !== one.candidate).map((one) => row(`ended ${one.candidate} for ${one.control} (${one.answers})`, one, 1, [points(one.excess, 1), notes.mark("it is a count, without an interval")])),
  ].flat().filter(Boolean);
}

/** Null before there is any figure. */
export function diffsPanel(ranking) {
  const notes = new Notes();
  const shown = ranking.candidates.flatMap((candidate) => rows(candidate, notes));
  if (shown.length === 0) return null;
  return h("div", { class: "panel scroll", "data-panel": "diffs" }, h("table", { class: "tight" },
    h("caption", {}, "How answers part", h("span", {}, "the floor is the control against itself; the hazard is the chance that a token is the first to differ, given that none before it did")),
    h("thead", {}, h("tr", {}, HEADS.map((name, at) => h("th", { scope: "col", class: at > 1 ? "r" : null }, name)))),
    h("tbody", {}, shown)), notes.list());
}
