// Numbers and times as text.

export function figure(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || Number.isInteger(value)) return compact(value);
  if (size < 1e-3) return value.toExponential(2).replace(/\.?0+e/, "e");
  return String(Number(value.toPrecision(4)));
}

export function compact(value) {
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) {
      const scaled = value / (limit === 1e4 ? 1e3 : limit);
      return `${Number(scaled.toPrecision(4))} ${unit}`;
    }
  }
  return String(Number(value.toPrecision(6)));
}

export function bytes(count) {
  for (const [limit, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (count >= limit) return `${(count / limit).toFixed(1)} ${unit}`;
  }
  return `${count} B`;
}

export function duration(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function moment(text) {
  const time = new Date(text);
  if (Number.isNaN(time.getTime())) return text || "–";
  const part = (value) => String(value).padStart(2, "0");
  return `${time.getFullYear()}-${part(time.getMonth() + 1)}-${part(time.getDate())} `
    + `${part(time.getHours())}:${part(time.getMinutes())}`;
}
