// What one experiment says: its phase, the ranking with intervals, outputs, checks, books, production, charts.

import { drawCharts } from "./charts.js";
import { goldenPanel, percentilesPanel, ratesPanel, togetherNote } from "./claims.js";
import { forcedPanel, gpuPanel, loadPanel } from "./conditions.js";
import { costPanel, whyPanel } from "./cost.js";
import { diffsPanel } from "./diffs.js";
import { h, show } from "./dom.js";
import { count, ms, share, span, words } from "./format.js";
import { told } from "./hidden.js";
import { launchedPanel } from "./launched.js";
import { Notes } from "./notes.js";
import { METRICS, outputBadge, rankingTable } from "./ranking.js";
import { scoredPanel } from "./scored.js";
import { turnsOf, turnsPanel } from "./turns.js";

const ARM_METRICS = [["ttft_ms", "TTFT"], ["visible_ms", "Visible text"], ["itl_ms", "ITL"], ["tpot_ms", "TPOT"], ["e2e_ms", "E2E"]];
const OUTPUTS = ["exact_match", "first_divergence", "edit_similarity", "length_ratio", "finish_reason", "tool_calls"];

export function drawEmpty() {
  return h("div", { class: "panel empty" },
    h("h2", {}, "No experiment is configured"),
    h("p", {}, "Shadowlane is relaying traffic to the engines above and nothing is mirrored. To compare a configuration with production's own, start two spare engines: one exactly like production (the control) and one with the change (the candidate). Then add to shadowlane.yaml:"),
    h("pre", { tabindex: "0", "aria-label": "Example configuration" }, "experiments:\n  - name: fp8-kv\n    fleet: llama-3.1-70b\n    sample: {rate: auto, by: conversation}\n    control: {engine: http://10.0.1.1:8000}\n    candidates:\n      - {name: fp8, engine: http://10.0.1.2:8000}\n"),
    h("p", { class: "dim" }, "Copies of sampled conversations go to both; answers are timed token by token and compared; the ranking appears here. Production is never slowed by it. To see it without engines: ", h("span", { class: "mono" }, "shadowlane demo"), "."));
}

function progress(spec, ranking) {
  if (ranking.phase === "calibration") {
    const at = ranking.calibration ?? {};
    return { value: at.progress ?? 0, label: "Calibrating the control against itself", tail: `${count(at.pairs ?? 0)} pairs, at least ${count(at.wanted_pairs)} wanted` };
  }
  const verdicts = ranking.candidates.flatMap((c) => told([c], METRICS).map(([key]) => c.verdicts?.[key])).filter(Boolean);
  const open = (v) => v.label === "UNDECIDED" || Boolean(v.withheld);
  const done = verdicts.filter((v) => !open(v)).length;
  const sum = verdicts.reduce((total, v) => total + (open(v) ? v.progress ?? 0 : 1), 0);
  return { value: verdicts.length ? sum / verdicts.length : 0, label: "Verdicts reached", tail: `${done} of ${verdicts.length}` };
}

function head(spec, ranking) {
  const report = `/api/experiments/${encodeURIComponent(spec.name)}/report.html`;
  const phase = ranking?.phase ?? "waiting";
  const fact = (name, value) => h("span", {}, `${name} `, h("b", {}, value));
  const pause = spec.paused ? h("p", { class: "banner", role: "status" }, h("b", {}, `Paused (${words(spec.paused.reason)}): `), `${spec.paused.detail}. `, spec.paused.resumes_in_s === null ? "Nothing is copied until it is resumed. " : `Goes on by itself in ${span(spec.paused.resumes_in_s)} unless the cause is seen again. `, h("span", { class: "dim" }, spec.paused.remedy)) : null;
  const parts = [h("div", { class: "title" }, h("h2", {}, spec.name), h("span", { class: `chip ${pause ? "paused" : phase}` }, pause ? "paused" : phase), h("span", { class: "dim" }, `fleet ${spec.fleet}`), h("span", { class: "grow" }), h("a", { href: report }, "Report"), h("a", { href: `/api/experiments/${encodeURIComponent(spec.name)}` }, "JSON"))];
  if (pause) parts.push(pause);
  const trips = Object.entries(spec.trips ?? {}).filter(([, n]) => n > 0);
  if (trips.length) parts.push(h("p", { class: "note" }, `Paused by itself since the start: ${trips.map(([why, n]) => `${words(why)} ${count(n)}`).join(", ")}.`));
  if (!ranking) return parts;
  const at = progress(spec, ranking);
  if (ranking.summary) parts.push(h("p", { class: "summary" }, ranking.summary));
  parts.push(h("div", { class: "facts" },
    h("span", { class: "meter" }, at.label, h("progress", { max: 1, value: at.value.toFixed(3), "aria-label": at.label }), h("b", {}, at.tail)),
    fact("pairs", count(ranking.pairs)), ranking.mode && ranking.mode !== "live" ? fact("blocks", count(ranking.windows)) : fact("windows", ranking.window_s ? `${count(ranking.windows)} × ${ranking.window_s.toFixed(1)} s` : "after calibration"),
    fact("running", span(ranking.elapsed_s)), fact("α", ranking.alpha), fact("margin", `±${((ranking.margin ?? 0) * 100).toFixed(1)} %`), fact("epoch", ranking.epoch)));
  return parts;
}

function outputs(ranking) {
  const told = ranking.candidates.flatMap((c) => Object.entries(c.outputs ?? {}));
  const more = told.filter(([key, output]) => !OUTPUTS.includes(key) && typeof output?.value === "number").map(([key]) => key);
  const shown = [...OUTPUTS.filter((key) => told.some(([name]) => name === key)), ...[...new Set(more)].sort()];  // always, and where there was something to measure
  const floor = ranking.control?.floor ?? {};
  const notes = new Notes();
  const cell = (output) => h("td", { class: "r" }, share(output?.value), h("div", { class: "ci" }, typeof output?.lower === "number" ? `${share(output.lower)} … ${share(output.upper)}` : ["no interval", notes.mark(output?.why)]));
  return h("div", { class: "panel scroll" }, h("table", { class: "tight" },
    h("caption", {}, "Output agreement with control", h("span", {}, "the floor is how well control agrees with itself; a candidate cannot be asked for more")),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Arm"), h("th", { scope: "col" }, "Outputs"), shown.map((key) => h("th", { scope: "col", class: "r" }, words(key))))),
    h("tbody", {},
      ranking.candidates.map((c) => h("tr", {}, h("th", { scope: "row" }, c.name), h("td", {}, outputBadge(c.outputs, notes)), shown.map((key) => cell(c.outputs?.[key])))),
      h("tr", { class: "reference" }, h("th", { scope: "row" }, "control, twice"), h("td", { class: "dim" }, "floor"), shown.map((key) => h("td", { class: "r" }, share(ranking.candidates.map((c) => c.outputs?.[key]?.floor).find((v) => typeof v === "number") ?? floor[key])))))), notes.list());
}

function checks(ranking) {
  const sign = (ok) => (ok === true ? ["ok", "✓ passed"] : ok === false ? ["no", "✕ failed"] : ["none", "… open"]);
  return h("div", { class: "panel" }, h("h3", {}, "Can this be trusted?"),
    ranking.checks?.length
      ? h("ul", { class: "checks" }, ranking.checks.map((check) => h("li", {}, h("span", { class: `badge ${sign(check.ok)[0]}` }, sign(check.ok)[1]), h("span", {}, h("b", {}, words(check.name)), h("span", { class: "dim" }, check.detail), check.ok === false && check.mend ? h("span", { class: "why wrap" }, `To mend it: ${check.mend}.`) : null))))
      : h("p", { class: "note" }, "The checks start with the first pairs."));
}

function marked(ranking) {
  const said = Object.entries(ranking.marked_pairs ?? {}).filter(([, n]) => n > 0);
  return said.length ? h("p", { class: "note" }, `Pairs kept and not judged: ${said.map(([why, n]) => `${words(why)} ${count(n)}`).join(", ")}.`) : null;
}

function books(ranking) {
  const { admitted = 0, paired = 0, dropped = {} } = ranking.books ?? {};
  const reasons = Object.entries(dropped).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const lost = reasons.reduce((total, [, n]) => total + n, 0);
  const open = admitted - paired - lost;
  return h("div", { class: "panel" }, h("h3", {}, "Books of the copies"),
    h("p", { class: "sum" }, h("b", {}, count(admitted)), " admitted = ", h("b", {}, count(paired)), " paired + ", h("b", {}, count(lost)), " dropped", open ? [" + ", h("b", {}, count(open)), open > 0 ? " in flight" : " too many (the books do not close)"] : ""),
    marked(ranking),
    reasons.length ? h("table", { "aria-label": "Copies dropped, by reason" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Dropped because"), h("th", { scope: "col", class: "r" }, "Copies"))), h("tbody", {}, reasons.map(([reason, n]) => h("tr", {}, h("td", {}, words(reason)), h("td", { class: "r" }, count(n)))))) : null);
}

function arms(ranking) {
  const shown = told(ranking.candidates, ARM_METRICS);
  const slo = [...ranking.candidates, ranking.control, ranking.production].some((arm) => typeof arm?.slo_met === "number");
  const row = (arm, name, kind) => h("tr", { class: kind === "candidate" ? null : "reference" }, h("th", { scope: "row" }, name, kind === "production" ? h("div", { class: "ci" }, ranking.mode === "replay" ? "not asked: a recording is replayed" : "observed only, not comparable") : null), h("td", { class: "r" }, count(arm?.n)), h("td", { class: "r" }, count(arm?.errors), Object.entries(arm?.faults ?? {}).map(([fault, n]) => h("div", { class: "ci" }, `${words(fault)} ${count(n)}`))),
    slo ? h("td", { class: "r" }, typeof arm?.slo_met === "number" ? `${(arm.slo_met * 100).toFixed(1)} %` : "–") : null,
    shown.map(([key]) => h("td", { class: "r" }, ms(arm?.[key]?.p50), h("span", { class: "dim" }, ` / ${ms(arm?.[key]?.p95)}`))));
  return h("div", { class: "panel scroll" }, h("table", {},
    h("caption", {}, "Latency in ms", h("span", {}, "median / 95th percentile of each arm; compare candidates with control only")),
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Arm"), h("th", { scope: "col", class: "r" }, "Answers"), h("th", { scope: "col", class: "r" }, "Errors"), slo ? h("th", { scope: "col", class: "r" }, "Within SLO") : null, shown.map(([, name]) => h("th", { scope: "col", class: "r" }, name)))),
    h("tbody", {}, ranking.candidates.map((c) => row(c, c.name, "candidate")), ranking.control ? row(ranking.control, ranking.control.name ?? "control", "control") : null, ranking.production ? row(ranking.production, "production", "production") : null)));
}

const WAITS = {
  live: "A pair is one sampled request answered by control and every candidate. If this stays: is there traffic, is the sample rate above 0, and do control and candidates answer?",
  switchback: "A pair is one sampled request answered by the control in its slot and by a candidate in the next. If this stays for two slots: is there traffic, is the sample rate above 0, and do arms come when it is their turn?",
  replay: "A pair is one recorded request answered by the control in its slot and by a candidate in the next. If this stays for two slots: do arms come when it is their turn?",
};

function waiting(spec) {
  return h("div", { class: "panel empty" }, h("h2", {}, "No pair has arrived yet"), h("p", {}, `Candidates: ${(spec.candidates ?? []).join(", ") || "none"}. ${WAITS[spec.mode] ?? WAITS.live}`));
}

const FRAME = ["head", "turns", "launched", "table", "charts", "detail"];

export function drawExperiment(section, spec, ranking, status) {
  const slots = section.slots ?? (section.slots = Object.fromEntries(FRAME.map((name) => [name, section.appendChild(document.createElement("div"))])));
  section.setAttribute("aria-label", `Experiment ${spec.name}`);
  show(slots.head, [spec, ranking && { ...ranking, candidates: ranking.candidates.map((c) => c.verdicts) , control: 0, production: 0 }], () => head(spec, ranking));
  show(slots.turns, turnsOf(status, spec.name), () => turnsPanel(status, spec.name) ?? []);
  show(slots.launched, status?.launched ?? null, () => launchedPanel(status, spec.name) ?? []);
  if (!ranking || !(ranking.pairs > 0 || (ranking.books?.admitted ?? 0) > 0)) {
    show(slots.table, spec, () => waiting(spec));
    for (const name of ["charts", "detail"]) show(slots[name], null, () => []);
    section.charts = undefined;
    return;
  }
  show(slots.table, [ranking.phase, ranking.margin, ranking.candidates.map((c) => ({ ...c, series: 0 })), ranking.control], () => rankingTable(ranking));
  if (ranking.phase === "calibration") show(slots.charts, "calibrating", () => h("p", { class: "note" }, "Charts over time start when calibration ends: until then nothing is compared with a candidate."));
  else drawCharts(section, slots.charts, ranking);
  show(slots.detail, [ranking.candidates.map((c) => ({ ...c, series: 0 })), ranking.control, ranking.production, ranking.books, ranking.checks, ranking.load, ranking.hardware, ranking.forced, ranking.scored, ranking.marked_pairs, ranking.cost, ranking.why, ranking.beaten, ranking.discoveries], () =>
    h("div", { class: "grid" }, h("div", { class: "w8 stack" }, outputs(ranking), diffsPanel(ranking), forcedPanel(ranking), scoredPanel(ranking), goldenPanel(ranking), arms(ranking), costPanel(ranking), whyPanel(ranking), ratesPanel(ranking), percentilesPanel(ranking), togetherNote(ranking), gpuPanel(ranking), books(ranking)), h("div", { class: "w4 stack" }, checks(ranking), loadPanel(ranking))));
}
