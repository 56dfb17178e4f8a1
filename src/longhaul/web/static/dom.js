// Elements made of text only: text from a run is never parsed as markup.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value === true) {
      element.setAttribute(name, "");
    } else if (value !== false && value !== null && value !== undefined) {
      element.setAttribute(name, String(value));
    }
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

// Written only when it changes, so screen readers do not repeat it.
export function setText(element, text) {
  const next = String(text);
  if (element.textContent !== next) element.textContent = next;
}

const NUMBERS = new Set(["Step", "Steps", "Size", "Evaluation", "Process"]);

export function table(header, rows, caption) {
  return make(
    "div", { class: "table-wrap" },
    make(
      "table", {},
      make("caption", { class: "hidden" }, caption),
      make("thead", {}, make("tr", {}, ...header.map((title) => make(
        "th", { scope: "col", class: NUMBERS.has(title) ? "number" : null }, title,
      )))),
      make("tbody", {}, ...rows),
    ),
  );
}

// Addresses are built from parts, each encoded, and always lead back to this server.
export function runAddress(ids) {
  const query = new URLSearchParams();
  for (const id of ids) query.append("run", id);
  return `/run?${query}`;
}

export function runLabel(entry, id) {
  return entry?.name ? `${entry.name}, seed ${entry.seed}` : id;
}

export function fileAddress(kind, id, name) {
  return `/files/${[kind, ...id.split("/"), name].map(encodeURIComponent).join("/")}`;
}
