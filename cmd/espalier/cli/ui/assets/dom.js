// Elements, times and streams. All text is set as text, never as markup.

const svgNamespace = "http://www.w3.org/2000/svg";

// printable shows the characters that change the direction of what follows: with them, a text could look like another one.
function printable(text) {
  return text.replace(/[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

// sentence begins a text with a capital and ends it with a period.
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

// el returns an element with attributes and children; strings are text, and what is empty is left out.
export function el(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return fill(document.createElementNS(svgNamespace, name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (value === true) {
      element.setAttribute(key, "");
    } else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(key, String(value));
    }
  }
  for (const child of children.flat(3)) {
    if (child !== undefined && child !== null && child !== false && child !== "") element.append(typeof child === "string" ? printable(child) : child);
  }
  return element;
}

// setText changes a text only if it differs, so that selections and screen readers are not disturbed.
export function setText(element, text) {
  text = printable(text);
  if (element.textContent !== text) element.textContent = text;
}

// age is a time that shows how long ago it was. Ages are updated by one clock for the whole page.
export function age(time, prefix = "") {
  if (!time) return null;
  const element = el("time", { datetime: time, title: new Date(time).toLocaleString(), "data-prefix": prefix });
  element.textContent = prefix + ageText(time);
  return element;
}

function ageText(time) {
  const s = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  if (s < 120) return s + "s";
  if (s < 600) return Math.floor(s / 60) + "m" + (s % 60 ? (s % 60) + "s" : "");
  if (s < 7200) return Math.floor(s / 60) + "m";
  if (s < 172800) return Math.floor(s / 3600) + "h";
  return Math.floor(s / 86400) + "d";
}

setInterval(() => {
  if (document.hidden) return;
  for (const element of document.querySelectorAll("time[data-prefix]")) {
    setText(element, element.dataset.prefix + ageText(element.dateTime));
  }
}, 1000);

// copyable is a command with a button that copies it.
export function copyable(command) {
  const button = el("button", { type: "button", class: "copy", "aria-label": "Copy: " + command }, "Copy");
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(command);
      button.textContent = "Copied";
      announce("Copied");
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  const code = el("code", {}, command);
  return el("span", { class: "command" }, code, button);
}

export function advice(list) {
  if (!list || !list.length) return null;
  return el("ul", { class: "advice" }, list.map((a) => el("li", {}, el("span", {}, a.text + (a.command ? ":" : "")), a.command ? copyable(a.command) : null)));
}

// announce lets screen readers say a text. What comes within a second is said as one, the last one wins.
let announcing = 0;
export function announce(text) {
  clearTimeout(announcing);
  announcing = setTimeout(() => setText(document.getElementById("announce"), text), 1000);
}

const words = { good: "ready", progress: "in progress", bad: "needs action", muted: "left out" };

// badge shows a state by a symbol, a word and a color.
export function badge(tone, text) {
  const symbols = { good: "✓", progress: "…", bad: "✕", muted: "·" };
  return el("span", { class: "badge " + (tone || "neutral") }, el("span", { "aria-hidden": "true" }, symbols[tone] || "·"), " " + (text || words[tone] || "exists"));
}

// Stream receives a document: its head, and its items in their order. It is closed while the page is hidden, and opened again after.
export class Stream {
  constructor(path, query, on) {
    this.url = "api/" + path + "?" + new URLSearchParams(query || {});
    this.on = on;
    this.visible = () => { document.hidden ? this.pause() : this.open(); };
    document.addEventListener("visibilitychange", this.visible);
    this.closed = false;
    if (!document.hidden) this.open();
  }

  open() {
    if (this.source || this.closed || this.over) return;
    this.reset();
    const source = new EventSource(this.url);
    this.source = source;
    source.addEventListener("stream", (e) => {
      this.reset();
      this.id = JSON.parse(e.data);
      report(this, "on");
      if (this.window) this.send();
    });
    source.addEventListener("update", (e) => this.update(JSON.parse(e.data)));
    source.addEventListener("reachable", (e) => report(this, JSON.parse(e.data) ? "on" : "lost"));
    source.addEventListener("problem", (e) => { this.end(); this.on.problem(JSON.parse(e.data)); });
    source.addEventListener("retry", (e) => {
      this.pause();
      report(this, "wait");
      this.on.problem(sentence(JSON.parse(e.data)) + " Trying again.");
      this.again = setTimeout(() => { if (!document.hidden) this.open(); }, retryInterval);
    });
    source.addEventListener("end", () => this.end());
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) {
        this.pause();
        report(this, "off");
        this.on.problem("The connection was refused. The session may have ended, or too many pages are open.", true);
        loggedOut();
      } else {
        report(this, "wait");
      }
    };
  }

  reset() {
    this.items = new Map();
    this.order = [];
    this.head = null;
    this.id = null;
  }

  update(u) {
    if (u.head) this.head = u.head;
    const changed = new Set(Object.keys(u.items || {}));
    for (const key of changed) this.items.set(key, u.items[key]);
    if (u.order) {
      this.order = u.order;
      const kept = new Set(u.order);
      for (const key of this.items.keys()) if (!kept.has(key)) this.items.delete(key);
    }
    this.on.update(this, { head: !!u.head, order: !!u.order, changed });
  }

  // move changes the window of a list.
  move(window) {
    this.window = window;
    if (this.id) this.send();
  }

  send() {
    fetch("api/window?stream=" + encodeURIComponent(this.id), { method: "POST", body: JSON.stringify(this.window) }).catch(() => {});
  }

  pause() {
    clearTimeout(this.again);
    if (this.source) this.source.close();
    this.source = null;
  }

  end() {
    this.over = true;
    this.pause();
    report(this, "over");
  }

  close() {
    this.closed = true;
    document.removeEventListener("visibilitychange", this.visible);
    this.pause();
    states.delete(this);
  }
}

const retryInterval = 5000; // of a stream that could not be read

// What the streams of the page are, the worst first: the page is what the worst of them is, and over only if all are.
const states = new Map();
const liveTexts = { off: "not connected", lost: "the API server does not answer; this may be old", wait: "connecting", on: "live", over: "ended" };

function report(stream, state) {
  if (stream.closed) return;
  states.set(stream, state);
  const worst = Object.keys(liveTexts).find((s) => [...states.values()].includes(s));
  if (worst === "lost") announce(sentence(liveTexts.lost));
  live({ lost: "wait", over: "off" }[worst] || worst, liveTexts[worst]);
}

export function live(state, text) {
  const element = document.getElementById("live");
  element.dataset.state = state;
  setText(element, text);
}

// href is the address of a page.
export function href(page, parts) {
  return "#/" + page + "?" + new URLSearchParams(parts);
}

export function groupOf(object) {
  const slash = object.apiVersion.indexOf("/");
  return slash < 0 ? "" : object.apiVersion.slice(0, slash);
}

export function refOf(object) {
  return { group: groupOf(object), kind: object.kind, namespace: object.namespace || "", name: object.name };
}

export function problem(text) {
  return el("p", { class: "problem", role: "alert" }, sentence(text));
}

// loggedOut leads to the login, if there is one and the session has ended.
async function loggedOut() {
  const response = await fetch("api/session").catch(() => null);
  const session = response && response.ok ? await response.json() : null;
  if (session && session.logIn && !session.loggedIn) location.replace("login?ended");
}
