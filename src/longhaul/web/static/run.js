// A run's page: curves of one or several runs, live, and everything else the first of them tells.
import { Chart, colour, dash } from "./chart.js";
import { byId, make, runAddress, setText, svg } from "./dom.js";
import {
  showCheckpoints, showConfigs, showDecisions, showEvents, showFacts, showFilms, showHints, showWorkers,
} from "./sections.js";
import { ask, followTheme, listen } from "./server.js";

const OVER_WORDS = { steps: "steps", iteration: "iterations", seconds: "seconds" };
const FIRST_GROUPS = ["eval", "rollout", "env", "reward", "train", "policy", "gate", "curriculum", "starts", "tail", "replay"];
const OPEN_GROUPS = new Set(["eval", "rollout", "env", "reward", "train"]);
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
  label: (id) => {
    const entry = entries.get(id);
    return entry?.name ? `${entry.name} s${entry.seed}` : id;
  },
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

// Many charts are drawn a few at a time, so that the page answers in between.
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

// One request at a time for all charts in sight; the newest wish is what counts.
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
    group.open = title === "for this task" || OPEN_GROUPS.has(title);
    const rank = (name) => {
      const at = FIRST_GROUPS.indexOf(name);
      return name === "for this task" ? -1 : at < 0 ? FIRST_GROUPS.length : at;
    };
    const later = [...places.children].find((one) => rank(one.dataset.group) > rank(title));
    places.insertBefore(group, later ?? null);
  }
  return group;
}

function addChart(title, spec) {
  const key = `${title}\n${spec.title}`;
  if (charts.has(key)) return;
  const chart = new Chart(spec, view);
  charts.set(key, chart);
  const group = groupOf(title);
  group.lastElementChild.append(chart.element);
  setText(group.querySelector("summary .faint"), String(group.lastElementChild.children.length));
  watch(chart);
}

function showCharts({ metrics, panels, settings }) {
  const known = new Set(metrics);
  for (const panel of panels ?? []) {
    const names = panel.metrics.filter((name) => known.has(name));
    const right = panel.right.filter((name) => known.has(name) || settings.includes(name));
    if (names.length) addChart("for this task", { title: panel.title, names, right, note: panel.note });
  }
  for (const name of metrics) {
    addChart(name.includes("/") ? name.split("/")[0] : "other", { title: name, names: [name] });
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

function find() {
  const words = byId("find").value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const chart of charts.values()) {
    const text = [chart.spec.title, ...chart.names].join(" ").toLowerCase();
    chart.element.hidden = !words.every((word) => text.includes(word));
  }
  for (const group of byId("charts").children) {
    group.hidden = [...group.lastElementChild.children].every((one) => one.hidden);
    if (words.length && !group.hidden) group.open = true;
  }
}

function showLegend() {
  byId("legend").replaceChildren(...view.runs.map((id, at) => make(
    "li", {},
    svg("svg", { width: 26, height: 8, "aria-hidden": "true" }, svg("line", {
      x1: 0, y1: 4, x2: 26, y2: 4, stroke: colour(at), "stroke-width": 2.5, "stroke-dasharray": dash(at).join(" ") || "none",
    })),
    make("a", { href: runAddress([id]), title: id }, view.label(id)),
    view.runs.length > 1
      ? make("button", { type: "button", "aria-label": `Leave out ${view.label(id)}`, on: { click: () => setRuns(view.runs.filter((one) => one !== id)) } }, "×")
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
    showConfigs(found, view.label, byId("differing").checked);
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
    showCheckpoints(found.checkpoints ?? []);
  } catch (error) {
    if (String(error).includes("404")) setText(byId("words"), "There is no such run.");
  } finally {
    fetchingRun = false;
  }
}

function showEntry(entry) {
  const title = `${entry.task ?? ""} · ${view.label(entry.id)}`;
  setText(byId("title"), title);
  document.title = `${entry.status} · ${title}`;
  const badge = byId("status");
  badge.dataset.status = entry.status;
  setText(badge, entry.status);
  setText(byId("words"), entry.words ?? "");
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
byId("differing").addEventListener("change", fetchConfigs);
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
