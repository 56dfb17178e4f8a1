// One chart: curves of some metrics of some runs, drawn by uPlot and described in words.
import { make, setText } from "./dom.js";
import { compact, duration, figure } from "./words.js";

const height = () => (window.innerWidth < 600 ? 150 : 190);
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];
const AXIS_FONT = "11px system-ui, sans-serif";

export const color = (at) => {
  const style = getComputedStyle(document.documentElement);
  return style.getPropertyValue(`--series-${(at % 8) + 1}`).trim();
};
export const dash = (at) => DASHES[Math.floor(at / 2) % DASHES.length];

// An exponential mean weighted by distance, so it does not depend on the number of points sent.
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
  // spec: title, names, right (names on the right axis), labels, bands, aside, target, stepped, note
  constructor(spec, view) {
    this.spec = spec;
    this.view = view;
    this.plot = null;
    this.shape = "";
    this.curves = [];
    this.bands = [];
    this.aside = [];
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

  // All metrics to request.
  get names() {
    const beside = [...(this.spec.bands ?? []).flatMap(({ low, high }) => [low, high]), ...(this.spec.aside ?? []).map(([name]) => name)];
    return [...this.lineNames, ...beside];
  }

  get lineNames() { return [...this.spec.names, ...(this.spec.right ?? [])]; }

  // answer: what /api/curves returned for this chart's names, runs in the order of the legend
  update(answer) {
    // Bands of several runs would hide each other, so only the main line is compared.
    const alone = this.view.runs.length === 1;
    const names = alone || !this.spec.bands ? this.lineNames : this.lineNames.slice(0, 1);
    this.curves = this.view.runs.flatMap((run, at) => names.flatMap((name, place) => {
      const found = answer.runs[run]?.[name];
      if (!found) return [];
      const tint = names.length > 1 ? place + at * names.length : at;
      return [{ ...found, label: this.label(name, run, names.length > 1), tint, right: (this.spec.right ?? []).includes(name) }];
    }));
    const own = answer.runs[this.view.runs[0]] ?? {};
    this.bands = (alone ? this.spec.bands ?? [] : [])
      .filter(({ low, high }) => own[low] && own[high])
      .map(({ low, high, label }, at) => ({ label, tint: 0, strength: at, x: own[low].x, low: own[low].mean, high: own[high].mean }));
    this.aside = (alone ? this.spec.aside ?? [] : [])
      .flatMap(([name, label]) => (own[name] ? [`${label} ${figure(own[name].mean.at(-1))}`] : []));
    this.draw();
  }

  label(name, run, several) {
    const short = this.spec.labels?.[name] ?? name;
    if (!several) return this.view.label(run);
    return this.view.runs.length > 1 ? `${short} · ${this.view.label(run)}` : short;
  }

  draw() {
    const tables = [
      ...this.curves.map((curve) => [curve.x, this.lines(curve)]),
      ...this.bands.map((band) => [band.x, this.edges(band)]),
    ];
    const lines = tables.flatMap(([, some]) => some);
    const shape = JSON.stringify([
      lines.map(({ values, ...rest }) => rest), this.view.log, this.view.over, this.place.clientWidth, this.spec.target,
      document.documentElement.dataset.theme,
    ]);
    this.describe();
    if (!lines.length) {
      this.plot?.destroy();
      this.plot = null;
      this.shape = "";
      return;
    }
    const columns = tables.map(([x, some]) => [x, ...some.map((line) => line.values)]);
    const data = columns.length === 1 ? columns[0] : uPlot.join(columns);
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
    const base = { label: curve.label, tint: curve.tint, right: curve.right, strength: 0 };
    if (weight > 0) found.push({ ...base, kind: "raw", values: curve.mean });
    found.push({ ...base, kind: "line", values: smooth(curve.x, curve.mean, weight) });
    if (curve.low && this.curves.length === 1 && !this.bands.length && !this.spec.stepped) {
      found.push({ ...base, kind: "high", values: curve.high }, { ...base, kind: "low", values: curve.low });
    }
    return found;
  }

  edges({ label, tint, strength, low, high }) {
    const base = { label, tint, strength, right: false };
    return [{ ...base, kind: "high", values: high }, { ...base, kind: "low", values: low }];
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
    const hasRight = lines.some((line) => line.right);
    const bands = lines.flatMap(({ kind, tint, strength }, at) => (
      kind === "high" ? [{ series: [at + 1, at + 2], fill: `${color(tint)}${strength ? "3a" : "1f"}` }] : []
    ));
    return {
      width: Math.max(this.place.clientWidth, 200),
      height: height(),
      scales: {
        x: { time: false, range: (plot, low, high) => this.view.window ?? [low, high === low ? low + 1 : high] },
        y: { distr, ...(distr === 1 ? { range: (plot, low, high) => this.reach(low, high) } : {}) },
        ...(hasRight ? { right: { distr } } : {}),
      },
      axes: [
        { stroke: ink, grid, ticks: grid, font: AXIS_FONT, size: 30, values: (plot, splits) => splits.map(across) },
        axis("y", 3),
        ...(hasRight ? [axis("right", 1)] : []),
      ],
      series: [
        {
          label: this.view.overWords,
          value: (plot, value, at, index) => across(index === null ? plot.data[0].at(-1) : value),
        },
        ...lines.map((line) => this.series(line)),
      ],
      bands,
      cursor: {
        drag: { x: true, y: false, setScale: false },
        sync: { key: "longhaul" },
        bind: { dblclick: () => () => { this.view.zoom(null); } },
        points: { size: 6 },
      },
      legend: { show: this.curves.length > 1 },
      hooks: { setSelect: [(plot) => this.selected(plot)], draw: [(plot) => this.drawTarget(plot, style)] },
    };
  }

  // A constant curve gets an axis of nonzero height, and the target is always visible.
  reach(low, high) {
    if (low === null || high === null) return [0, 1];
    const goal = this.spec.target ?? null;
    const [least, most] = goal === null ? [low, high] : [Math.min(low, goal), Math.max(high, goal)];
    if (least !== most) return uPlot.rangeNum(least, most, 0.1, true);
    const room = Math.abs(least) * 0.1 || 1;
    return [least - room, most + room];
  }

  drawTarget(plot, style) {
    const goal = this.spec.target ?? null;
    if (goal === null) return;
    const { ctx, bbox } = plot;
    const y = Math.round(plot.valToPos(goal, "y", true));
    if (y < bbox.top || y > bbox.top + bbox.height) return;
    const ink = style.getPropertyValue("--good").trim();
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = ink;
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([4 * devicePixelRatio, 4 * devicePixelRatio]);
    ctx.beginPath();
    ctx.moveTo(bbox.left, y);
    ctx.lineTo(bbox.left + bbox.width, y);
    ctx.stroke();
    ctx.font = `${10 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    ctx.fillText(`target ${figure(goal)}`, bbox.left + 4 * devicePixelRatio, y + 11 * devicePixelRatio);
    ctx.restore();
  }

  series({ kind, label, tint, right }) {
    const stroke = color(tint);
    const thin = { raw: { stroke: `${stroke}55`, width: 1 }, high: { stroke: "transparent", width: 0 }, low: { stroke: "transparent", width: 0 } };
    return {
      label, scale: right ? "right" : "y", spanGaps: true, points: { show: false }, stroke, width: 1.8,
      dash: dash(tint),
      // Without a cursor the legend shows the newest values.
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

  describe() {
    if (!this.curves.length) {
      setText(this.value, "");
      setText(this.words, "No data yet.");
      return;
    }
    const described = this.curves.map(({ label, x, mean, low, high }) => {
      const lowest = Math.min(...(low ?? mean));
      const highest = Math.max(...(high ?? mean));
      return `${label}: ${x.length} points from ${compact(x[0])} to ${compact(x.at(-1))} ${this.view.overWords}, `
        + `first ${figure(mean[0])}, lowest ${figure(lowest)}, highest ${figure(highest)}, last ${figure(mean.at(-1))}.`;
    });
    for (const { label, low, high } of this.bands) described.push(`${label}: last ${figure(low.at(-1))} to ${figure(high.at(-1))}.`);
    setText(this.words, [...described, ...this.aside].join(" "));
    const single = this.curves.length === 1 || this.bands.length;
    setText(this.value, single ? [figure(this.curves[0].mean.at(-1)), ...this.aside].join(", ") : "");
  }

  resize() {
    if (this.plot && this.place.clientWidth > 0) {
      this.plot.setSize({ width: Math.max(this.place.clientWidth, 200), height: height() });
    }
  }
}
