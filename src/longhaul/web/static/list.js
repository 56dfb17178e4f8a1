// The list of runs: updated row by row, which keeps focus and selection.
import { byId, make, runAddress, setText, svg, table } from "./dom.js";
import { followTheme, listen, ask } from "./server.js";
import { compact, duration, figure, moment } from "./words.js";

const STATUSES = ["running", "stalled", "crashed", "failed", "stopped", "finished"];
const MOST_ROWS = 300;
// Scores of different tasks or metrics, and training returns, cannot be compared: they are grouped.
const RANKS = ["final evaluation", "evaluation", "training return"];
function scoreKind(run) {
  if (!run.score) return "~";
  return `${run.score.source === RANKS[2] ? 1 : 0} ${run.task ?? ""} ${run.score.metric}`;
}
const bestKind = (run) => (run.best ? `${run.task ?? ""} ${run.best.metric}` : "~");

const COLUMNS = [
  { title: "Status", key: (run) => STATUSES.indexOf(run.status) },
  { title: "Run", key: (run) => run.name ?? run.id },
  { title: "Task", key: (run) => run.task ?? "" },
  { title: "Seed", key: (run) => run.seed ?? -1, number: true },
  { title: "Progress", key: (run) => run.steps, number: true },
  { title: "Steps/s", key: (run) => (run.status === "running" ? run.fps ?? 0 : -1), number: true },
  { title: "Score", key: (run) => run.score?.value ?? -Infinity, kind: scoreKind, number: true },
  { title: "Best evaluation", key: (run) => run.best?.value ?? -Infinity, kind: bestKind, number: true },
  { title: "Trend", key: (run) => run.best?.value ?? -Infinity, kind: bestKind },
  { title: "Started", key: (run) => run.created },
];
const SHORT = { "final evaluation": "final", evaluation: "evaluation", "training return": "training" };

const runs = new Map();
const lines = new Map();
const selected = new Set();
const order = { column: COLUMNS.length - 1, descending: true };
const shownStatuses = new Set();
let pending = false;

function line(run) {
  const box = make("input", {
    type: "checkbox",
    "aria-label": `Select ${run.id}`,
    on: { change: (event) => {
      if (event.target.checked) selected.add(run.id); else selected.delete(run.id);
      offerComparison();
    } },
  });
  const cells = {
    badge: make("span", { class: "badge" }),
    link: make("a", { href: runAddress([run.id]) }),
    task: make("td", { class: "task" }),
    seed: make("td", { class: "number seed" }),
    steps: make("td", { class: "number steps" }),
    speed: make("td", { class: "number speed" }),
    score: make("td", { class: "number score" }, make("b"), " ", make("small")),
    best: make("td", { class: "number best" }),
    trend: make("td", { class: "trend" }),
    started: make("td", { class: "faint started" }),
  };
  const row = make(
    "tr", {}, make("td", { class: "box" }, box), make("td", { class: "status" }, cells.badge),
    make("th", { scope: "row", class: "run-name" }, cells.link), cells.task, cells.seed, cells.steps,
    cells.speed, cells.score, cells.best, cells.trend, cells.started,
  );
  return { row, cells, spark: "" };
}

function fill(run) {
  if (!lines.has(run.id)) lines.set(run.id, line(run));
  const shown = lines.get(run.id);
  const { cells } = shown;
  cells.badge.dataset.status = run.status;
  setText(cells.badge, run.status);
  cells.badge.title = run.words ?? "";
  setText(cells.link, run.name ?? run.id);
  cells.link.title = run.id;
  setText(cells.task, run.task ?? "");
  cells.task.title = run.task ?? "";
  setText(cells.seed, run.seed ?? "");
  setText(cells.steps, progress(run));
  setText(cells.speed, run.status === "running" && run.fps ? compact(Math.round(run.fps)) : "");
  const [value, source] = cells.score.children;
  setText(value, figure(run.score?.value));
  setText(source, run.score ? SHORT[run.score.source] : "");
  cells.score.classList.toggle("good", run.solved === true);
  cells.score.classList.toggle("bad", run.solved === false && run.status === "finished");
  cells.score.title = scoreWords(run);
  setText(cells.best, figure(run.best?.value));
  cells.best.title = run.best ? `${run.best.metric} at ${compact(run.best.env_steps)} steps` : "no evaluation during training";
  setText(cells.started, moment(run.created));
  const trend = JSON.stringify(run.spark);
  if (trend !== shown.spark) {
    shown.spark = trend;
    cells.trend.replaceChildren(run.spark.length > 1 ? spark(run.spark) : run.read ? "" : "…");
    cells.trend.title = run.spark_of;
  }
}

const WIDTH = 130; // of a small curve
const HEIGHT = 28;

function spark(points) {
  const picture = svg("svg", { class: "spark", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" });
  if (points.length < 2) return picture;
  const xs = points.map(([x]) => x);
  const ys = points.map(([, y]) => y);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const across = (x) => 2 + ((x - left) / (right - left || 1)) * (WIDTH - 6);
  const up = (y) => HEIGHT - 3 - (high === low ? 0.5 : (y - low) / (high - low)) * (HEIGHT - 6);
  const path = points.map(([x, y], at) => `${at ? "L" : "M"}${across(x).toFixed(1)} ${up(y).toFixed(1)}`);
  picture.append(svg("path", { d: path.join("") }));
  const [x, y] = points.at(-1);
  picture.append(svg("circle", { cx: across(x).toFixed(1), cy: up(y).toFixed(1), r: 2 }));
  return picture;
}

function progress(run) {
  const done = run.share === null || run.share === undefined ? "" : ` · ${Math.floor(run.share * 100)} %`;
  const left = run.status === "running" && run.left != null ? `, ${duration(run.left)} left` : "";
  return `${compact(run.steps)}${run.status === "finished" ? "" : done}${left}`;
}

function scoreWords(run) {
  if (!run.score) return "";
  const goal = run.target === null ? "" : `target ${figure(run.target)}${run.solved === null ? "" : run.solved ? " reached" : " not reached"}`;
  return [`${run.score.source}: ${run.score.metric}`, run.score.suite ? `suite ${run.score.suite}` : "", run.interval, goal].filter(Boolean).join("; ");
}

function matches(run) {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = `${run.id} ${run.task ?? ""} ${run.name ?? ""} ${run.seed ?? ""}`.toLowerCase();
  return (!shownStatuses.size || shownStatuses.has(run.status)) && words.every((word) => text.includes(word));
}

function show() {
  pending = false;
  const { key, kind = () => "" } = COLUMNS[order.column];
  const sign = order.descending ? -1 : 1;
  const found = [...runs.values()].filter(matches).sort((one, other) => {
    const [first, second] = [kind(one), kind(other)];
    if (first !== second) return first < second ? -1 : 1;
    const [a, b] = [key(one), key(other)];
    return sign * (a < b ? -1 : a > b ? 1 : one.id < other.id ? -1 : 1);
  });
  const kept = found.slice(0, MOST_ROWS);
  kept.forEach(fill);
  const body = byId("rows");
  const wanted = kept.map((run) => lines.get(run.id).row);
  const same = wanted.length === body.children.length && wanted.every((row, at) => body.children[at] === row);
  if (!same) {
    const focused = document.activeElement;
    body.replaceChildren(...wanted);
    if (focused instanceof HTMLElement && body.contains(focused)) focused.focus({ preventScroll: true });
  }
  byId("empty").hidden = runs.size > 0;
  byId("more").hidden = found.length <= MOST_ROWS;
  setText(byId("more"), `${found.length - MOST_ROWS} more; find them by name or status.`);
  const running = [...runs.values()].filter((run) => run.status === "running").length;
  setText(byId("summary"), `${found.length} of ${runs.size} runs, ${running} running`);
  showStatuses();
}

function soon() {
  if (!pending) {
    pending = true;
    requestAnimationFrame(show);
  }
}

function showHead() {
  byId("head").replaceChildren(
    make("th", { scope: "col" }, make("span", { class: "hidden" }, "Select")),
    ...COLUMNS.map((column, at) => make(
      "th", {
        scope: "col",
        class: column.number ? "number" : null,
        "aria-sort": at === order.column ? (order.descending ? "descending" : "ascending") : "none",
      },
      make("button", { type: "button", on: { click: () => sortBy(at) } }, column.title),
    )),
  );
}

function sortBy(at) {
  order.descending = order.column === at ? !order.descending : Boolean(COLUMNS[at].number);
  order.column = at;
  showHead();
  byId("head").children[at + 1].querySelector("button").focus();
  show();
}

function showStatuses() {
  const counts = new Map();
  for (const run of runs.values()) counts.set(run.status, (counts.get(run.status) ?? 0) + 1);
  const group = byId("statuses");
  for (const status of STATUSES) {
    let button = group.querySelector(`[data-status="${status}"]`);
    if (!button && counts.has(status)) {
      button = make("button", {
        type: "button",
        "data-status": status,
        "aria-pressed": "false",
        on: { click: () => {
          if (shownStatuses.has(status)) shownStatuses.delete(status); else shownStatuses.add(status);
          button.setAttribute("aria-pressed", String(shownStatuses.has(status)));
          show();
        } },
      });
      group.append(button);
    }
    if (button) setText(button, `${status} ${counts.get(status) ?? 0}`);
  }
}

function offerComparison() {
  const link = byId("compare");
  const ready = selected.size > 0;
  link.setAttribute("aria-disabled", String(!ready));
  if (ready) link.href = runAddress([...selected].slice(0, 12)); else link.removeAttribute("href");
  setText(link, selected.size > 1 ? `Compare ${Math.min(selected.size, 12)} runs` : "Compare selected");
}

function forget(id) {
  runs.delete(id);
  lines.get(id)?.row.remove();
  lines.delete(id);
  selected.delete(id);
}

function showZoo(cards) {
  byId("zoo").hidden = cards.length === 0;
  byId("zoo").append(table(
    ["Policy", "Task", "Steps", "Score", "95 % interval", "Measured on", "Trained by"],
    cards.map((card) => make(
      "tr", {}, make("th", { scope: "row" }, card.name), make("td", {}, card.task),
      make("td", { class: "number" }, compact(card.env_steps)),
      make("td", { title: card.metric }, figure(card.score)),
      make("td", {}, `${figure(card.low)} to ${figure(card.high)}`),
      make("td", {}, `${card.episodes} episodes${card.suite ? ` of ${card.suite}` : ""}`),
      make("td", { class: "faint" }, make("code", {}, card.command)),
    )),
    "Trained policies with task, score and command",
  ));
}

followTheme();
showHead();
byId("filter").addEventListener("input", soon);
document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement && event.target.type === "search";
  if (event.key === "/" && !typing) {
    event.preventDefault();
    byId("filter").focus();
  }
});
ask("/api/runs").then(({ root, runs: found }) => {
  setText(byId("root"), root);
  for (const run of found) runs.set(run.id, run);
  show();
}).catch(() => {});
ask("/api/zoo").then(showZoo).catch(() => {});
listen({
  all: (found) => {
    const there = new Set(found.map((run) => run.id));
    for (const id of [...runs.keys()]) if (!there.has(id)) forget(id);
    for (const run of found) runs.set(run.id, run);
    soon();
  },
  changed: (found, gone) => {
    gone.forEach(forget);
    for (const run of found) runs.set(run.id, run);
    soon();
  },
});
