// A run's page: curves of one or several runs, live, and all details of the first one.
import { Chart, color, dash } from "./chart.js";
import { byId, make, runAddress, runLabel, setText, svg } from "./dom.js";
import { chartSpecs } from "./families.js";
import {
  showCheckpoints, showConfigs, showDecisions, showEvents, showFacts, showFilms, showHints, showWorkers,
} from "./sections.js";
import { ask, followTheme, listen } from "./server.js";

const OVER_WORDS = { steps: "steps", iteration: "iterations", seconds: "seconds" };
const MAIN = "most important";
const MAIN_METRICS = [
  "rollout/ep_rew_mean", "rollout/ep_len_mean", "train/value_loss", "train/approx_kl", "train/explained_variance",
];
const FIRST_GROUPS = [MAIN, "eval", "rollout", "env", "reward", "train", "policy", "gate", "curriculum", "starts", "tail", "replay"];
const REFRESH_MILLISECONDS = 2000;
const SLICE_MILLISECONDS = 25;
const MOST_NAMES = 60;

const entries = new Map();
const charts = new Map();
let lanes = new Map();

const view = {
  runs: new URLSearchParams(location.search).getAll("run").slice(0, 12),
  over: "steps",
  get overWords() { return OVER_WORDS[this.over]; },
  smoothing: 0,
  log: false,
  window: null,
  constants: false,
  label: (id) => runLabel(entries.get(id), id),
  zoom: (window) => {
    view.window = window;
    byId("reset").disabled = window === null;
    redraw();
    fetchCurves();
  },
};

const everyChart = () => [...charts.values(), ...lanes.values()];
const watched = new Map();
const seen = new IntersectionObserver((found) => {
  let fresh = false;
  for (const one of found) {
    const chart = watched.get(one.target);
    if (!chart) continue;
    fresh ||= one.isIntersecting && !chart.isVisible;
    chart.isVisible = one.isIntersecting;
  }
  if (fresh) fetchCurves();
}, { rootMargin: "250px" });
const sized = new ResizeObserver((found) => found.forEach((one) => watched.get(one.target)?.resize()));

function watch(chart) {
  watched.set(chart.element, chart);
  seen.observe(chart.element);
  sized.observe(chart.element);
}

// Many charts are drawn a few at a time, which keeps the page responsive.
async function inSlices(some, draw) {
  let began = performance.now();
  for (const chart of some) {
    draw(chart);
    if (performance.now() - began > SLICE_MILLISECONDS) {
      await new Promise((resume) => setTimeout(resume));
      began = performance.now();
    }
  }
}

// One request at a time for all visible charts; only the newest request counts.
let asking = null;
let again = false;
let retry = null;
async function fetchCurves() {
  if (asking) {
    again = true;
    return;
  }
  const shown = everyChart().filter((chart) => chart.isVisible);
  if (!shown.length || !view.runs.length) return;
  clearTimeout(retry);
  const names = [...new Set(shown.flatMap((chart) => chart.names))].slice(0, MOST_NAMES);
  const widest = Math.max(...shown.map((chart) => chart.place.clientWidth), 200);
  const wish = JSON.stringify([view.over, view.window]);
  const parameters = [...view.runs.map((id) => ["run", id]), ...names.map((name) => ["name", name])];
  parameters.push(["over", view.over], ["points", Math.round(widest)]);
  if (view.window) parameters.push(["from", view.window[0]], ["to", view.window[1]]);
  asking = ask("/api/curves", parameters);
  try {
    const answer = await asking;
    const isWanted = () => wish === JSON.stringify([view.over, view.window]);
    if (isWanted()) {
      await inSlices(shown, (chart) => { if (isWanted()) chart.update(answer); });
    } else {
      again = true;
    }
    const isRead = answer.read >= 0.999;
    setText(byId("reading"), isRead ? "" : `reading the logs: ${Math.round(answer.read * 100)} %`);
    if (!isRead) retry = setTimeout(fetchAll, 700);
  } catch {
    retry = setTimeout(fetchCurves, REFRESH_MILLISECONDS);
  } finally {
    asking = null;
    if (again) {
      again = false;
      fetchCurves();
    }
  }
}

function fetchAll() {
  fetchRun();
  fetchCurves();
}

function groupOf(title) {
  const places = byId("charts");
  let group = [...places.children].find((one) => one.dataset.group === title);
  if (!group) {
    group = make(
      "details", { class: "group", "data-group": title },
      make("summary", {}, title, " ", make("span", { class: "faint" })), make("div", { class: "grid" }),
    );
    group.open = title === MAIN;
    const rank = (name) => {
      const at = FIRST_GROUPS.indexOf(name);
      return at < 0 ? FIRST_GROUPS.length : at;
    };
    const later = [...places.children].find((one) => rank(one.dataset.group) > rank(title));
    places.insertBefore(group, later ?? null);
  }
  return group;
}

// The panels of the task, then the main metrics; all others by group.
function wantedCharts({ metrics, panels, settings, entry }) {
  const known = new Set(metrics);
  const goal = (names) => (names.includes(entry.measured_by) ? { target: entry.target } : {});
  const wanted = [];
  for (const panel of panels ?? []) {
    const names = panel.metrics.filter((name) => known.has(name));
    const right = panel.right.filter((name) => known.has(name) || settings.includes(name));
    if (names.length) {
      wanted.push([MAIN, { key: `panel ${panel.title}`, title: panel.title, names, right, members: names, note: panel.note, ...goal(names) }]);
    }
  }
  const specs = chartSpecs(metrics).map((spec) => ({ ...spec, ...goal(spec.members) }));
  const main = [entry.measured_by, ...MAIN_METRICS];
  const place = (spec) => main.findIndex((name) => spec.members.includes(name));
  const first = specs.filter((spec) => place(spec) >= 0).sort((one, other) => place(one) - place(other));
  wanted.push(...first.map((spec) => [MAIN, spec]));
  for (const spec of specs) {
    if (place(spec) < 0) wanted.push([spec.title.includes("/") ? spec.title.split("/")[0] : "other", spec]);
  }
  return wanted;
}

let shownSpecs = "";
let constants = new Set();
function showCharts(found) {
  const { settings } = found;
  constants = new Set(found.constants);
  const wanted = wantedCharts(found);
  const text = JSON.stringify(wanted);
  if (text !== shownSpecs) {
    shownSpecs = text;
    arrange(wanted);
  }
  for (const name of settings) {
    if (lanes.has(name)) continue;
    const chart = new Chart({ title: name, names: [name], stepped: true }, view);
    lanes.set(name, chart);
    byId("lanes").append(chart.element);
    watch(chart);
  }
  find();
}

// Charts stay when their metrics stay, which keeps the scroll position.
function arrange(wanted) {
  const kept = new Set();
  for (const [title, spec] of wanted) {
    const key = JSON.stringify([title, spec]);
    kept.add(key);
    if (!charts.has(key)) {
      const chart = new Chart(spec, view);
      charts.set(key, chart);
      watch(chart);
    }
    groupOf(title).lastElementChild.append(charts.get(key).element);
  }
  for (const [key, chart] of charts) {
    if (kept.has(key)) continue;
    charts.delete(key);
    watched.delete(chart.element);
    seen.unobserve(chart.element);
    sized.unobserve(chart.element);
    chart.element.remove();
  }
}

function find() {
  const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  let hiding = 0;
  for (const chart of charts.values()) {
    const text = [chart.spec.title, ...chart.names].join(" ").toLowerCase();
    // A metric that is the same in one run may differ in another.
    const isFlat = view.runs.length === 1 && chart.spec.members.every((name) => constants.has(name));
    hiding += isFlat;
    chart.element.hidden = !words.every((word) => text.includes(word)) || (isFlat && !view.constants && !words.length);
  }
  byId("constants-label").hidden = !hiding;
  setText(byId("constants-label").lastElementChild, `show ${hiding} ${hiding === 1 ? "constant" : "constants"}`);
  for (const group of byId("charts").children) {
    const shown = [...group.lastElementChild.children].filter((one) => !one.hidden);
    group.hidden = !shown.length;
    setText(group.querySelector("summary .faint"), String(shown.length));
    if (words.length && !group.hidden) group.open = true;
  }
}

function showLegend() {
  byId("legend").replaceChildren(...view.runs.map((id, at) => make(
    "li", {},
    svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("line", {
      x1: 0, y1: 4, x2: 26, y2: 4, stroke: color(at), "stroke-width": 2.5, "stroke-dasharray": dash(at).join(" ") || "none",
    })),
    make("a", { href: runAddress([id]), title: id }, view.label(id)),
    view.runs.length > 1
      ? make("button", { type: "button", "aria-label": `Remove ${view.label(id)}`, on: { click: () => setRuns(view.runs.filter((one) => one !== id)) } }, "×")
      : null,
  )));
}

function showOverlayChoices() {
  const choice = byId("overlay");
  const others = [...entries.values()].filter((entry) => !view.runs.includes(entry.id)).reverse();
  const text = JSON.stringify(others.map((entry) => [entry.id, entry.name]));
  if (choice.dataset.shown === text || document.activeElement === choice) return;
  choice.dataset.shown = text;
  choice.replaceChildren(
    make("option", { value: "" }, "a run …"),
    ...others.slice(0, 500).map((entry) => make("option", { value: entry.id }, `${entry.task ?? ""} · ${view.label(entry.id)} · ${entry.id.split("/").at(-1)}`)),
  );
}

function setRuns(runs) {
  view.runs = runs.slice(0, 12);
  history.replaceState(null, "", runAddress(view.runs));
  showLegend();
  delete byId("overlay").dataset.shown;
  showOverlayChoices();
  fetchAll();
  fetchConfigs();
}

async function fetchConfigs() {
  try {
    const found = await ask("/api/configs", view.runs.map((id) => ["run", id]));
    byId("differing-label").hidden = found.runs.length < 2;
    showConfigs(found, view.label, { onlyDiffering: byId("differing").checked, words: byId("find-key").value });
  } catch {
    setTimeout(fetchConfigs, REFRESH_MILLISECONDS);
  }
}

let fetchingRun = false;
async function fetchRun() {
  const [id] = view.runs;
  if (fetchingRun || !id) return;
  fetchingRun = true;
  try {
    const found = await ask("/api/run", [["run", id]]);
    entries.set(id, found.entry);
    showEntry(found.entry);
    showFacts(found);
    showHints(found.hints);
    showCharts({ panels: [], settings: [], ...found });
    showDecisions(found.decisions, found.decision_count);
    showEvents(found.events, found.counts);
    showWorkers(found);
    showFilms(id, found.films ?? [], found.plots ?? []);
    showCheckpoints(found.checkpoints ?? [], found.entry);
    hideEmpty(found);
  } catch (error) {
    if (String(error).includes("404")) setText(byId("words"), "There is no such run.");
  } finally {
    fetchingRun = false;
  }
}

function hideEmpty({ settings = [], films = [], plots = [] }) {
  byId("schedules").hidden = !settings.length;
  byId("films").hidden = !films.length && !plots.length;
  for (const link of document.querySelectorAll(".jump a")) link.hidden = byId(link.hash.slice(1)).hidden;
}

function showEntry(entry) {
  const title = `${entry.task ?? ""} · ${view.label(entry.id)}`;
  setText(byId("title"), title);
  document.title = `${entry.status} · ${title}`;
  const badge = byId("status");
  badge.dataset.status = entry.status;
  setText(badge, entry.status);
  const staging = entry.status === "running" && entry.words === entry.stage;
  setText(byId("words"), staging ? `stage: ${entry.words}` : entry.words ?? "");
  byId("solved").hidden = !entry.solved;
}

let last = 0;
let waiting = null;
function refreshSoon() {
  if (waiting || document.hidden) return;
  waiting = setTimeout(() => {
    waiting = null;
    last = Date.now();
    fetchAll();
  }, Math.max(0, last + REFRESH_MILLISECONDS - Date.now()));
}

function take(found) {
  for (const entry of found) entries.set(entry.id, entry);
  const own = found.filter((entry) => view.runs.includes(entry.id));
  const main = own.find((entry) => entry.id === view.runs[0]);
  if (main) showEntry(main);
  if (own.length) refreshSoon();
  showOverlayChoices();
}

// Once a frame at most; charts out of sight are drawn when they are seen.
let redrawing = null;
function redraw() {
  redrawing ??= requestAnimationFrame(() => {
    redrawing = null;
    inSlices(everyChart().filter((chart) => chart.isVisible && chart.plot), (chart) => chart.draw());
  });
}

byId("smoothing").addEventListener("input", (event) => {
  view.smoothing = Number(event.target.value);
  setText(byId("smoothing-value"), event.target.value);
  redraw();
});
byId("over").addEventListener("change", (event) => {
  view.over = event.target.value;
  view.zoom(null);
});
byId("log").addEventListener("change", (event) => {
  view.log = event.target.checked;
  redraw();
});
byId("overlay").addEventListener("change", (event) => {
  const id = event.target.value;
  event.target.value = "";
  if (id) setRuns([...view.runs, id]);
});
byId("reset").addEventListener("click", () => view.zoom(null));
byId("find").addEventListener("input", find);
byId("constants").addEventListener("change", (event) => {
  view.constants = event.target.checked;
  find();
});
byId("differing").addEventListener("change", fetchConfigs);
byId("find-key").addEventListener("input", fetchConfigs);
for (const part of document.querySelectorAll("details.part")) {
  part.open = part.dataset.open === "wide" && window.innerWidth > 700;
  byId(part.id).addEventListener("toggle", fetchCurves);
}
// A link to a folded part opens it.
const openPart = () => { if (location.hash) { const part = byId(location.hash.slice(1)); if (part instanceof HTMLDetailsElement) part.open = true; } };
window.addEventListener("hashchange", openPart);
openPart();
document.addEventListener("visibilitychange", refreshSoon);
followTheme(() => {
  showLegend();
  redraw();
});
listen({
  all: (found) => {
    entries.clear();
    take(found);
    showLegend();
    fetchConfigs();
    refreshSoon();
  },
  changed: take,
});
fetchAll();
