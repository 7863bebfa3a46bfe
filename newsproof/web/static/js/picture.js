// A chart that the server draws; a picture of SVG can neither run anything nor load anything.

import { h } from "./dom.js";
import { language, t } from "./i18n.js";

const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = matchMedia("(max-width: 44rem)");

/** The chart `name` of the report in the colours and words of the page, as wide as it, and redrawn if these change. */
export function picture(label, alt, name, asked, signal) {
  const image = h("img", { class: "chart", alt, width: 720, height: 260 });
  const place = h("figure", { class: "scroll chart-place", tabindex: 0, role: "group", "aria-label": label }, image);
  const draw = () => {
    const theme = document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
    const of = { theme, size: narrow.matches ? "narrow" : "wide", language: language() };
    image.src = `/api/v1/report/charts/${name}.svg?${new URLSearchParams({ ...of, ...asked })}`;
  };
  image.addEventListener("load", () => {
    image.removeAttribute("width");
    image.removeAttribute("height");
  }, { once: true });
  image.addEventListener("error", () => place.replaceChildren(h("p", { class: "hint pad" }, t("chart.failed"))));
  draw();
  document.addEventListener("themechange", draw, { signal });
  for (const media of [dark, narrow]) media.addEventListener("change", draw, { signal });
  return place;
}
