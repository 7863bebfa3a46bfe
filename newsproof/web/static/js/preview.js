// What stands behind a number or a mark (the source that is cited, what a flag means): on hover and on focus, gone with Esc,
// and the pointer may enter it.

import { external, h, replace, words } from "./dom.js";
import { dateTime } from "./format.js";
import { t } from "./i18n.js";

const LEAVE_MS = 180;
let box = null;
let owner = null;
let leaving = null;

/** A button for the citation [number]. `find(number)` gives the source, or nothing; `choose` is what a click does. */
export function citation(number, find, choose) {
  const button = h("button", { class: "cite", type: "button", "aria-label": t("cite", { number }) }, `[${number}]`);
  button.addEventListener("click", () => choose(number));
  return previewed(button, () => {
    const source = find(number);
    return source && [sourceHead(source), source.preview && words(source.preview, "p", { class: "small" }), source.observed_at && h("p", { class: "small faint" }, t("as_of", { at: dateTime(source.observed_at) }))];
  });
}

/** Let an element show its preview. `content()` gives the elements, or nothing. */
export function previewed(element, content) {
  const open = () => {
    const shown = content();
    if (shown) showPreview(element, shown);
  };
  element.addEventListener("pointerenter", open);
  element.addEventListener("focus", open);
  element.addEventListener("pointerleave", leaveSoon);
  element.addEventListener("blur", leaveSoon);
  return element;
}

export function hidePreview() {
  clearTimeout(leaving);
  owner?.removeAttribute("aria-describedby");
  owner = null;
  if (box) box.hidden = true;
}

function leaveSoon() {
  clearTimeout(leaving);
  leaving = setTimeout(hidePreview, LEAVE_MS);
}

function showPreview(button, content) {
  clearTimeout(leaving);
  if (box === null) {
    box = h("div", { class: "preview", id: "preview", role: "tooltip", hidden: true });
    box.addEventListener("pointerenter", () => clearTimeout(leaving));
    box.addEventListener("pointerleave", leaveSoon);
    document.body.append(box);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") hidePreview();
    });
    // Focus by keyboard scrolls, too: the preview goes along, and ends when what it belongs to is out of sight.
    window.addEventListener("scroll", () => owner && place(owner), { passive: true });
  }
  owner?.removeAttribute("aria-describedby");
  owner = button;
  replace(box, content);
  box.hidden = false;
  button.setAttribute("aria-describedby", "preview");
  place(button);
}

function place(button) {
  const at = button.getBoundingClientRect();
  if (at.bottom < 0 || at.top > window.innerHeight || !button.isConnected) {
    hidePreview();
    return;
  }
  const size = box.getBoundingClientRect();
  const left = Math.max(8, Math.min(at.left, window.innerWidth - size.width - 8));
  const below = at.bottom + 6 + size.height < window.innerHeight;
  box.style.left = `${left}px`;
  box.style.top = `${below ? at.bottom + 6 : Math.max(8, at.top - size.height - 6)}px`;
}

/** What a source is called, and where it leads: a case of this page, and elsewhere. */
export function sourceHead(source) {
  const kind = h("span", { class: `tag ${source.kind === "signal" ? "accent" : ""}` }, t(`source.${source.kind}`));
  const title = source.case_id ? h("a", { href: `/case/${encodeURIComponent(source.case_id)}` }, words(source.title)) : source.url ? external(source.url, source.title) : words(source.title);
  const behind = source.case_id && source.url && [" · ", external(source.url, shortened(source.url))];
  return h("p", { class: "source-head" }, kind, " ", title, behind);
}

/** An address as far as it is read; the host stands behind it whole. */
function shortened(address) {
  return address.length > 60 ? `${address.slice(0, 59)}…` : address;
}
