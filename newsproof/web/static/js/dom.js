// Elements are made here and nowhere else: text becomes text nodes, never markup, and a link goes to http(s) or within
// the page. What comes from outside cannot add an element, an attribute that runs, or an address that does.

const SVG = "http://www.w3.org/2000/svg";
// Overrides and embeddings turn the order of what follows around; isolates may swallow it. What has no width hides words
// between others, or makes two names look the same. Controls draw nothing.
const UNSEEN = /[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\u{e0000}-\u{e007f}]/gu;
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]/g;

/** Text as it may be shown: what would reorder the line, or not be seen, is shown visibly, by its code point. */
export function clean(text) {
  return String(text ?? "")
    .replace(UNSEEN, (mark, at, whole) => (joinsPictures(mark, at, whole) ? mark : `[U+${mark.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`))
    .replace(CONTROLS, "\ufffd");
}

/** A joiner within one emoji ("family") hides nothing. */
function joinsPictures(mark, at, whole) {
  return mark === "\u200d" && /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)$/u.test(whole.slice(Math.max(0, at - 2), at)) && /^\p{Extended_Pictographic}/u.test(whole.slice(at + 1, at + 3));
}

/** Make an element. `on` holds listeners, `data` the dataset; false, null and undefined leave an attribute out. */
export function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  // The direction last: set before, it would be determined again with every child.
  const { dir, ...others } = attributes ?? {};
  for (const [name, value] of Object.entries(others)) put(node, name, value);
  fill(node, children);
  put(node, "dir", dir);
  return node;
}

/** Make an SVG element; geometry is in attributes, which a strict policy for styles allows. */
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  return fill(node, children);
}

function put(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name === "on") {
    for (const [event, listener] of Object.entries(value)) node.addEventListener(event, listener);
  } else if (name === "data") {
    Object.assign(node.dataset, value);
  } else if (name === "value" || name === "checked" || name === "selected" || name === "disabled" || name === "open") {
    node[name] = value;
  } else if (/^(on|style$|srcdoc$)/i.test(name)) {
    throw new TypeError(`no ${name} here: use "on", a class, or an attribute of SVG`);
  } else if (name === "href" && !/^\/(?![\/\\])/.test(value)) {
    throw new TypeError("an address to elsewhere is made by external()");
  } else {
    node.setAttribute(name, value === true ? "" : clean(value));
  }
}

function fill(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : document.createTextNode(clean(child)));
  }
  return node;
}

/** Put other children in the place of those that are there. */
export function replace(node, ...children) {
  node.replaceChildren();
  return fill(node, children);
}

/** Text from outside, isolated from the direction of the text around it. */
export function words(text, tag = "bdi", attributes = {}) {
  return h(tag, { ...attributes, dir: "auto" }, text);
}

/** A sentence of ours, whose commands and names are between backticks, as texts and elements. */
export function withCode(sentence) {
  const parts = String(sentence ?? "").split("`");
  return parts.length % 2 ? parts.map((part, n) => (n % 2 ? h("code", {}, part) : part)) : [sentence];
}

/** The address as a URL, if it is one that a link may go to. */
export function httpUrl(address) {
  try {
    const url = new URL(String(address));
    return (url.protocol === "https:" || url.protocol === "http:") && !url.username && !url.password ? url : null;
  } catch {
    return null;
  }
}

/** A link to elsewhere with its host beside it (as it is resolved, so look-alike letters show); else the bare text. */
export function external(address, text, { host = true } = {}) {
  const url = httpUrl(address);
  const shown = words(text || address);
  if (url === null) return h("span", { class: "no-link" }, shown);
  const link = document.createElement("a");
  link.href = url.href;
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  link.append(shown);
  return host ? h("span", { class: "external" }, link, " ", h("span", { class: "host" }, `(${url.host})`)) : link;
}

/** A one-colour drawing of lines, for buttons and empty places. */
export function icon(paths) {
  return svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, paths.map((d) => svg("path", { d })));
}

let sequence = 0;
/** An id for one element of this page, to tie a label or a description to it. */
export function freshId(prefix) {
  sequence += 1;
  return `${prefix}-${sequence}`;
}

/** Move between the items of a list with the arrow keys; one of them can be reached with Tab. */
export function roving(list, selector) {
  const items = () => [...list.querySelectorAll(selector)];
  const settle = () => {
    const all = items();
    const kept = all.find((item) => item.tabIndex === 0 && item === document.activeElement) ?? all.find((item) => item.dataset.roving === "1") ?? all[0];
    for (const item of all) item.tabIndex = item === kept ? 0 : -1;
  };
  list.addEventListener("keydown", (event) => {
    const all = items();
    const at = all.indexOf(event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined || all[to] === undefined) return;
    event.preventDefault();
    for (const item of all) {
      item.tabIndex = -1;
      delete item.dataset.roving;
    }
    all[to].tabIndex = 0;
    all[to].dataset.roving = "1";
    all[to].focus();
  });
  settle();
  return settle;
}
