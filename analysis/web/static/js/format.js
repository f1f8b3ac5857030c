// How numbers are said: a ratio as a change in per cent, instants in ms, "–" for what is not known (never 0).

const NONE = "–";
const known = (value) => typeof value === "number" && Number.isFinite(value);

export function change(ratio) {
  if (!known(ratio)) return NONE;
  const percent = (ratio - 1) * 100;
  const digits = Math.abs(percent) >= 100 ? 0 : 1;
  const text = Math.abs(percent).toFixed(digits);
  return Number(text) === 0 ? "±0 %" : `${percent < 0 ? "−" : "+"}${text} %`;
}

export const ms = (value) => (known(value) ? (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)) : NONE);

export const share = (value) => (known(value) ? value.toFixed(3) : NONE);

export const count = (value) => (known(value) ? Math.round(value).toLocaleString("en-US").replaceAll(",", "\u202f") : NONE);

export function span(seconds) {
  if (!known(seconds)) return NONE;
  if (seconds < 120) return `${seconds.toFixed(0)} s`;
  if (seconds < 7200) return `${(seconds / 60).toFixed(0)} min`;
  return `${(seconds / 3600).toFixed(1)} h`;
}

export const words = (name) => String(name).replaceAll("_", " ");
