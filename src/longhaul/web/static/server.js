// Requests to the server and events from it; both continue after an interruption.
import { byId, setText } from "./dom.js";

export async function ask(path, parameters = []) {
  const query = new URLSearchParams(parameters).toString();
  const response = await fetch(query ? `${path}?${query}` : path);
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

// `all` is called with every run after each connection, `changed` with those that differ since.
export function listen({ all, changed }) {
  const sign = byId("connection");
  const show = (state, words) => {
    sign.dataset.state = state;
    setText(sign, words);
  };
  let source = null;
  const connect = () => {
    source = new EventSource("/api/news");
    source.addEventListener("all", (event) => {
      show("live", "live");
      all(JSON.parse(event.data));
    });
    source.addEventListener("changed", (event) => {
      const news = JSON.parse(event.data);
      changed(news.runs, news.gone);
    });
    source.addEventListener("error", () => {
      show("lost", "the server does not answer; retrying");
      // A browser tries again by itself, except after an answer that is not a stream.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 1000);
    });
  };
  connect();
  window.addEventListener("pagehide", () => source.close());
  window.addEventListener("pageshow", (event) => { if (event.persisted) connect(); });
}

export function followTheme(changed = () => {}) {
  const button = byId("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("longhaul-theme"); } catch { /* the browser keeps nothing */ }
  const apply = () => {
    const theme = chosen ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    setText(button, theme === "dark" ? "Light" : "Dark");
    button.setAttribute("aria-label", `Switch to ${theme === "dark" ? "light" : "dark"} colors`);
    changed();
  };
  button.addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("longhaul-theme", chosen); } catch { /* until the page is left */ }
    apply();
  });
  dark.addEventListener("change", apply);
  apply();
}
