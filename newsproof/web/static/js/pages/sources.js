// Sources: where news comes from by itself, how each source does, and what to do about one that fails.

import { getJson } from "../api.js";
import { command } from "../case/records.js";
import { external, h, replace, words } from "../dom.js";
import { clock, duration, known, number } from "../format.js";
import { asWritten, t } from "../i18n.js";
import { empty, failed, loading } from "../states.js";
import { onStatus } from "../status.js";
import { csvLink } from "../study.js";
import { plainTable } from "../tables.js";
import { agoTime, whileSeen } from "../times.js";

const EVERY_MS = 5_000;
const STATES = ["blocked", "backing_off", "left out", "stale", "never looked at", "ok", "muted", "off"];
const KINDS = ["feed", "json", "socket", "telegram", "markets"];
const TONES = { ok: "good", stale: "warn", "left out": "warn", backing_off: "warn", blocked: "bad" };
const COLUMNS = [["source"], ["kind"], ["state"], ["looked_at", 1], ["news_at", 1], ["lag", 1], ["new", 1], ["late", 1], ["edits", 1], ["repeats", 1], ["refused", 1]];

export function mount(main, { query, signal, setTitle }) {
  setTitle(t("nav.sources"));
  const asOf = h("p", {});
  const trouble = h("div", {});
  const above = h("div", { class: "src-above" }, loading());
  const save = h("div", { class: "src-save" });
  const list = h("div", {});
  let found = null;
  let program = "newsproof";
  const draw = () => found && (show(above, head(found, program)), show(list, table(found.items.filter((one) => fits(query, one)))));
  const choose = filters(query, () => {
    replace(save, csvLink("sources", chosen(query)));
    draw();
  });
  replace(save, csvLink("sources", chosen(query)));
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("src.title")), asOf), trouble, above,
    h("div", { class: "src-tools" }, choose, save), list, h("p", { class: "hint pad-top" }, t("src.hint")));

  async function look() {
    try {
      found = await getJson("sources", {}, signal);
      replace(trouble);
      replace(asOf, t("ops.as_of", { at: clock(found.at) }));
      draw();
    } catch (error) {
      if (signal.aborted || error.name === "AbortError") return;
      if (found === null) above.replaceChildren();
      const said = failed(error, () => look());
      if (found !== null) said.append(h("p", {}, t("ops.stale", { at: clock(found.at) })));
      if (trouble.textContent !== said.textContent) trouble.replaceChildren(said);
    }
  }

  onStatus((status) => {
    program = status.command ?? program;
    draw();
  }, signal);
  whileSeen(look, EVERY_MS, signal);
}

/** Redrawn only if it would look different: reading and selecting are not disturbed. */
function show(place, node) {
  if (!place.firstElementChild?.isEqualNode(node)) place.replaceChildren(node);
}

const chosen = (query) => Object.fromEntries(["state", "kind"].map((name) => [name, query.get(name)]));
const fits = (query, one) => ["state", "kind"].every((name) => !query.get(name) || query.get(name) === one[name]);
const stateKey = (state) => `src.state.${state.replaceAll(" ", "_")}`;

function filters(query, changed) {
  const select = (name, options, key) => h("label", { class: "field" }, h("span", {}, t(`src.${name}`)), h("select", { class: "input", name, on: {
    change: (event) => {
      if (event.target.value) query.set(name, event.target.value);
      else query.delete(name);
      const text = query.toString();
      history.replaceState(null, "", `/sources${text ? `?${text}` : ""}`);
      changed();
    },
  } }, h("option", { value: "" }, t("any")), options.map((one) => h("option", { value: one, selected: one === query.get(name) }, t(key(one))))));
  return h("form", { class: "filters", role: "search", "aria-label": t("filters"), on: { submit: (e) => e.preventDefault() } },
    select("state", STATES, stateKey), select("kind", KINDS, (one) => `src.kind.${one}`));
}

/** Whether a listener runs, and the whole list in a line. */
function head({ listens, has_key, items }, program) {
  const on = items.filter((one) => !["off", "muted"].includes(one.state));
  const states = STATES.map((state) => [state, on.filter((one) => one.state === state).length]).filter(([, n]) => n > 0);
  const sum = (field) => number(items.reduce((all, one) => all + one[field], 0));
  const line = h("p", { class: "src-summary" }, t("src.summary", { on: on.length, all: items.length }), " ",
    states.map(([state, n], at) => [at > 0 && " · ", h("span", {}, `${number(n)} ${t(stateKey(state))}`)]),
    t("src.summary.items", { new: sum("new"), edits: sum("edits") }));
  const named = items.filter((one) => one.unmarked > 0);
  const identity = [
    listens && !has_key && h("div", { class: "notice warn" }, h("p", {}, t("src.no_listener_key"))),
    named.length > 0 && h("div", { class: "notice warn" }, h("p", {}, t("src.unmarked", { n: sum("unmarked"), ids: named.map((one) => one.id).join(t("comma")) })),
      command(`${program} dlq list --reason unmarked_source`)),
  ].filter(Boolean);
  if (listens) return h("div", {}, identity, line);
  const never = items.every((one) => one.looked_at === null);
  const how = h("div", { class: "commands" }, [["check", "listen --check"], ["beside", "listen"], ["up", "up --listen"]].map(([name, words]) => [h("p", { class: "hint" }, t(`src.how.${name}`)), command(`${program} ${words}`)]));
  const off = never ? empty(t("src.none"), t("src.cost"), how) : h("div", { class: "notice warn" }, h("p", {}, t("src.stopped")), how);
  return h("div", {}, off, identity, line);
}

function table(items) {
  if (items.length === 0) return h("p", { class: "state" }, t("src.no_match"));
  const rows = items.flatMap((one) => [row(one), (one.reason || one.why) && whyRow(one)].filter(Boolean));
  return plainTable(t("src.title"), COLUMNS.map(([name, right]) => [t(`src.${name}`), right]), rows);
}

const seconds = (value) => (value < 120 ? `${number(value)} ${t("unit.s")}` : duration(value * 1000));

function row(one) {
  const cell = (name, value, right = true) => h("td", { class: right ? "n" : "", data: { label: t(`src.${name}`) } }, value);
  const at = (value) => (value === null ? "–" : agoTime(value, { class: "" }));
  const lag = known(one.lag_p50_s) ? `${seconds(one.lag_p50_s)} · ${seconds(one.lag_p95_s)}` : "–";
  const count = (name) => cell(name, number(one[name]));
  return h("tr", { class: one.on || one.state === "left out" ? "" : "src-off" }, h("th", { scope: "row" }, words(one.id)),
    cell("kind", [t(`src.kind.${one.kind}`), one.language && h("span", { class: "faint" }, ` ${one.language}`)], false),
    h("td", {}, h("span", { class: `tag ${TONES[one.state] ?? ""}` }, t(stateKey(one.state)))),
    cell("looked_at", at(one.looked_at)), cell("news_at", at(one.news_at)), cell("lag", lag),
    ["new", "late", "edits", "repeats", "refused"].map(count));
}

/** What is wrong and what to do, on a line of its own below the source. */
function whyRow(one) {
  const todo = one.reason ? t(`src.do.${one.reason}`, { key: one.key }) : "";
  return h("tr", { class: "src-why" }, h("td", { colspan: COLUMNS.length },
    one.state !== "left out" && [words(asWritten(one.why)), t("colon")], h("span", { class: "src-do" }, todo), " ", one.kind !== "markets" && external(one.url, one.url, { host: false })));
}
