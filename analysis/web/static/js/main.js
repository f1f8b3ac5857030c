// What the page does over time: follows /api/events, says when it cannot, and hands what came to the views.

import { show } from "./dom.js";
import { drawEmpty, drawExperiment } from "./experiment.js";
import { drawFleets } from "./fleets.js";

const SILENCE_MS = 6000;
const place = (id) => document.getElementById(id);
const rankings = new Map();
let status = null;
let heardAt = 0;
let broken = false;
let due = false;

function state(element, kind, text) {
  element.className = `state ${kind}`;
  if (element.textContent !== text) element.textContent = text;
}

function draw() {
  due = false;
  if (status) {
    place("version").textContent = /^\d/.test(status.version ?? "") ? `v${status.version}` : status.version ?? "";
    const reasons = status.ready?.reasons ?? [];
    state(place("ready"), status.ready?.ready ? "good" : "bad", status.ready?.ready ? "ready for traffic" : `not ready: ${reasons.join("; ") || "no reason given"}`);
    drawFleets(place("fleets"), status);
  }
  const host = place("experiments");
  const specs = status?.experiments ?? [];
  if (status && specs.length === 0) {
    show(host, "empty", drawEmpty);
    return;
  }
  if (host.shadowlanePrint) {
    host.replaceChildren();
    host.shadowlanePrint = undefined;
  }
  for (const spec of specs) {
    let section = [...host.children].find((child) => child.dataset.name === spec.name);
    if (!section) {
      section = document.createElement("section");
      section.className = "experiment";
      section.dataset.name = spec.name;
      host.append(section);
    }
    drawExperiment(section, spec, rankings.get(spec.name) ?? null, status);
  }
  for (const child of [...host.children]) if (!specs.some((spec) => spec.name === child.dataset.name)) child.remove();
}

function changed() {
  heardAt = performance.now();
  if (broken) connected(true);
  if (!due) {
    due = true;
    setTimeout(draw, 0);
  }
}

function connected(yes, why) {
  broken = !yes;
  document.body.classList.toggle("stale", !yes);
  place("banner").hidden = yes;
  place("banner").textContent = yes ? "" : `${why} The figures below are the last ones received; reconnecting by itself.`;
  state(place("link"), yes ? "good" : "bad", yes ? "connected" : "disconnected");
}

function follow() {
  const events = new EventSource("/api/events");
  events.addEventListener("status", (event) => {
    status = JSON.parse(event.data);
    changed();
  });
  events.addEventListener("ranking", (event) => {
    const ranking = JSON.parse(event.data);
    rankings.set(ranking.experiment, ranking);
    changed();
  });
  events.addEventListener("open", () => connected(true));
  events.addEventListener("error", () => {
    connected(false, "No connection to Shadowlane's analysis process.");
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 2000); // the browser gives up after an HTTP error
  });
}

setInterval(() => {
  if (heardAt && !broken && performance.now() - heardAt > SILENCE_MS) connected(false, "The analysis process has gone silent.");
}, 1000);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => window.dispatchEvent(new Event("shadowlane-theme")));
follow();
