// What the arms cost under each load, and what limits them: figures with intervals, and why where there are none.

import { h, s } from "./dom.js";

const KINDS = ["input", "output", "total"];
const STATES = { meets: "meets", misses: "misses", unknown: "not certain" };
const DRAWN = [["per_million", "per million tokens"], ["joules_per_token", "joules per token"], ["tokens_per_gpu_s", "tokens per GPU-second"]];
const LEFT = 60, RIGHT = 730, TOP = 12, BOTTOM = 150;
const known = (value) => typeof value === "number";
const short = (value) => (!known(value) ? "–" : Math.abs(value) >= 1000 ? value.toFixed(0) : String(Number(value.toPrecision(3))));
const right = (name) => h("th", { scope: "col", class: "r" }, name);

function figure(said, doubt) {
  if (!known(said?.value)) return h("td", { class: "r", title: said?.withheld ?? null }, "–");
  return h("td", { class: "r" }, short(said.value),
    known(said.lower) ? h("div", { class: "ci" }, `${short(said.lower)} … ${known(said.upper) ? short(said.upper) : "?"}`) : null,
    doubt ? h("div", { class: "ci why", title: doubt }, "invalid") : null);
}

function level(arm, said, one, at) {
  const slo = one.slo ?? {};
  return h("tr", {},
    h("th", { scope: "row" }, at === 0 ? arm : "", at === 0 && known(said.gpus?.count) ? h("div", { class: "ci" }, `${said.gpus.count} GPU${said.gpus.count === 1 ? "" : "s"}`) : null),
    h("td", { class: "r" }, `${one.multiplier}×${at === said.at_slo ? " *" : ""}`, h("div", { class: "ci" }, `${short(one.requests_per_s)}/s`)),
    h("td", { class: "r" }, known(slo.value) ? `${(slo.value * 100).toFixed(1)} %` : "–", h("div", { class: "ci" }, STATES[slo.state] ?? "")),
    KINDS.map((kind) => figure(one.per_million[kind])),
    figure(one.tokens_per_gpu_s.total),
    figure(one.joules_per_token.total, one.energy.valid ? null : one.energy.why));
}

/** Each arm's figure by load, where some arm was seen under two. */
function curve(cost) {
  const all = Object.entries(cost.arms);
  if (all.every(([, said]) => said.curve.length < 2)) return null;
  for (const [key, name] of DRAWN) {
    const lines = all.map(([arm, said]) => [arm, said.curve.filter((one) => known(one[key].total.value)).map((one) => [one.requests_per_s, one[key].total, one.slo.state])]);
    const points = lines.flatMap(([, own]) => own);
    if (points.length === 0) continue;
    const most = Math.max(...points.map(([load]) => load)) * 1.05;
    const top = 1.05 * Math.min(Math.max(...points.map(([, said]) => said.upper ?? said.value)), 2 * Math.max(...points.map(([, said]) => said.value)));
    const x = (load) => LEFT + (RIGHT - LEFT) * load / most;
    const y = (value) => BOTTOM - (BOTTOM - TOP) * Math.min(value, top) / top;
    const title = key === "per_million" ? `${cost.currency} ${name}` : name;
    const drawn = lines.map(([, own], n) => s("g", { class: `c${n % 6}` },
      s("polyline", { points: own.map(([load, said]) => `${x(load).toFixed(1)},${y(said.value).toFixed(1)}`).join(" ") }),
      own.map(([load, said]) => s("line", { x1: x(load), x2: x(load), y1: y(said.lower ?? said.value), y2: y(said.upper ?? said.value) })),
      own.map(([load, said, state]) => s("circle", { cx: x(load), cy: y(said.value), r: state === "meets" ? 5 : 3 }, s("title", {}, `${short(said.value)} at ${short(load)} requests/s, SLO: ${STATES[state] ?? "none"}`)))));
    return h("figure", { class: "curve" },
      h("figcaption", { class: "note" }, `${title} by load (large dots: certain to meet the SLO)`),
      h("ul", { class: "legend" }, lines.map(([arm], n) => h("li", {}, h("i", { class: `key k${n % 6}` }), arm))),
      s("svg", { viewBox: "0 0 750 180", role: "img", "aria-label": `${title} by load` },
        s("line", { class: "axis", x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM }), s("line", { class: "axis", x1: LEFT, x2: LEFT, y1: TOP, y2: BOTTOM }), drawn,
        s("text", { x: LEFT - 6, y: BOTTOM, "text-anchor": "end" }, "0"), s("text", { x: LEFT - 6, y: TOP + 8, "text-anchor": "end" }, short(top)),
        s("text", { x: RIGHT, y: BOTTOM + 20, "text-anchor": "end" }, `${short(most)} requests/s`)));
  }
  return null;
}

const list = (lines, kind) => (lines?.length ? h("ul", { class: kind }, lines.map((line) => h("li", {}, line))) : null);

/** Null before the first judged windows. */
export function costPanel(ranking) {
  const cost = ranking.cost;
  const arms = Object.entries(cost?.arms ?? {});
  if (arms.every(([, said]) => said.curve.length === 0)) return null;
  const money = cost.currency ?? "price";
  return h("div", { class: "panel scroll", "data-panel": "cost" }, h("table", { class: "tight" },
    h("caption", {}, "What it costs", h("span", {}, `at the loads that were sent; ${cost.slo_said}; energy is the boards' alone`)),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Arm"), ["Load", "Within SLO", ...KINDS.map((kind) => `${money}/M ${kind}`), "Tokens/GPU·s", "J/token"].map(right))),
    h("tbody", {}, arms.flatMap(([arm, said]) => said.curve.map((one, at) => level(arm, said, one, at))))),
  list(cost.said, "plain"), curve(cost), list(cost.notes, "plain dim"));
}

/** What limits each arm, with evidence, and what to try; null before anything is judged. */
export function whyPanel(ranking) {
  const arms = Object.entries(ranking.why ?? {}).filter(([, said]) => said.spans > 0);
  if (arms.length === 0) return null;
  return h("div", { class: "panel scroll", "data-panel": "why" }, h("table", { class: "tight" },
    h("caption", {}, "What limits each arm", h("span", {}, `by ${arms[0][1].tested}`)),
    h("thead", {}, h("tr", {}, ["Arm", "Limited by", "Because", "Evidence"].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, arms.map(([arm, said]) => {
      const [cause, share, certainty, because, evidence] = said.row;
      return h("tr", {}, h("th", { scope: "row" }, arm),
        h("td", {}, cause, h("div", { class: "ci" }, share), h("div", { class: "ci" }, certainty)),
        h("td", {}, because, said.advice.map((line) => h("div", { class: "dim" }, line))),
        h("td", {}, evidence));
    }))));
}
