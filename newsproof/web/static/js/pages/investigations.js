// Investigations: have a subject looked into, once or again and again, and follow one to its brief.

import { h } from "../dom.js";
import { t } from "../i18n.js";
import { askingForm } from "../investigations/form.js";
import { listInvestigations } from "../investigations/list.js";
import { Investigation } from "../investigations/one.js";
import { listWatches } from "../investigations/watches.js";

export function mount(main, place) {
  if (place.rest[0]) new Investigation(main, place);
  else showAll(main, place);
}

function showAll(main, { query, signal, setTitle }) {
  setTitle(t("nav.investigations"));
  const watches = h("section", { class: "section watches" });
  const list = h("section", { class: "section" });
  const showWatches = () => listWatches(watches, signal);
  main.append(h("div", { class: "page-head" }, h("h1", {}, t("inquiry.title")), h("p", {}, t("inquiry.lead"))),
    askingForm({ subject: query.get("subject") ?? "", every: query.get("every") ?? "", signal, watched: showWatches }), list, watches);
  listInvestigations(list, signal);
  showWatches();
}
