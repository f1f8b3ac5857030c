// How elements are made: text only ever enters as text, so nothing an engine answers can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/** Replace what `place` holds, but only if what it shows has changed: selection and focus survive a quiet second. */
export function show(place, shown, build) {
  const print = JSON.stringify(shown);
  if (place.shadowlanePrint === print) return;
  place.shadowlanePrint = print;
  place.replaceChildren(...[build()].flat(Infinity).filter(Boolean));
}
