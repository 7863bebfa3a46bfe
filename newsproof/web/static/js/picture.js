// A chart that the server draws; a picture of SVG can neither run anything nor load anything.

import { h } from "./dom.js";
import { t } from "./i18n.js";

/** The chart `name` of the report in the colours of the page, and drawn anew where these change. */
export function picture(label, alt, name, asked, signal) {
  const image = h("img", { class: "chart", alt, width: 720, height: 260 });
  const place = h("figure", { class: "scroll chart-place", tabindex: 0, role: "group", "aria-label": label }, image);
  const theme = () => document.documentElement.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const draw = () => {
    image.src = `/api/v1/report/charts/${name}.svg?${new URLSearchParams({ theme: theme(), ...asked })}`;
  };
  image.addEventListener("load", () => {
    image.removeAttribute("width");
    image.removeAttribute("height");
  }, { once: true });
  image.addEventListener("error", () => place.replaceChildren(h("p", { class: "hint pad" }, t("chart.failed"))));
  draw();
  document.addEventListener("themechange", draw, { signal });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw, { signal });
  return place;
}
