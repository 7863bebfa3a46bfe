// What is to be looked into: the subject, how often, and, folded away, how far it may go.

import { postJson, request } from "../api.js";
import { h, replace } from "../dom.js";
import { t } from "../i18n.js";
import { announce, failed } from "../states.js";
import { onStatus } from "../status.js";

const LONGEST = 500;
const HOURS = [1, 6, 12, 24, 168];
const EXAMPLES = ["inquiry.example.1", "inquiry.example.2", "inquiry.example.3"];

/** The form. `every`: "" for once, "news", or hours; `watched()` is called when a watch was set. */
export function askingForm({ subject, every, signal, watched }) {
  const said = h("div", {});
  const box = h("textarea", { class: "input", name: "subject", id: "subject", rows: 2, maxlength: LONGEST, required: true, value: subject, dir: "auto", placeholder: t("inquiry.placeholder") });
  const send = h("button", { class: "button main" });
  const often = h("select", { class: "input", name: "every" }, [["", t("inquiry.once")], ...HOURS.map((n) => [String(n), t("inquiry.every", { n })]), ["news", t("inquiry.on_news")]]
    .map(([value, text]) => h("option", { value, selected: value === every }, text)));
  const limits = h("details", { class: "limits" }, h("summary", { class: "small" }, t("inquiry.limits")), h("div", { class: "fields" },
    field("inquiry.rounds", { name: "rounds", type: "number", min: 1, max: 5 }), field("inquiry.searches", { name: "searches", type: "number", min: 1, max: 50 }),
    field("inquiry.as_of", { name: "as_of", type: "datetime-local" })));
  const settle = () => {
    replace(send, t(often.value ? "inquiry.watch" : "inquiry.send"));
    limits.hidden = often.value !== "";
  };
  often.addEventListener("change", settle);
  settle();
  const key = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  let sent = { key: key(), text: "" };
  const submit = async (event) => {
    event.preventDefault();
    const text = box.value.trim();
    if (!text || send.getAttribute("aria-disabled")) return;
    send.setAttribute("aria-disabled", "true");
    said.replaceChildren();
    // Sent again after a failure, the same subject is the same investigation: it is not paid for twice.
    const body = bodyOf(event.target, text);
    if (sent.text !== JSON.stringify(body)) sent = { key: key(), text: JSON.stringify(body) };
    try {
      if (often.value) {
        await postJson("watches", often.value === "news" ? { subject: text, on_news: true } : { subject: text, every: `${often.value}h` }, {}, signal);
        box.value = "";
        announce(t("watch.set"));
        watched();
      } else go(await ask(body, sent.key, signal));
    } catch (error) {
      if (!signal.aborted) replace(said, failed(error));
    }
    send.removeAttribute("aria-disabled");
  };
  const examples = EXAMPLES.map((name) => h("li", {}, h("button", { class: "button quiet tiny", type: "button", on: { click: () => {
    box.value = t(name);
    box.focus();
  } } }, t(name))));
  const covers = h("p", { class: "hint", hidden: true }, t("inquiry.offline"));
  onStatus((status) => { covers.hidden = status.mode === "live"; }, signal);
  return h("form", { class: "inquiry-form card", on: { submit } }, h("label", { class: "field" }, h("span", {}, t("inquiry.subject")), box), covers,
    h("ul", { class: "row", "aria-label": t("inquiry.examples") }, examples), limits,
    h("div", { class: "row send-row" }, h("label", { class: "field often" }, h("span", {}, t("inquiry.often")), often), send), said);
}

const field = (name, attributes) => h("label", { class: "field" }, h("span", {}, t(name)), h("input", { class: "input", placeholder: t("inquiry.as_set"), ...attributes }));

function bodyOf(form, subject) {
  const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value !== ""));
  const limits = Object.fromEntries(["rounds", "searches"].filter((name) => given[name]).map((name) => [name, Number(given[name])]));
  return { subject, ...(given.as_of && { as_of: new Date(given.as_of).toISOString() }), ...(Object.keys(limits).length > 0 && { limits }) };
}

/** Start one; returns its id, also where the log did not confirm it in time. */
export async function ask(body, key, signal) {
  try {
    const response = await request("investigations", { method: "POST", body, headers: { "Idempotency-Key": key }, signal });
    return (await response.json()).investigation_id;
  } catch (error) {
    if (error.chatId) return error.chatId;
    throw error;
  }
}

/** Show that investigation, as a link to it would. */
export function go(id) {
  history.pushState(null, "", `/investigations/${encodeURIComponent(id)}`);
  window.dispatchEvent(new PopStateEvent("popstate"));
}
