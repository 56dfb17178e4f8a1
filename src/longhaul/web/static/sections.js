// The parts of a run's page that are tables, lists and films.
import { byId, fileAddress, make, setText, table } from "./dom.js";
import { bytes, compact, duration, figure, moment } from "./words.js";

const MOST_ROWS = 60;
const SOURCES = { final: "final evaluation", evaluation: "evaluation", training: "training return" };

// Drawn again only when it differs, which keeps the scroll position.
function renew(place, content, draw) {
  const text = JSON.stringify(content);
  if (place.dataset.shown === text) return;
  place.dataset.shown = text;
  const open = [...place.querySelectorAll("details")].map((one) => one.open);
  place.replaceChildren(...draw());
  place.querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? false; });
}

const nothing = (text) => make("p", { class: "faint" }, text);

function shortened(rows, header, caption) {
  const parts = [table(header, rows.slice(0, MOST_ROWS), caption)];
  if (rows.length > MOST_ROWS) {
    parts.push(make(
      "details", { class: "rest" },
      make("summary", {}, `${rows.length - MOST_ROWS} earlier ones`),
      table(header, rows.slice(MOST_ROWS), caption),
    ));
  }
  return parts;
}

const count = (id, text) => setText(byId(id).querySelector("summary .faint"), text);

// The score against its target: its value and its source.
function scoreFact({ score, interval, solved, target }) {
  if (!score) return { name: "Score", value: "–", note: "no measurement yet", kind: "score" };
  const isTraining = score.source === SOURCES.training;
  const name = { [SOURCES.final]: "Final evaluation", [SOURCES.evaluation]: "Last evaluation" }[score.source] ?? "Training return";
  const goal = target === null ? "" : `target ${figure(target)} ${solved ? "reached" : isTraining ? "" : "not reached"}`.trim();
  const where = score.suite ? `suite ${score.suite}` : "";
  const kind = solved === null ? "score" : solved ? "score good" : "score bad";
  const metric = score.metric === "eval/mean_reward" || isTraining ? "" : score.metric;
  const notes = [metric, where, goal, isTraining ? "no evaluation yet" : interval].filter(Boolean);
  return { name, value: figure(score.value), note: notes.join("; "), kind };
}

function progressFact({ share, left, status }) {
  if (share === null) return null;
  const rest = status === "running" && left != null ? `${duration(left)} left` : status;
  return { name: "Progress", value: `${Math.floor(share * 100)} %`, note: rest, share };
}

export function showFacts({ entry, record }) {
  const { best } = entry;
  const isRunning = entry.status === "running";
  const facts = [
    scoreFact(entry),
    progressFact(entry),
    best && { name: "Best evaluation", value: figure(best.value), note: `in training, at ${compact(best.env_steps)} steps${best.suite ? `, suite ${best.suite}` : ""}` },
    { name: "Steps", value: compact(entry.steps), note: `${compact(entry.iteration)} iterations` },
    { name: "Episodes", value: compact(entry.episodes), note: isRunning && entry.fps ? `${figure(Math.round(entry.fps))} steps per second` : "" },
    { name: "Started", value: moment(record?.created).slice(5), note: "" },
  ].filter(Boolean);
  const place = byId("facts");
  if (place.children.length !== facts.length) {
    place.replaceChildren(...facts.map(() => make("div", {}, make("dt"), make("dd"), make("dd", { class: "fact-note" }))));
  }
  facts.forEach(({ name, value, note, kind, share }, at) => {
    const tile = place.children[at];
    const [title, text, below] = tile.children;
    tile.className = kind ?? "";
    tile.style.setProperty("--share", share === undefined ? "" : `${share * 100}%`);
    tile.toggleAttribute("data-share", share !== undefined);
    setText(title, name);
    setText(text, value);
    setText(below, note);
  });
}

function hintLine(hint) {
  const { rule, evidence, cause, advice, times } = hint.facts;
  const place = [
    rule, hint.step === null ? null : `at ${compact(hint.step)} steps`, Number(times) > 1 ? `shown ${times} times` : null,
    hint.resolved || null,
  ].filter(Boolean).join(" · ");
  const text = advice ? [`${evidence} ${cause} `, make("strong", {}, advice)] : [hint.text || "(an empty hint)"];
  return make("li", {}, ...text, place ? make("span", { class: "faint" }, ` ${place}`) : null);
}

// Hints that no longer apply are folded and not shown as warnings.
export function showHints(hints) {
  const [now, over] = [hints.filter((one) => !one.resolved), hints.filter((one) => one.resolved)];
  byId("hints").hidden = !hints.length;
  byId("hints").classList.toggle("over", !now.length);
  byId("old-hints").hidden = !over.length;
  setText(byId("hints-title"), now.length ? "Hints" : "");
  setText(byId("old-hints").firstElementChild, `${over.length} earlier ${over.length === 1 ? "hint" : "hints"}: ${over[0]?.resolved ?? ""}`);
  renew(byId("hint-list"), now, () => now.slice(-12).reverse().map(hintLine));
  renew(byId("old-hint-list"), over, () => over.slice(-12).reverse().map(hintLine));
}

export function showDecisions(decisions, count) {
  renew(byId("decisions"), [decisions, count], () => {
    if (!decisions.length) return [nothing("No schedule changed anything.")];
    const rows = [...decisions].reverse().map((one) => make(
      "tr", {}, make("td", { class: "number" }, one.step === null ? "–" : compact(one.step)), make("td", {}, one.controller),
      make("td", { class: "mono" }, one.moves.map((move) => `${move.setting}: ${move.old} → ${move.new}`).join(", ")),
      make("td", { class: "why" }, one.why),
    ));
    return [make(
      "details", { class: "rest" },
      make("summary", {}, `${count} decisions and their reasons`),
      ...shortened(rows, ["Step", "Controller", "Change", "Why"], "Decisions of the schedules, newest first"),
    )];
  });
}

export function showEvents(events, counts) {
  count("events", String(events.length));
  renew(byId("event-list"), [events, counts], () => {
    if (!events.length) return [nothing("No events.")];
    const when = (one) => (one.time ? moment(one.time) : `iteration ${one.iteration ?? "?"}`);
    // Events with a time and events with only a step are from two logs; each keeps its order.
    const rows = [...events].reverse().map((one) => make(
      "tr", {}, make("td", { class: "faint" }, when(one)), make("td", {}, one.event),
      make("td", { class: "fact" }, Object.entries(one.facts).map(([name, value]) => `${name} ${value}`).join(", ")),
    ));
    return shortened(rows, ["When", "What", "Facts"], "Events, newest first");
  });
}

function plain(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return figure(value);
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

export function showWorkers({ entry, beat, record, workers }) {
  const age = beat ? Math.max(0, Date.now() / 1000 - beat.wall) : null;
  const facts = [];
  if (beat) {
    facts.push(["trainer", `process ${beat.pid} on ${beat.host}`], ["stage", `${beat.stage} for ${duration(beat.stage_seconds)}`]);
    facts.push(["last heartbeat", entry.status === "running" && age < 15 ? "a few seconds ago" : moment(new Date(beat.wall * 1000).toISOString())]);
    const known = new Set(["pid", "host", "stage", "stage_seconds", "progress", "wall", "monotonic", "workers"]);
    for (const [name, value] of Object.entries(beat)) {
      if (known.has(name)) continue;
      const inner = value !== null && typeof value === "object" ? Object.entries(value) : [["", value]];
      for (const [key, one] of inner) facts.push([key ? (name === "rates" || name === "details" ? key : `${name} ${key}`) : name, plain(one)]);
    }
  }
  if (record?.host) facts.push(["machine", `${record.host.processors ?? "?"} processors, ${record.host.system ?? ""}`]);
  const present = new Map((entry.status === "running" ? beat?.workers ?? [] : []).map((one) => [`worker ${one.worker}`, one]));
  const faults = new Map(workers.map((one) => [one.name, one]));
  renew(byId("worker-list"), [facts, workers, [...present]], () => {
    const rows = [...new Set([...present.keys(), ...faults.keys()])].map((name) => {
      const [now, fault] = [present.get(name), faults.get(name)];
      const doing = now ? `${now.stage}${now.env === null ? "" : ` of env ${now.env}`} for ${duration(now.age_seconds)}` : "–";
      return make(
        "tr", {}, make("th", { scope: "row" }, name), make("td", { class: "number" }, now?.pid ?? "–"), make("td", {}, doing),
        make("td", {}, fault ? Object.entries(fault.kinds).map(([kind, count]) => `${kind} ${count}×`).join(", ") : "none"),
        make("td", { class: "faint" }, fault ? moment(fault.time) : ""), make("td", { class: "fact" }, fault?.last ?? ""),
      );
    });
    count("processes", rows.length ? `${rows.length} workers` : "the trainer");
    return [
      table(["Trainer", ""], facts.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "fact" }, value))), "Last heartbeat of the trainer"),
      ...(rows.length
        ? [table(["Worker", "Process", "Doing", "Faults", "Last", "Error"], rows, "Workers, their current stage, and recovered faults")]
        : []),
    ];
  });
}

export function showFilms(id, films, plots) {
  count("films", String(films.length));
  renew(byId("film-list"), [id, films, plots], () => {
    const shown = films.slice().reverse().map(({ name, caption }) => {
      const source = fileAddress("media", id, name);
      const film = name.toLowerCase().endsWith(".gif")
        ? make("img", { src: source, alt: caption, loading: "lazy" })
        : make("video", { src: source, controls: true, preload: "metadata", playsinline: true, "aria-label": caption });
      return make("figure", { title: name }, film, make("figcaption", {}, caption));
    });
    const pictures = plots.map((name) => make(
      "figure", {}, make("img", { src: fileAddress("plots", id, name), alt: `Plot ${name}`, loading: "lazy" }), make("figcaption", {}, name),
    ));
    const parts = shown.length ? shown : [nothing("No films yet; longhaul watch makes them, and a run makes some when it ends.")];
    return pictures.length
      ? [...parts, make("details", { class: "rest" }, make("summary", {}, `${pictures.length} plots of the report`), make("div", { class: "films" }, ...pictures))]
      : parts;
  });
}

export function showCheckpoints(checkpoints, { score }) {
  const scores = checkpoints.map((one) => one.score ?? null).filter((one) => one !== null);
  const best = checkpoints.find((one) => scores.length && one.score === Math.max(...scores));
  const marks = (one) => [
    one === best ? make("span", { class: "badge", "data-status": "finished" }, "best") : null,
    one.name === score?.checkpoint ? make("span", { class: "badge", "data-status": "running" }, `final evaluation ${figure(score.value)}`) : null,
  ].filter(Boolean);
  count("checkpoints", best ? `${checkpoints.length}, best ${figure(best.score)}` : String(checkpoints.length));
  renew(byId("checkpoint-list"), [checkpoints, score], () => {
    if (!checkpoints.length) return [nothing("No checkpoint yet.")];
    const rows = checkpoints.map((one) => make(
      "tr", {}, make("th", { scope: "row", class: "mono" }, one.name),
      ...(one.problem
        ? [make("td", { colspan: 5 }, make("span", { class: "badge", "data-status": "crashed" }, "damaged"), ` ${one.problem}`)]
        : [
          make("td", { class: "number" }, compact(one.steps)), make("td", { class: "number" }, bytes(one.bytes)),
          make("td", { class: "number" }, one.score === null ? "–" : `${figure(one.score)}`), make("td", {}, ...marks(one)),
          make("td", { class: "faint" }, moment(one.created)),
        ]),
    ));
    return shortened(rows, ["Checkpoint", "Steps", "Size", "Evaluation", "", "Saved"], "Checkpoints, newest first");
  });
}

export function showConfigs({ runs, rows }, label, { onlyDiffering, words }) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = rows.filter((row) => runs.length < 2 || !onlyDiffering || row.differs)
    .filter((row) => wanted.every((word) => `${row.key} ${row.values.join(" ")}`.toLowerCase().includes(word)));
  count("config", runs.length > 1 ? `${rows.filter((row) => row.differs).length} of ${rows.length} keys differ` : `${rows.length} keys`);
  renew(byId("config-list"), [runs, found, rows.length], () => {
    if (!rows.length) return [nothing("The run has no readable config.toml.")];
    if (!found.length) return [nothing(wanted.length ? "No key matches." : "The configs are identical.")];
    const lines = found.map((row) => make(
      "tr", { "data-differs": runs.length > 1 && row.differs }, make("th", { scope: "row", class: "mono" }, row.key),
      ...row.values.map((value) => make("td", { class: "mono fact" }, value ?? "(absent)")),
    ));
    return [table(["Key", ...runs.map(label)], lines, "Configs of the runs shown")];
  });
}
