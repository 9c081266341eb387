// The addresses of the pages, the search, and the session.
import { html, render } from "./lib/preact.js";
import { live, parse } from "./dom.js";
import { Definition, Definitions, Instances, Overview, Program } from "./lists.js";
import { ObjectPage } from "./object.js";

const pages = { "": Overview, section: Overview, definitions: Definitions, definition: Definition, instances: Instances, object: ObjectPage, program: Program };
const sections = { managed: "Managed resources", packages: "Packages", graphs: "Graphs" };
const main = document.getElementById("main"), search = document.getElementById("search");

// addressOf is the page of the current address with its parameters.
function addressOf() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: pages[path] ? path : "", query: Object.fromEntries(new URLSearchParams(query || "")) };
}

let shown = null;

function route() {
  const { path, query } = addressOf();
  const { q, ...place } = query;
  const key = path + JSON.stringify(place);
  const isNew = key !== shown, isFirst = shown === null;
  shown = key;
  const current = { definition: "definitions", instances: "definitions", section: "section?name=" + query.name }[path] || (path === "object" ? "" : path);
  for (const link of document.querySelectorAll("#nav a")) {
    link.getAttribute("href") === "#/" + current ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
  }
  document.title = (path === "section" ? sections[query.name] : query.name || { instances: "Instances of " + query.kind, program: "Watches and queues", definitions: "Definitions" }[path] || "Health") + " – Espalier";
  if (document.activeElement !== search) search.value = path === "" ? q || "" : "";
  if (isNew) live("wait", "connecting");
  render(html`<${pages[path]} key=${key} query=${query} title=${sections[query.name]} />`, main);
  if (!isNew) return;
  scrollTo(0, 0);
  if (!isFirst && document.activeElement !== search) main.focus({ preventScroll: true });
}

function message(title, text) {
  live("off", "not connected");
  render(html`<h1>${title}</h1><p>${text}</p>`, main);
}

async function start() {
  const response = await fetch("api/session").catch(() => null);
  const session = response && response.ok ? parse(await response.text()) : null;
  if (!session) return message("Not connected", response ? await response.text() : "The program that serves this page does not answer.");
  if (!session.loggedIn && session.logIn) return location.replace("login");
  if (!session.loggedIn) return message("No session", "Open the address that espalier ui has printed.");
  const logOut = async () => { await fetch("logout", { method: "POST" }).catch(() => null); location.reload(); };
  render(html`${[session.user, session.title].filter(Boolean).join(" · ")} ${session.logOut ? html`<button type="button" class="plain" onClick=${logOut}>Log out</button>` : null}`, document.getElementById("who"));
  const links = [["", "Health"], ["definitions", "Definitions"], ...(session.sections || []).map((s) => ["section?name=" + s, sections[s]]), ["program", "Watches and queues"]];
  render(links.map(([path, text]) => html`<a href=${"#/" + path}>${text}</a>`), document.getElementById("nav"));
  addEventListener("hashchange", route);
  route();
}

// The search shows the objects that match while one types, wherever the page was.
let typing = 0;
search.addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    const target = "#/" + (search.value.trim() ? "?" + new URLSearchParams({ q: search.value.trim() }) : "");
    addressOf().path === "" ? location.replace(target) : (location.hash = target);
  }, 150);
});
search.form.addEventListener("submit", (e) => e.preventDefault());
addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input")) return;
  e.preventDefault();
  search.focus();
});
document.getElementById("skip").addEventListener("click", (e) => { e.preventDefault(); main.focus(); });
main.replaceChildren();
start();
