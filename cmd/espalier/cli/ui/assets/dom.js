// What all pages share: texts, times, streams, and small components. All text is set as text, never as markup.
import { html, useEffect, useRef, useState } from "./lib/preact.js";

// parse reads JSON, and shows the characters that change the direction of what follows: with them, a text could look like another one.
export function parse(json) {
  return JSON.parse(json, (_, v) => typeof v === "string" ? v.replace(/[\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069]/g, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0")) : v);
}

// sentence begins a text with a capital and ends it with a period.
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");
}

// counted is a number with its noun.
export function counted(n, one, many) {
  return n + " " + (n === 1 ? one : many || one + "s");
}

function ageText(time) {
  const s = Math.max(0, Math.floor((Date.now() - Date.parse(time)) / 1000));
  if (s < 120) return s + "s";
  if (s < 600) return Math.floor(s / 60) + "m" + (s % 60 ? (s % 60) + "s" : "");
  if (s < 7200) return Math.floor(s / 60) + "m";
  if (s < 172800) return Math.floor(s / 3600) + "h";
  return Math.floor(s / 86400) + "d";
}

// Age shows how long ago a time was. One clock updates all ages of the page.
export function Age({ of }) {
  const element = useRef();
  useEffect(() => {
    if (!of) return;
    const set = () => { if (element.current.textContent !== ageText(of)) element.current.textContent = ageText(of); };
    set();
    clock.add(set);
    return () => clock.delete(set);
  }, [of]);
  return of ? html`<time ref=${element} datetime=${of} title=${new Date(of).toLocaleString()} />` : null;
}
const clock = new Set();
setInterval(() => { if (!document.hidden) for (const set of clock) set(); }, 1000);

// Command is a command with a button that copies it.
export function Command({ text }) {
  const [done, setDone] = useState("");
  const code = useRef();
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setDone("Copied");
      announce("Copied");
    } catch {
      getSelection().selectAllChildren(code.current);
      setDone("Selected");
    }
    setTimeout(() => setDone(""), 2000);
  };
  return html`<span class="command"><code ref=${code}>${text}</code><button type="button" class="copy" aria-label=${"Copy: " + text} onClick=${copy}>${done || "Copy"}</button></span>`;
}

export function Advice({ list }) {
  return list && list.length ? html`<ul class="advice">${list.map((a) => html`<li>${a.text}${a.command ? html`: <${Command} text=${a.command} />` : null}</li>`)}</ul>` : null;
}

// announce lets screen readers say a text. What comes within a second is said as one, the last one wins.
let announcing = 0;
export function announce(text) {
  clearTimeout(announcing);
  announcing = setTimeout(() => { document.getElementById("announce").textContent = text; }, 1000);
}

const words = { good: "ready", progress: "in progress", bad: "needs action", muted: "left out" };
const symbols = { good: "✓", progress: "…", bad: "✕", muted: "·" };

// Badge shows a state by a symbol, a word and a color.
export function Badge({ tone, text }) {
  return html`<span class=${"badge " + (tone || "neutral")}><span aria-hidden="true">${symbols[tone] || "·"}</span> ${text || words[tone] || "exists"}</span>`;
}

export function Problem({ text }) {
  return text ? html`<p class="problem" role="alert">${sentence(text)}</p>` : null;
}

export function Notes({ list }) {
  return (list || []).map((text) => html`<p class="note">${sentence(text)}</p>`);
}

// href is the address of a page.
export function href(page, parts) {
  return "#/" + page + "?" + new URLSearchParams(parts);
}

export function refOf(object) {
  const slash = object.apiVersion.indexOf("/");
  return { group: slash < 0 ? "" : object.apiVersion.slice(0, slash), kind: object.kind, namespace: object.namespace || "", name: object.name };
}

export function nameOf(object) {
  return (object.namespace ? object.namespace + "/" : "") + object.name;
}

// useStream is a document that a stream keeps: its head, its items by their keys, and their order. It is closed while the browser hides
// the page. A window, if given, says which part of it to send.
export function useStream(path, query, part) {
  const [state, set] = useState({ items: new Map(), order: [] });
  const stream = useRef();
  useEffect(() => {
    set({ items: new Map(), order: [] });
    stream.current = new Stream(path, query, part, {
      update: (s) => set({ head: s.head, items: s.items, order: s.order }),
      problem: (text) => set((before) => ({ ...before, problem: text })),
    });
    return () => stream.current.close();
  }, [path, JSON.stringify(query)]);
  useEffect(() => { if (part) stream.current.move(part); }, [JSON.stringify(part)]);
  return state;
}

class Stream {
  constructor(path, query, part, on) {
    this.url = "api/" + path + "?" + new URLSearchParams(query || {});
    this.part = part;
    this.on = on;
    this.visible = () => { document.hidden ? this.pause() : this.open(); };
    document.addEventListener("visibilitychange", this.visible);
    if (!document.hidden) this.open();
  }

  open() {
    if (this.source || this.closed || this.over) return;
    this.reset();
    const begun = JSON.stringify(this.part);
    const source = new EventSource(this.url + (begun ? "&window=" + encodeURIComponent(begun) : ""));
    this.source = source;
    source.addEventListener("stream", (e) => {
      this.reset();
      this.id = JSON.parse(e.data);
      report(this, "on");
      if (JSON.stringify(this.part) !== begun) this.send();
    });
    source.addEventListener("update", (e) => this.update(parse(e.data)));
    source.addEventListener("reachable", (e) => report(this, JSON.parse(e.data) ? "on" : "lost"));
    source.addEventListener("problem", (e) => { this.end(); this.on.problem(parse(e.data)); });
    source.addEventListener("retry", (e) => {
      this.pause();
      report(this, "wait");
      this.on.problem(sentence(parse(e.data)) + " Trying again.");
      this.again = setTimeout(() => { if (!document.hidden) this.open(); }, retryInterval);
    });
    source.addEventListener("end", () => this.end());
    source.onerror = () => {
      if (source.readyState === EventSource.CLOSED) {
        this.pause();
        report(this, "off");
        this.on.problem("The connection was refused. The session may have ended, or too many pages are open.");
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
    for (const [key, item] of Object.entries(u.items || {})) this.items.set(key, item);
    if (u.order) {
      this.order = u.order;
      const kept = new Set(u.order);
      for (const key of this.items.keys()) if (!kept.has(key)) this.items.delete(key);
    }
    this.on.update(this);
  }

  move(part) {
    if (JSON.stringify(part) === JSON.stringify(this.part)) return;
    this.part = part;
    if (this.id) this.send();
  }

  send() {
    fetch("api/window?stream=" + encodeURIComponent(this.id), { method: "POST", body: JSON.stringify(this.part) }).catch(() => {});
  }

  pause() {
    clearTimeout(this.again);
    if (this.source) this.source.close();
    this.source = this.id = null;
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
  if (element.textContent !== text) element.textContent = text;
}

// loggedOut leads to the login, if there is one and the session has ended.
async function loggedOut() {
  const response = await fetch("api/session").catch(() => null);
  const session = response && response.ok ? await response.json() : null;
  if (session && session.logIn && !session.loggedIn) location.replace("login?ended");
}
