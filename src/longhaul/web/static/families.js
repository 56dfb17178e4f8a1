// Which metrics share a chart: the mean and quantiles of one quantity, and shares of one whole.

const MEASURES = ["mean", "median", "std", "min", "max"];
const isMeasure = (part) => MEASURES.includes(part) || /^p\d\d$/.test(part);
const MOST_LINES = 8;

// "rollout/ep_rew_p10" is the p10 of "rollout/ep_rew"; null if a name has no such part.
export function quantileOf(name) {
  const at = name.lastIndexOf("/") + 1;
  const parts = name.slice(at).split("_");
  const place = parts.findIndex(isMeasure);
  if (place < 0 || parts.length < 2) return null;
  const key = name.slice(0, at) + parts.map((part, index) => (index === place ? "*" : part)).join("_");
  const rest = parts.filter((_, index) => index !== place).join("_");
  return { key, title: name.slice(0, at) + rest, measure: parts[place] };
}

function grouped(names, keyOf) {
  const found = new Map();
  for (const name of names) {
    const key = keyOf(name);
    if (key !== null) found.set(key, [...(found.get(key) ?? []), name]);
  }
  return [...found].filter(([, members]) => members.length > 1);
}

// One quantity: its mean or median as a line, the rest as bands around it.
function quantileSpec(key, members) {
  const of = new Map(members.map((name) => [quantileOf(name).measure, name]));
  const { title } = quantileOf(members[0]);
  const lines = ["mean", "median", "p50"].filter((measure) => of.has(measure));
  const bands = [["min", "max"], ["p10", "p90"], ["p25", "p75"]].filter(([low, high]) => of.has(low) && of.has(high));
  const banded = new Set(bands.flat());
  // Upper ends without a lower one, such as p99, are separate lines.
  for (const measure of of.keys()) {
    if (!lines.includes(measure) && !banded.has(measure) && measure !== "std") lines.push(measure);
  }
  if (!lines.length) return null;
  const std = of.get("std");
  return {
    key, title, members,
    names: lines.map((measure) => of.get(measure)),
    labels: Object.fromEntries(lines.map((measure) => [of.get(measure), measure])),
    bands: bands.map(([low, high]) => ({ low: of.get(low), high: of.get(high), label: `${low} to ${high}` })),
    aside: std ? [[std, "std"]] : [],
  };
}

// All charts of some metrics; every metric is in exactly one of them.
export function chartSpecs(names) {
  const taken = new Set();
  const specs = [];
  for (const [key, members] of grouped(names, (name) => quantileOf(name)?.key ?? null)) {
    const spec = quantileSpec(key, members);
    if (!spec) continue;
    members.forEach((name) => taken.add(name));
    specs.push(spec);
  }
  const left = names.filter((name) => !taken.has(name));
  const deep = (name) => (name.split("/").length > 2 ? name.slice(0, name.lastIndexOf("/")) : null);
  for (const [title, members] of grouped(left, deep)) {
    members.forEach((name) => taken.add(name));
    for (let at = 0; at < members.length; at += MOST_LINES) {
      const some = members.slice(at, at + MOST_LINES);
      specs.push({
        key: `${title}/* ${at}`, title: at ? `${title} (${at / MOST_LINES + 1})` : title, members: some, names: some,
        labels: Object.fromEntries(some.map((name) => [name, name.slice(title.length + 1)])),
      });
    }
  }
  for (const name of names) if (!taken.has(name)) specs.push({ key: name, title: name, members: [name], names: [name] });
  // In the order of their first metric.
  return specs.sort((one, other) => names.indexOf(one.members[0]) - names.indexOf(other.members[0]));
}
