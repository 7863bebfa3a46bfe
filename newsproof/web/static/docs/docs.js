// The documentation of the API, drawn from /openapi.json. Nothing is loaded from another host; all text is set as text.

const element = (name, attributes = {}, ...inside) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...inside.filter((one) => one !== null && one !== undefined));
  return made;
};

const shortType = (schema = {}) => {
  if (schema.anyOf) return schema.anyOf.map(shortType).join(" or ");
  if (schema.enum) return schema.enum.map((one) => JSON.stringify(one)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.type === "array") return `list of ${shortType(schema.items)}`;
  return schema.$ref ? schema.$ref.split("/").pop() : schema.type ?? "any";
};

const bounds = (schema = {}) => [
  ["minimum", "at least"], ["maximum", "at most"], ["minLength", "at least characters:"], ["maxLength", "at most characters:"],
  ["maxItems", "at most items:"], ["default", "default"],
].filter(([key]) => schema[key] !== undefined && schema[key] !== "" && schema[key] !== null)
  .map(([key, words]) => `${words} ${JSON.stringify(schema[key])}`).join(", ");

function resolved(api, schema = {}, depth = 0) {
  if (schema.$ref && depth < 6) return resolved(api, api.components.schemas[schema.$ref.split("/").pop()], depth + 1);
  return schema;
}

function table(columns, rows) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": columns[0] },
    element("table", {}, element("thead", {}, element("tr", {}, ...columns.map((one) => element("th", { scope: "col" }, one)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell ?? "")))))));
}

function body(api, operation) {
  const schema = operation.requestBody?.content?.["application/json"]?.schema;
  if (!schema) return null;
  const whole = resolved(api, schema);
  const needed = whole.required ?? [];
  return table(["Body (JSON)", "type", "about"], Object.entries(whole.properties ?? {}).map(([name, one]) => [
    `${name}${needed.includes(name) ? " *" : ""}`, shortType(one), [one.description, bounds(one)].filter(Boolean).join(" · "),
  ]));
}

function asking(method, path, operation) {
  const streams = JSON.stringify(operation.responses ?? {}).includes("event-stream");
  if (method !== "get" || streams) return null;
  const fields = (operation.parameters ?? []).filter((one) => one.in !== "header").map((one) => {
    const input = element("input", { name: one.name, ...(one.required ? { required: "" } : {}) });
    return [one, input];
  });
  const answer = element("pre", { tabindex: "0", hidden: "" });
  const form = element("form", {}, ...fields.map(([one, input]) => element("label", {}, `${one.name} `, input)), element("button", {}, "Ask"), answer);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    let address = path;
    const query = new URLSearchParams();
    for (const [one, input] of fields) {
      if (one.in === "path") address = address.replace(`{${one.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "") query.set(one.name, input.value);
    }
    answer.hidden = false;
    try {
      const response = await fetch(`${address}?${query}`);
      const text = await response.text();
      let shown = text;
      try {
        shown = JSON.stringify(JSON.parse(text), null, 2);
      } catch {
        // Not JSON: shown as it is.
      }
      answer.textContent = `${response.status}\n${shown.slice(0, 100_000)}`;
    } catch (error) {
      answer.textContent = `The server could not be reached (${error.message}).`;
    }
  });
  return element("details", {}, element("summary", {}, "Try it"), form);
}

function operationOf(api, path, method, operation) {
  const parameters = operation.parameters ?? [];
  return element("article", { class: "operation", id: operation.operationId },
    element("h3", {}, element("span", { class: `method ${method}` }, method.toUpperCase()), element("code", {}, path)),
    element("p", {}, operation.description ?? operation.summary ?? ""),
    parameters.length > 0 ? table(["Parameter", "in", "type", "about"], parameters.map((one) => [
      `${one.name}${one.required ? " *" : ""}`, one.in, shortType(one.schema), [one.description, bounds(one.schema)].filter(Boolean).join(" · "),
    ])) : null,
    body(api, operation), asking(method, path, operation));
}

async function draw() {
  const place = document.getElementById("operations");
  const response = await fetch("/openapi.json");
  if (!response.ok) {
    const link = element("a", { href: "/login?next=%2Fdocs" }, "Log in");
    place.replaceChildren(element("p", { class: "alert", role: "alert" }, `The description cannot be read (${response.status}). `, link));
    return;
  }
  const api = await response.json();
  document.getElementById("about").textContent = `${api.info.description} Version ${api.info.version}.`;
  const groups = new Map();
  for (const [path, methods] of Object.entries(api.paths)) {
    for (const [method, operation] of Object.entries(methods)) {
      const tag = operation.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), [path, method, operation]]);
    }
  }
  place.replaceChildren(...[...groups].map(([tag, all]) => element("section", { "aria-label": tag },
    element("h2", {}, tag[0].toUpperCase() + tag.slice(1)), ...all.map(([path, method, operation]) => operationOf(api, path, method, operation)))));
  document.getElementById("contents").replaceChildren(element("ul", {}, ...[...groups.values()].flat().map(([path, method, operation]) =>
    element("li", {}, element("a", { href: `#${operation.operationId}` }, `${method.toUpperCase()} ${path}`)))));
}

draw();
