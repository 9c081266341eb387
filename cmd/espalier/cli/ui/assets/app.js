// The addresses of the pages, and the session.
import { el, live } from "./dom.js";
import { definition, instances, overview, program } from "./lists.js";
import { object } from "./graph.js";

const pages = { "": overview, definition, instances, object, program };
const main = document.getElementById("main");
let leave = null;

function route(isFirst) {
  if (leave) leave();
  live("wait", "connecting");
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const show = pages[path] || overview;
  for (const link of document.querySelectorAll("header nav a")) {
    const isCurrent = (path === "program") === (link.dataset.page === "program");
    isCurrent ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  const parts = Object.fromEntries(new URLSearchParams(query || ""));
  document.title = (parts.name || { instances: "Instances of " + parts.kind, program: "Watches and queues" }[path] || "Definitions") + " – Espalier";
  scrollTo(0, 0);
  leave = show(main, parts);
  if (!isFirst) main.focus({ preventScroll: true });
}

async function start() {
  const response = await fetch("api/session").catch(() => null);
  const session = response && response.ok ? await response.json() : null;
  if (!session) {
    live("off", "not connected");
    main.replaceChildren(el("h1", {}, "Not connected"), el("p", {}, response ? await response.text() : "The program that serves this page does not answer."));
    return;
  }
  if (!session.loggedIn && session.logIn) {
    location.replace("login");
    return;
  }
  if (!session.loggedIn) {
    live("off", "not connected");
    main.replaceChildren(el("h1", {}, "No session"), el("p", {}, "Open the address that espalier ui has printed."));
    return;
  }
  const out = el("button", { type: "button", class: "plain", on: { click: async () => { await fetch("logout", { method: "POST" }).catch(() => null); location.reload(); } } }, "Log out");
  document.getElementById("who").replaceChildren([session.user, session.title].filter(Boolean).join(" · "), " ", session.logOut ? out : "");
  addEventListener("hashchange", () => route(false));
  route(true);
}

document.getElementById("skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
start();
