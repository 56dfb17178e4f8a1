// A curve as large as a word.
import { svg } from "./dom.js";

const WIDTH = 130;
const HEIGHT = 28;

export function spark(points) {
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
