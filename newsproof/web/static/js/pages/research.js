// Research: ask, watch the agents work, read the answer with its evidence. A turn lives on the server: leaving the
// page, reloading it or losing the connection does not end it, and coming back shows it from its start.

import { ApiError, getJson, postJson, request } from "../api.js";
import { h, icon, replace, roving, words } from "../dom.js";
import { t } from "../i18n.js";
import { follow } from "../sse.js";
import { alarm, announce, empty, explained, failed } from "../states.js";
import { agoTime } from "../times.js";
import { Turn } from "../research/turn.js";
import { chatHistory } from "../research/history.js";
import { knownTurns, rememberTurn } from "../research/turns_kept.js";

const LONGEST = 8_000;
const EARLIER_WITHIN_MS = 5_000; // So long a question waits for what was said before it.
const CONFIRMED_WITHIN_MS = 60_000; // A question that was taken without an answer shows up within this time, or never.
let draft = "";

export function mount(main, { rest, signal, setTitle }) {
  setTitle(t("nav.research"));
  const turns = h("div", { class: "turns" });
  const chats = h("nav", { class: "chats", "aria-label": t("chats") });
  const trouble = h("div", {});
  const talk = new Talk({ turns, trouble, signal, changed: () => listChats(chats, talk.conversation, signal) });
  main.append(h("div", { class: "chat" }, chats, h("section", { class: "talk", "aria-label": t("nav.research") },
    h("div", { class: "page-head" }, h("h1", {}, t("research.title")), h("p", {}, t("research.lead"))), turns, trouble, talk.composer)));
  listChats(chats, rest[0], signal);
  if (rest[0]) talk.load(rest[0]);
  else talk.drawEmpty();
}

async function listChats(place, current, signal) {
  const fresh = h("a", { class: "button quiet", href: "/research" }, icon(["M12 5v14", "M5 12h14"]), t("chats.new"));
  try {
    const { items } = await getJson("research/chats", { limit: 60 }, signal);
    const firsts = new Map();
    for (const one of [...items].sort((a, b) => (a.asked_at < b.asked_at ? -1 : 1))) {
      const known = firsts.get(one.conversation);
      firsts.set(one.conversation, { title: known?.title ?? one.message, at: one.asked_at });
    }
    const newest = [...firsts].sort(([, a], [, b]) => (a.at < b.at ? 1 : -1)).slice(0, 20);
    const list = h("ul", {}, newest.map(([id, one]) => h("li", {}, h("a", { class: "chat-link", href: `/research/${encodeURIComponent(id)}`, "aria-current": id === current && "true" }, words(one.title), agoTime(one.at)))));
    roving(list, ".chat-link");
    replace(place, fresh, h("details", { open: window.innerWidth > 960 }, h("summary", {}, t("chats")), newest.length ? list : h("p", { class: "hint" }, t("chats.none"))));
  } catch (error) {
    if (!signal.aborted) replace(place, fresh, h("p", { class: "hint" }, explained(error)[0]));
  }
}

class Talk {
  constructor({ turns, trouble, signal, changed }) {
    Object.assign(this, { place: turns, trouble, signal, changed, turns: [], conversation: null });
    this.box = h("textarea", { class: "input", id: "question", rows: 2, maxlength: LONGEST, placeholder: t("ask.placeholder"), value: draft, dir: "auto" });
    this.buttons = h("div", { class: "row composer-buttons" });
    this.composer = h("form", { class: "composer card", on: { submit: (event) => {
      event.preventDefault();
      this.ask();
    } } }, h("label", { class: "unseen", for: "question" }, t("ask.label")), this.box, this.buttons);
    this.box.addEventListener("input", () => { draft = this.box.value; });
    this.box.addEventListener("keydown", (event) => {
      // While an input method composes (Chinese), Enter belongs to it; some say so by the old code only.
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
        event.preventDefault();
        this.ask();
      }
    });
    this.drawButtons();
    const size = new ResizeObserver(() => document.documentElement.style.setProperty("--composer", `${Math.ceil(this.composer.offsetHeight)}px`));
    size.observe(this.composer);
    signal.addEventListener("abort", () => size.disconnect());
  }

  get current() {
    const last = this.turns.at(-1);
    return last && !last.ended ? last : null;
  }

  drawEmpty() {
    const examples = ["ask.example.1", "ask.example.2", "ask.example.3"].map((key) => h("li", {}, h("button", { class: "button quiet", type: "button", on: { click: () => this.refill(t(key)) } }, t(key))));
    replace(this.place, empty(t("research.empty"), t("research.empty.hint"), h("ul", { class: "examples" }, examples)));
    if (window.innerWidth > 960) this.box.focus();
  }

  refill(text) {
    this.box.value = draft = text;
    this.box.focus();
  }

  drawButtons() {
    const running = this.current;
    const held = document.activeElement && this.buttons.contains(document.activeElement);
    const stop = (finish) => h("button", { class: `button ${finish ? "" : "quiet"}`, type: "button", data: { stop: finish ? "finish" : "stop" }, on: { click: () => this.stop(finish) } }, t(finish ? "stop.finish" : "stop"));
    replace(this.buttons, running ? [stop(false), stop(true)] : [h("span", { class: "small faint keys" }, t("ask.keys")), h("button", { class: "button main", type: "submit" }, t("ask.send"))]);
    if (held) this.box.focus();
  }

  add(turn) {
    if (this.turns.length === 0) this.place.replaceChildren();
    this.turns.at(-1)?.fold();
    this.turns.push(turn);
    this.place.append(turn.element);
    return turn;
  }

  /** Show a conversation that is on the server: every turn from its start, the one under way until it ends. */
  async load(conversation) {
    this.conversation = conversation;
    this.place.replaceChildren(h("p", { class: "hint", role: "status" }, t("loading")));
    try {
      const { items } = await getJson("research/chats", { conversation, limit: 100 }, this.signal);
      const here = items.filter((one) => one.conversation === conversation).sort((a, b) => (a.asked_at < b.asked_at ? -1 : 1));
      const listed = new Set(here.map((one) => one.chat_id));
      const all = [...here, ...knownTurns(conversation).filter((one) => !listed.has(one.chat_id))];
      if (all.length === 0) all.push({ chat_id: conversation, message: "" });
      for (const one of all) this.add(this.newTurn(one.message, one.chat_id));
      this.drawButtons();
      const last = this.turns.at(-1);
      last.element.scrollIntoView({ block: "start" });
      this.follow(last);
      this.earlier = this.readEarlier(this.turns.slice(0, -1));
      await this.earlier;
    } catch (error) {
      if (!this.signal.aborted) this.place.replaceChildren(failed(error, () => this.load(conversation)));
    }
  }

  newTurn(message, chatId = null) {
    return new Turn({ message, chatId, again: (text) => this.refill(text) });
  }

  async readEarlier(turns) {
    for (const turn of turns) await this.follow(turn, { quiet: true });
  }

  async ask() {
    const message = this.box.value.trim();
    if (!message || this.current || this.sending) return;
    const before = [...this.turns];
    this.trouble.replaceChildren();
    this.sending = true;
    const turn = this.newTurn(message);
    this.add(turn);
    this.box.value = draft = "";
    this.drawButtons();
    turn.element.scrollIntoView({ block: "start" });
    turn.watch(this.signal);
    try {
      await Promise.race([this.earlier, new Promise((resolve) => setTimeout(resolve, EARLIER_WITHIN_MS))]);
      const body = { message };
      if (this.conversation) Object.assign(body, { conversation: this.conversation, previous: before.at(-1)?.chatId ?? undefined });
      // Aborted with the page that shows it, never by a pause of the stream: the turn continues without a reader.
      const response = await request("research/chat", { method: "POST", query: { candles: true }, body: { ...body, chat_history: chatHistory(before) }, signal: this.signal });
      this.taken(turn, response.headers.get("X-Chat-Id"), { first: response });
    } catch (error) {
      // The server may have taken the question without being able to say so: asked again, it would be paid for twice.
      if (error.chatId) this.taken(turn, error.chatId, { until: Date.now() + CONFIRMED_WITHIN_MS });
      else if (!this.signal.aborted) this.notSent(turn, error);
    }
    this.sending = false;
  }

  /** The server has the question: follow it, and do what was wished for meanwhile. */
  taken(turn, chatId, how) {
    turn.chatId = chatId;
    turn.unconfirmed = how.until > 0;
    this.conversation ??= chatId;
    rememberTurn(this.conversation, chatId, turn.message);
    keepPlace(this.conversation);
    this.follow(turn, how);
    this.changed();
    if (turn.wish !== undefined) this.stop(turn.wish);
  }

  notSent(turn, error) {
    turn.element.remove();
    this.turns.pop();
    if (this.turns.length === 0) this.drawEmpty();
    this.refill(turn.message);
    this.drawButtons();
    this.trouble.replaceChildren(failed(error));
  }

  async follow(turn, { first = null, quiet = false, until = 0 } = {}) {
    let response = first;
    const place = { id: null };
    const open = async (lastId, attempt, signal) => {
      if (response) {
        const sent = response;
        response = null;
        return sent;
      }
      try {
        return await request(`research/chat/${encodeURIComponent(turn.chatId)}`, { query: { candles: true }, signal, headers: lastId === null ? {} : { "Last-Event-ID": lastId } });
      } catch (error) {
        if (error.status === 404 && Date.now() < until) throw new ApiError("unreachable");
        throw error;
      }
    };
    try {
      await follow(open, {
        place,
        signal: this.signal,
        onState: (now) => turn.connection(now, { quiet }),
        onEvent: ({ event, data }) => {
          if (turn.unconfirmed) {
            turn.unconfirmed = false;
            if (turn.wish !== undefined) this.stop(turn.wish);
          }
          const said = read(event, data);
          const ended = said !== null && turn.take(said, { quiet });
          if (ended) this.drawButtons();
          return ended;
        },
      });
    } catch (error) {
      turn.refused(error);
      this.drawButtons();
    }
  }

  async stop(finish) {
    const turn = this.current;
    if (!turn) return;
    if (turn.wish !== finish) announce(t(finish ? "turn.finishing" : "turn.stopping"));
    turn.wish = finish;
    turn.stopping(finish);
    if (!turn.chatId || turn.unconfirmed) return; // The wish is sent as soon as the server has said what the turn is called.
    try {
      await postJson(`research/chat/${encodeURIComponent(turn.chatId)}/stop`, undefined, finish ? { finish: true } : {});
    } catch (error) {
      const [said, todo] = explained(error);
      if (error.status === 409) announce(said);
      else alarm(`${said} ${todo}`);
      turn.wish = undefined;
      turn.stoppingFailed();
    }
  }
}

function keepPlace(conversation) {
  const address = `/research/${encodeURIComponent(conversation)}`;
  if (location.pathname !== address) history.replaceState(null, "", address);
}

function read(event, data) {
  try {
    const said = JSON.parse(data);
    return said && typeof said === "object" ? { type: said.type ?? event, data: said.data ?? {} } : null;
  } catch {
    return null;
  }
}
