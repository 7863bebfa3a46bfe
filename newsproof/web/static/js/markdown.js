// Markdown to elements, as far as answers use it: headings, lists, quotes, code, tables, bold, italic, links, [n].
// No HTML: angle brackets are text. No pictures: of ![…](…) the words stay. One pass over the text, no look-behind.

import { external, h, httpUrl, words } from "./dom.js";
import { t } from "./i18n.js";

// Anything longer or larger is shown as plain text: some characters of an answer must not become a page that hangs.
const LONGEST = 40_000;
const COLUMNS = 30;
const CELLS = 2_000;
const DEEPEST = 6;

/** `cite(number)` makes the element of a citation. Headings begin at `top` (3 = h3). */
export function markdown(text, { cite = null, top = 3 } = {}) {
  const whole = String(text ?? "").replace(/\r\n?/g, "\n");
  const end = whole.length <= LONGEST ? whole.length : Math.max(whole.lastIndexOf("\n", LONGEST), 0) || LONGEST;
  const lines = whole.slice(0, end).split("\n");
  // The highest heading of the text becomes an h3, whatever its author began with.
  const highest = lines.reduce((least, line) => Math.min(least, /^\s{0,3}(#{1,6})\s/.exec(line)?.[1].length ?? 6), 6);
  return h("div", { class: "markdown", dir: "auto" }, blocks(lines, { cite, top: top - highest + 1, depth: 0, cells: { left: CELLS } }), plain(whole.slice(end)));
}

const plain = (text) => text !== "" && h("pre", { tabindex: 0, dir: "auto" }, text);

function blocks(lines, context) {
  const made = [];
  let at = 0;
  while (at < lines.length) {
    const [node, next] = block(lines, at, context);
    if (node) made.push(node);
    at = Math.max(next, at + 1);
  }
  return made;
}

function block(lines, at, context) {
  const line = lines[at];
  if (line.trim() === "") return [null, at + 1];
  const fence = /^\s{0,3}(`{3,}|~{3,})/.exec(line);
  if (fence) return fenced(lines, at, fence[1]);
  const heading = /^\s{0,3}(#{1,6})\s+(.*)$/.exec(line);
  if (heading) return [h(`h${Math.min(Math.max(context.top + heading[1].length - 1, 3), 6)}`, { dir: "auto" }, inline(heading[2].replace(/\s#+\s*$/, ""), context)), at + 1];
  if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) return [h("hr", {}), at + 1];
  if (/^\s{0,3}>/.test(line)) return quoted(lines, at, context);
  if (item(line)) return listed(lines, at, context);
  if (line.includes("|") && isRule(lines[at + 1])) return table(lines, at, context);
  return paragraph(lines, at, context);
}

function fenced(lines, at, fence) {
  let end = at + 1;
  while (end < lines.length && !lines[end].trim().startsWith(fence)) end += 1;
  return [h("pre", { tabindex: 0, dir: "ltr" }, h("code", {}, lines.slice(at + 1, end).join("\n"))), end + 1];
}

function quoted(lines, at, context) {
  let end = at;
  while (end < lines.length && /^\s{0,3}>/.test(lines[end])) end += 1;
  const inside = lines.slice(at, end).map((line) => line.replace(/^\s{0,3}>\s?/, ""));
  return [h("blockquote", {}, context.depth < DEEPEST ? blocks(inside, { ...context, depth: context.depth + 1 }) : inside.join(" ")), end];
}

const item = (line) => /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/.exec(line);

function listed(lines, at, context) {
  const first = item(lines[at]);
  const indent = first[1].length;
  const ordered = /\d/.test(first[2]);
  const list = h(ordered ? "ol" : "ul", ordered && Number.parseInt(first[2], 10) !== 1 ? { start: Number.parseInt(first[2], 10) } : {});
  let end = at;
  while (end < lines.length) {
    const found = item(lines[end]);
    if (!found || found[1].length < indent || /\d/.test(found[2]) !== ordered) break;
    const from = end;
    end += 1;
    while (end < lines.length && belongs(lines, end, indent)) end += 1;
    const rest = lines.slice(from + 1, end).map((line) => line.slice(Math.min(indent + 2, line.length - line.trimStart().length)));
    const inside = context.depth < DEEPEST ? blocks(rest, { ...context, depth: context.depth + 1 }) : rest.join(" ");
    list.append(h("li", { dir: "auto" }, inline(found[3], context), inside));
    let blank = end;
    while (blank < lines.length && lines[blank].trim() === "") blank += 1;
    const next = lines[blank] === undefined ? null : item(lines[blank]);
    if (next && next[1].length === indent) end = blank;
  }
  return [list, end];
}

function belongs(lines, at, indent) {
  const line = lines[at];
  if (line.trim() === "") return lines[at + 1] !== undefined && /^\s/.test(lines[at + 1]) && lines[at + 1].length - lines[at + 1].trimStart().length > indent;
  return line.length - line.trimStart().length > indent;
}

const isRule = (line) => line !== undefined && line.includes("-") && /^[\s|:-]+$/.test(line) && line.includes("|");
const cells = (line) => line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((cell) => cell.trim());

function table(lines, at, context) {
  const heads = cells(lines[at]);
  const right = cells(lines[at + 1]).map((rule) => /^-+:$/.test(rule));
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const fits = heads.length > COLUMNS ? 0 : Math.floor(context.cells.left / heads.length) - 1;
  if (fits < 1) return [plain(lines.slice(at, end).join("\n")), end];
  const last = Math.min(end, at + 2 + fits);
  const rows = lines.slice(at + 2, last).map(cells);
  context.cells.left -= (rows.length + 1) * heads.length;
  const cell = (tag, text, column) => h(tag, { class: right[column] ? "n" : "", scope: tag === "th" ? "col" : null, dir: "auto" }, inline(text ?? "", context));
  const drawn = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("table") }, h("table", {},
    h("thead", {}, h("tr", {}, heads.map((text, column) => cell("th", text, column)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, heads.map((_, column) => cell("td", row[column], column)))))));
  return [last < end ? h("div", {}, drawn, plain(lines.slice(last, end).join("\n"))) : drawn, end];
}

function paragraph(lines, at, context) {
  let end = at + 1;
  while (end < lines.length && lines[end].trim() !== "" && !starts(lines, end)) end += 1;
  return [h("p", { dir: "auto" }, inline(lines.slice(at, end).map((line) => line.trim()).join("\n"), context)), end];
}

const starts = (lines, at) => /^\s{0,3}(#{1,6}\s|>|`{3,}|~{3,})/.test(lines[at]) || Boolean(item(lines[at])) || (lines[at].includes("|") && isRule(lines[at + 1]));

// Within a line

const CODE = /^(`+)([^`](?:[^`]*[^`])?)\1(?!`)/;
const MARK = /^(\*\*|__|\*|_)(?=\S)/;
const LINK = /^!?\[([^\[\]]{0,500})\]\(\s*<?([^\s<>()]{1,2000})>?(?:\s+"[^"]{0,300}")?\s*\)/;
const CITED = /^\[(\d{1,3})\]/;
const ADDRESS = /^https?:\/\/[^\s<>()[\]"'`]{1,500}[^\s<>()[\]"'`.,;:!?]/;
const SPECIAL = /[`*_[!\\h]/g;

function inline(text, context, depth = 0) {
  const made = [];
  let plain = "";
  const flush = () => {
    if (plain) made.push(plain);
    plain = "";
  };
  let at = 0;
  while (at < text.length) {
    SPECIAL.lastIndex = at;
    const special = SPECIAL.exec(text);
    const to = special === null ? text.length : special.index;
    plain += text.slice(at, to);
    at = to;
    if (at >= text.length) break;
    const found = span(text.slice(at, at + 4_000), context, depth, plain);
    if (found) {
      flush();
      made.push(found[0]);
      at += found[1];
    } else {
      plain += text[at];
      at += 1;
    }
  }
  flush();
  return made;
}

function span(rest, context, depth, before) {
  if (rest[0] === "\\" && /^\\[!-/:-@[-`{-~]/.test(rest)) return [rest[1], 2];
  const code = rest[0] === "`" && CODE.exec(rest);
  if (code) return [h("code", { dir: "ltr" }, code[2].trim()), code[0].length];
  const cited = CITED.exec(rest);
  if (cited && rest[cited[0].length] !== "(") return [context.cite ? context.cite(Number(cited[1])) : cited[0], cited[0].length];
  const link = LINK.exec(rest);
  if (link) return [rest[0] === "!" ? picture(link) : leads(link), link[0].length];
  const bare = rest[0] === "h" && ADDRESS.exec(rest);
  if (bare) return [external(bare[0], bare[0], { host: !saysItsHost(bare[0]) }), bare[0].length];
  return depth < DEEPEST ? stressed(rest, context, depth, before) : null;
}

function stressed(rest, context, depth, before) {
  const mark = MARK.exec(rest);
  if (!mark || (mark[1][0] === "_" && /[\p{L}\p{N}]$/u.test(before))) return null;
  const end = rest.indexOf(mark[1], mark[1].length);
  if (end <= mark[1].length - 1 || end < 0 || /\s$/.test(rest.slice(0, end)) || end === mark[1].length) return null;
  if (mark[1].length === 1 && rest[end + 1] === mark[1]) return null;
  return [h(mark[1].length === 2 ? "strong" : "em", {}, inline(rest.slice(mark[1].length, end), context, depth + 1)), end + mark[1].length];
}

/** Whether an address names its host as it is resolved; look-alike letters of other scripts do not. */
const saysItsHost = (address) => {
  const url = httpUrl(address);
  return url !== null && address.toLowerCase().startsWith(`${url.protocol}//${url.host}`);
};
const leads = (link) => (httpUrl(link[2]) ? external(link[2], link[1]) : words(link[1], "span", { class: "no-link", title: t("link.not_opened") }));
const picture = (link) => words(`[${t("picture.not_loaded")}: ${link[1] || "–"}]`, "span", { class: "no-link" });
