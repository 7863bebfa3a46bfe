// Live: signals as they come, and the cases that are being worked on.

import { getJson, request } from "../api.js";
import { h, replace } from "../dom.js";
import { confidence } from "../format.js";
import { t, term } from "../i18n.js";
import { Board } from "../live/board.js";
import { Running } from "../live/running.js";
import { follow } from "../sse.js";
import { failed, loading } from "../states.js";
import { EVENT_TYPES, STAGES, VERDICTS } from "../vocabulary.js";

const PAGE = 50;
const OPEN = 12;

export function mount(main, { query, signal: gone, setTitle }) {
  setTitle(t("nav.live"));
  const state = h("span", { class: "state-dot busy" }, t("stream.connecting"));
  const body = h("div", { class: "live" });
  const list = h("ol", { class: "signals", "aria-label": t("live.list") });
  const open = h("div", { class: "open-cases" });
  const fresh = h("button", { class: "button main fresh", type: "button", hidden: true });
  const older = h("button", { class: "button", type: "button", hidden: true }, t("older"));
  const message = h("div", {});
  const note = h("div", {});
  main.append(
    h("div", { class: "page-head" }, h("h1", {}, t("live.title")), h("p", {}, t("live.lead")), state),
    filters(query, restart),
    body);
  body.append(h("section", { "aria-label": t("live.list") }, h("div", { class: "fresh-place" }, fresh), note, message, list, h("p", { class: "row more" }, older)), open);
  const board = new Board({ list, message, note, fresh, older, fits: (signal) => fits(query, signal) });
  const running = new Running(open);
  let line = null;
  let lists = 0; // How often the lists were begun anew: what was asked for before is no longer wanted.
  const place = { id: null };

  function restart() {
    line?.abort();
    line = new AbortController();
    board.clear();
    lists += 1;
    place.id = null;
    message.replaceChildren(loading());
    drawState(state, "connecting");
    load(line, false).then((found) => found && connect());
  }

  /** The list names the place in the stream that it was read at: what is published since comes from there. */
  async function load(mine, again) {
    try {
      const found = await getJson("signals", { ...listQuery(query), limit: PAGE }, mine.signal);
      if (mine.signal.aborted) return false;
      place.id ??= found.after ?? null;
      if (again) board.reloaded(found);
      else board.loaded(found);
      loadRunning();
      return true;
    } catch (error) {
      if (!mine.signal.aborted && board.empty) refuse(mine, error);
      return false;
    }
  }

  /** The list of cases has no filter for the confidence: what is judged already is looked through here. */
  async function loadRunning() {
    const mine = lists;
    running.clear();
    const { min_confidence: least, ...asked } = filterQuery(query);
    try {
      const { items } = await getJson("cases", { ...asked, state: "open", limit: OPEN }, gone);
      if (mine === lists) running.loaded(items.filter((one) => !(Number(least) > 0) || one.confidence >= Number(least)));
    } catch {
      // The stream tells of them as they move.
    }
  }

  function connect() {
    line?.abort();
    line = new AbortController();
    const mine = line;
    follow((lastId, attempt, signal) => request("stream", { query: filterQuery(query), signal, headers: lastId === null ? {} : { "Last-Event-ID": lastId } }), {
      signal: mine.signal,
      place,
      onState: (now) => drawState(state, now),
      onEvent: ({ event, data }) => {
        const said = readJson(data);
        if (event === "gap") load(mine, true);
        if (event === "signal" && said) board.arrived(said.data ?? said);
        if (event === "case" && said) running.saw(said.data ?? said);
      },
    }).catch((error) => refuse(mine, error));
  }

  function refuse(mine, error) {
    if (mine.signal.aborted) return;
    drawState(state, "lost");
    message.replaceChildren(failed(error, restart));
  }

  older.addEventListener("click", async () => {
    if (board.trimmed) {
      restart();
      return;
    }
    if (older.getAttribute("aria-disabled")) return;
    older.setAttribute("aria-disabled", "true");
    const mine = lists;
    try {
      const found = await getJson("signals", { ...listQuery(query), limit: PAGE, before: board.next }, gone);
      if (mine === lists && !board.trimmed) board.loadedOlder(found);
    } catch (error) {
      if (!gone.aborted) message.replaceChildren(failed(error));
    }
    older.removeAttribute("aria-disabled");
  });
  gone.addEventListener("abort", () => line?.abort());
  // Browsers open few connections to one host: a tab that nobody looks at leaves its own to the others.
  const looked = () => (document.hidden ? line?.abort() : board.empty ? restart() : connect());
  document.addEventListener("visibilitychange", looked, { signal: gone });
  restart();
}

function readJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function drawState(place, now) {
  place.className = `state-dot ${{ open: "on", connecting: "busy" }[now] ?? "lost"}`;
  replace(place, t(`stream.${now}`));
}

/** Whether the filters take a signal: a revision may no longer be what was asked for. */
function fits(query, signal) {
  const same = (name) => !query.get(name) || String(signal[name] ?? "").toLowerCase() === query.get(name).toLowerCase();
  return ["asset", "event_type", "verdict", "stage"].every(same) && signal.confidence >= Number(query.get("min_confidence") || 0);
}

const filterQuery = (query) => ({ asset: query.get("asset"), event_type: query.get("event_type"), min_confidence: query.get("min_confidence") });
/** Cases under way have neither stage nor verdict: only the list is asked for these, and what the stream brings is looked through. */
const listQuery = (query) => ({ ...filterQuery(query), verdict: query.get("verdict"), stage: query.get("stage") });

function filters(query, changed) {
  const set = (name, value) => {
    if (value) query.set(name, value);
    else query.delete(name);
    const text = query.toString();
    history.replaceState(null, "", `/${text ? `?${text}` : ""}`);
    changed();
  };
  const asset = h("input", { class: "input", name: "asset", autocomplete: "off", spellcheck: "false", placeholder: t("any"), maxlength: 20, value: query.get("asset") ?? "", on: { change: (e) => set("asset", e.target.value.trim().toUpperCase()) } });
  const choice = (name, all) => h("label", { class: "field" }, h("span", {}, t(name)),
    h("select", { class: "input", name, on: { change: (e) => set(name, e.target.value) } },
      h("option", { value: "" }, t("any")), all.map((one) => h("option", { value: one, selected: one === query.get(name) }, term(one)))));
  const least = query.get("min_confidence") ?? "0";
  const said = h("output", {}, confidence(Number(least)));
  const range = h("input", { type: "range", name: "min_confidence", min: 0, max: 1, step: 0.05, value: least, on: {
    input: (e) => { said.textContent = confidence(Number(e.target.value)); },
    change: (e) => set("min_confidence", Number(e.target.value) > 0 ? e.target.value : ""),
  } });
  return h("form", { class: "filters", role: "search", "aria-label": t("filters"), on: { submit: (e) => e.preventDefault() } },
    h("label", { class: "field" }, h("span", {}, t("asset")), asset),
    choice("event_type", EVENT_TYPES), choice("verdict", VERDICTS), choice("stage", STAGES),
    h("label", { class: "field" }, h("span", {}, t("confidence.least"), " ", said), range));
}
