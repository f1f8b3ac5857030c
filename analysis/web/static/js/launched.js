// Engines that Shadowlane started: what each is doing, on which GPUs, and what it last wrote where it died.

import { h } from "./dom.js";
import { count } from "./format.js";

const GOOD = new Set(["ready"]);
const BAD = new Set(["failed", "restarting"]);

function state(engine) {
  const kind = GOOD.has(engine.state) ? "good" : BAD.has(engine.state) ? "bad" : "";
  return h("span", { class: `state ${kind}` }, engine.state);
}

function why(engine) {
  const parts = [engine.why ?? "–"];
  if (engine.state !== "ready" && engine.lines?.length) parts.push(h("pre", { tabindex: "0", "aria-label": "Its last lines" }, engine.lines.join("\n")));
  return parts;
}

/** The launched engines of one experiment; null where it has none. */
export function launchedPanel(status, experiment) {
  const engines = (status?.launched?.engines ?? []).filter((engine) => engine.experiment === experiment);
  if (engines.length === 0) return null;
  const hardware = status.launched.hardware?.error;
  const inTurn = engines.some((engine) => (engine.state === "resting" || engine.state === "yielding") && !engine.why);
  return h("div", { class: "panel scroll" }, h("table", { class: "tight" },
    h("caption", {}, "Launched engines", h("span", {}, hardware ?? (inTurn ? "one at a time, each for its slot" : "copies wait until all are ready"))),
    h("thead", {}, h("tr", {}, ["Arm", "State", "Starts", "Deaths", "GPUs", "Why"].map((head) => h("th", { scope: "col" }, head)))),
    h("tbody", {}, engines.map((engine) => h("tr", {},
      h("th", { scope: "row" }, engine.arm, h("div", { class: "ci mono" }, engine.url)),
      h("td", { class: "nowrap" }, state(engine)),
      h("td", {}, count(engine.starts)),
      h("td", {}, count(engine.deaths)),
      h("td", { class: "mono" }, (engine.gpus ?? []).join(" ") || "–"),
      h("td", { class: "dim" }, why(engine)))))));
}
