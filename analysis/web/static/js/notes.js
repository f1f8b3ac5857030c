// Each reason once: numbers in a table's cells, and under it what they stand for, as touch and print can show it.

import { h } from "./dom.js";

export class Notes {
  #numbers = new Map();

  /** The number of a reason; null where there is none. */
  mark(why) {
    if (!why) return null;
    if (!this.#numbers.has(why)) this.#numbers.set(why, this.#numbers.size + 1);
    return h("sup", { class: "mark" }, this.#numbers.get(why));
  }

  /** All reasons that were asked for, in order of their numbers; null without any. */
  list() {
    return this.#numbers.size ? h("ol", { class: "notes" }, [...this.#numbers.keys()].map((why) => h("li", {}, why))) : null;
  }
}
