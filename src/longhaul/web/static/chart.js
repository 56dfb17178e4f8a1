// One chart: curves of some metrics of some runs, drawn by uPlot, told in words as well.
import { make, setText } from "./dom.js";
import { compact, duration, figure } from "./words.js";

const HEIGHT = 190;
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
const AXIS_FONT = "11px system-ui, sans-serif";

export const colour = (at) => {
  const style = getComputedStyle(document.documentElement);
  return style.getPropertyValue(`--series-${(at % 8) + 1}`).trim();
};
export const dash = (at) => DASHES[Math.floor(at / 2) % DASHES.length];

// An exponential mean whose weight goes with distance, so that it does not depend on the number of
// points the server sent.
export function smooth(x, values, weight) {
  if (!weight || x.length < 3) return values;
  const typical = (x.at(-1) - x[0]) / (x.length - 1) || 1;
  let mean = 0;
  let mass = 0;
  return values.map((value, at) => {
    const kept = at ? weight ** Math.max((x[at] - x[at - 1]) / typical, 1e-9) : 0;
    mean = kept * mean + (1 - kept) * value;
    mass = kept * mass + (1 - kept);
    return at ? mean / mass : value;
  });
}

export class Chart {
  // spec: title, names, right (names with an axis of their own), stepped, note
  constructor(spec, view) {
    this.spec = spec;
    this.view = view;
    this.plot = null;
    this.shape = "";
    this.curves = [];
    this.isVisible = false;
    this.value = make("span", { class: "value" });
    this.place = make("div", { class: "plot" });
    this.words = make("p", { class: "hidden" });
    this.words.id = `words-${Chart.count = (Chart.count ?? 0) + 1}`;
    this.element = make(
      "figure",
      { class: "chart", tabindex: "0", role: "group", "aria-label": spec.title, "aria-describedby": this.words.id },
      make("figcaption", {}, make("h3", {}, spec.title), this.value),
      this.place, this.words, spec.note ? make("p", { class: "note" }, spec.note) : null,
    );
    this.element.addEventListener("keydown", (event) => this.steer(event));
  }

  get names() { return [...this.spec.names, ...(this.spec.right ?? [])]; }

  // answer: what /api/curves returned for this chart's names, runs in the order of the legend
  update(answer) {
    const several = this.names.length > 1;
    this.curves = this.view.runs.flatMap((run, at) => this.names.flatMap((name, place) => {
      const found = answer.runs[run]?.[name];
      if (!found) return [];
      const tint = several ? place + at * this.names.length : at;
      const label = several
        ? (this.view.runs.length > 1 ? `${name} · ${this.view.label(run)}` : name)
        : this.view.label(run);
      return [{ ...found, label, tint, right: (this.spec.right ?? []).includes(name) }];
    }));
    this.draw();
  }

  draw() {
    const lines = this.curves.flatMap((curve) => this.lines(curve));
    const shape = JSON.stringify([
      lines.map(({ values, x, ...rest }) => rest), this.view.log, this.view.over, this.place.clientWidth,
      document.documentElement.dataset.theme,
    ]);
    this.tell();
    if (!lines.length) {
      this.plot?.destroy();
      this.plot = null;
      this.shape = "";
      return;
    }
    const tables = this.curves.map((curve) => [curve.x, ...this.lines(curve).map((line) => line.values)]);
    const data = tables.length === 1 ? tables[0] : uPlot.join(tables);
    if (this.plot && shape === this.shape) {
      this.plot.setData(data, true);
    } else {
      this.plot?.destroy();
      this.plot = new uPlot(this.options(lines), data, this.place);
      this.shape = shape;
      this.place.classList.toggle("tall", this.curves.length > 1);
    }
  }

  lines(curve) {
    const weight = this.spec.stepped ? 0 : this.view.smoothing;
    const found = [];
    const base = { label: curve.label, tint: curve.tint, right: curve.right, x: null };
    if (weight > 0) found.push({ ...base, kind: "raw", values: curve.mean });
    found.push({ ...base, kind: "line", values: smooth(curve.x, curve.mean, weight) });
    if (curve.low && this.curves.length === 1 && !this.spec.stepped) {
      found.push({ ...base, kind: "high", values: curve.high }, { ...base, kind: "low", values: curve.low });
    }
    return found;
  }

  options(lines) {
    const style = getComputedStyle(document.documentElement);
    const ink = style.getPropertyValue("--faint").trim();
    const grid = { stroke: style.getPropertyValue("--grid").trim(), width: 1 };
    const across = this.view.over === "seconds" ? duration : compact;
    const axis = (scale, side) => ({
      scale, side, stroke: ink, grid: side === 1 ? { show: false } : grid, ticks: grid, font: AXIS_FONT, size: 58,
      values: (plot, splits) => splits.map((split) => (split === null ? "" : figure(split))),
    });
    const distr = this.view.log ? 3 : 1;
    const band = lines.findIndex((line) => line.kind === "high") + 1;
    const hasRight = lines.some((line) => line.right);
    return {
      width: Math.max(this.place.clientWidth, 200),
      height: HEIGHT,
      scales: {
        x: { time: false, range: (plot, low, high) => this.view.window ?? [low, high === low ? low + 1 : high] },
        y: { distr },
        ...(hasRight ? { right: { distr } } : {}),
      },
      axes: [
        { stroke: ink, grid, ticks: grid, font: AXIS_FONT, size: 30, values: (plot, splits) => splits.map(across) },
        axis("y", 3),
        ...(hasRight ? [axis("right", 1)] : []),
      ],
      series: [
        { label: this.view.overWords, value: (plot, value) => (value === null ? "–" : across(value)) },
        ...lines.map((line) => this.series(line)),
      ],
      bands: band ? [{ series: [band, band + 1], fill: `${colour(lines[0].tint)}2e` }] : [],
      cursor: {
        drag: { x: true, y: false, setScale: false },
        sync: { key: "longhaul" },
        bind: { dblclick: () => () => { this.view.zoom(null); } },
        points: { size: 6 },
      },
      legend: { show: this.curves.length > 1 },
      hooks: { setSelect: [(plot) => this.selected(plot)] },
    };
  }

  series({ kind, label, tint, right }) {
    const stroke = colour(tint);
    const thin = { raw: { stroke: `${stroke}55`, width: 1 }, high: { stroke: "transparent", width: 0 }, low: { stroke: "transparent", width: 0 } };
    return {
      label, scale: right ? "right" : "y", spanGaps: true, points: { show: false }, stroke, width: 1.8,
      dash: dash(tint),
      // Without a cursor the legend tells the newest values.
      value: (plot, value, at, index) => figure(index === null ? plot.data[at].findLast((one) => one != null) : value),
      ...(this.spec.stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {}),
      ...(thin[kind] ?? {}),
      ...(kind === "line" ? {} : { class: "beside" }),
    };
  }

  selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const window = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.view.zoom(window);
  }

  steer(event) {
    if (!this.plot || event.ctrlKey || event.metaKey || event.altKey) return;
    const { min, max } = this.plot.scales.x;
    const middle = (min + max) / 2;
    const half = (max - min) / 2;
    const moves = {
      "+": [middle - half / 2, middle + half / 2],
      "=": [middle - half / 2, middle + half / 2],
      "-": [middle - half * 2, middle + half * 2],
      ArrowLeft: [min - half / 2, max - half / 2],
      ArrowRight: [min + half / 2, max + half / 2],
      0: null,
      Escape: null,
    };
    if (!(event.key in moves)) return;
    event.preventDefault();
    this.view.zoom(moves[event.key]);
  }

  tell() {
    if (!this.curves.length) {
      setText(this.value, "");
      setText(this.words, "Nothing was measured here yet.");
      return;
    }
    const told = this.curves.map(({ label, x, mean, low, high }) => {
      const lowest = Math.min(...(low ?? mean));
      const highest = Math.max(...(high ?? mean));
      return `${label}: ${x.length} points from ${compact(x[0])} to ${compact(x.at(-1))} ${this.view.overWords}, `
        + `first ${figure(mean[0])}, lowest ${figure(lowest)}, highest ${figure(highest)}, last ${figure(mean.at(-1))}.`;
    });
    setText(this.words, told.join(" "));
    setText(this.value, this.curves.length === 1 ? figure(this.curves[0].mean.at(-1)) : "");
  }

  resize() {
    if (this.plot && this.place.clientWidth > 0) {
      this.plot.setSize({ width: Math.max(this.place.clientWidth, 200), height: HEIGHT });
    }
  }
}
