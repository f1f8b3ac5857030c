// Of which latencies is there something to tell?  Where nobody reasons, visible text begins at the TTFT.

const FIGURES = ["units", "ratio", "lower", "upper"];

/** Whether a candidate's first visible text, or the control's, came later than its first token, in any pair. */
export function hides({ verdicts }) {
  const first = verdicts?.ttft ?? {}, visible = verdicts?.visible ?? {};
  return Boolean(visible.units) && FIGURES.some((each) => first[each] !== visible[each]);
}

/** Those of the latencies, keys with what they are called, that say something of their own. */
export function told(candidates, latencies) {
  const some = candidates.some(hides);
  return latencies.filter(([key]) => some || !key.startsWith("visible"));
}
