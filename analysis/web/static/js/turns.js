// Arms that take turns: which one stands, how far a replay is, and what did not come.

import { h } from "./dom.js";
import { count, ms, span, words } from "./format.js";

/** What the shadow process last told of an experiment's turns; null where its arms stand side by side. */
export function turnsOf(status, experiment) {
  for (const process of status?.processes ?? []) {
    const found = (process.experiments ?? []).find((one) => one.experiment === experiment);
    if (found?.slots) return found.slots;
  }
  return null;
}

function replayed(slots) {
  const { replay } = slots;
  if (!replay) return null;
  if (!replay.turns) return h("p", { class: "note" }, "The recording is being read.");
  const left = Object.entries(replay.left_out ?? {}).filter(([, n]) => n > 0);
  return [
    h("div", { class: "facts" }, h("span", { class: "meter" }, "Replayed",
      h("progress", { max: 1, value: (slots.turns / replay.turns).toFixed(3), "aria-label": "Replayed" }),
      h("b", {}, `${count(Math.min(slots.turns, replay.turns))} of ${count(replay.turns)} blocks`))),
    h("p", { class: "note" }, [
      `${count(replay.sent)} of ${count(replay.sends)} requests sent`,
      replay.late_ms == null ? null : `the latest of this block ${ms(replay.late_ms)} ms after its instant`,
      slots.over || replay.left_s == null ? null : `about ${span(replay.left_s)} left`,
    ].filter(Boolean).join(", "), "."),
    left.length ? h("p", { class: "note" }, `Left out of the recording: ${left.map(([why, n]) => `${words(why)} ${count(n)}`).join(", ")}.`) : null,
  ];
}

export function turnsPanel(status, experiment) {
  const slots = turnsOf(status, experiment);
  if (slots === null) return null;
  const troubles = Object.entries(slots.troubles ?? {});
  const now = slots.over ? "all is sent" : slots.standing ? `${slots.standing} has its turn` : "the next arm is being brought";
  return h("div", { class: "panel" }, h("h3", {}, "Arms take turns"),
    h("p", {}, `${now}; ${count(slots.blocks)} blocks so far.`),
    replayed(slots),
    troubles.length ? h("ul", { class: "checks" }, troubles.map(([name, why]) => h("li", {}, h("span", { class: "badge no" }, "did not come"), h("span", {}, h("b", {}, name), h("span", { class: "dim" }, why))))) : null);
}
