// Which engines serve production, are they up, and how busy: one row an engine, as every worker sees it.

import { h, show } from "./dom.js";
import { count } from "./format.js";

/** One row an engine, joined over the workers: up only if every worker says so, in flight summed. */
export function engines(status) {
  const rows = new Map();
  for (const process of status.processes ?? []) {
    if (!process.fresh) continue;
    for (const engine of process.engines ?? []) {
      const key = JSON.stringify([engine.fleet, engine.url]);
      const row = rows.get(key) ?? { ...engine, inflight: 0, up: true, seen: 0, ups: 0 };
      row.inflight += engine.inflight ?? 0;
      row.seen += 1;
      row.ups += engine.up ? 1 : 0;
      row.error = row.error ?? engine.error ?? null;
      rows.set(key, row);
    }
  }
  return [...rows.values()];
}

function state(row) {
  if (row.ups === row.seen) return h("span", { class: "state good" }, "up");
  if (row.ups === 0) return h("span", { class: "state bad" }, "down");
  return h("span", { class: "state bad" }, `up for ${row.ups} of ${row.seen} workers`);
}

function processes(status) {
  const all = status.processes ?? [];
  const parts = all.map((p) => `${p.process} ${p.fresh ? (p.draining ? "draining" : "up") : `silent for ${p.age_s} s`}`);
  parts.push(`analysis up, inbox ${count(status.inbox?.waiting)} waiting`);
  const troubles = Object.entries(status.troubles ?? {}).map(([what, n]) => `${what.replaceAll("_", " ")}: ${count(n)}`);
  return h("p", { class: "note" }, parts.join(" · "), troubles.length ? h("span", { class: "why" }, ` · ${troubles.join(" · ")}`) : null);
}

export function drawFleets(place, status) {
  const rows = engines(status);
  show(place, [rows, status.processes?.map((p) => [p.process, p.fresh, p.draining, p.fresh || p.age_s]), status.troubles, status.inbox], () => {
    if (rows.length === 0) {
      return h("div", { class: "panel" }, h("p", { class: "pad dim" }, "No gateway worker has reported in the last 5 s, so nothing is known of the engines. Workers report once a second; if this stays, look at the log of ", h("span", { class: "mono" }, "shadowlane serve"), "."), processes(status));
    }
    const heads = ["Fleet", "Engine", "State", "In flight", "Kind", "Models", "Last error"];
    return h("div", { class: "panel" },
      h("div", { class: "scroll" }, h("table", { "aria-label": "Production engines" },
        h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head === "In flight" ? "r" : null }, head)))),
        h("tbody", {}, rows.map((row) => h("tr", {},
          h("td", {}, row.fleet ?? "default"),
          h("th", { scope: "row", class: "mono" }, row.url),
          h("td", { class: "nowrap" }, state(row)),
          h("td", { class: "r" }, count(row.inflight)),
          h("td", {}, row.kind ?? "–"),
          h("td", {}, (row.models ?? []).join(", ") || "–"),
          h("td", { class: "dim" }, row.error ?? "–")))))),
      processes(status));
  });
}
