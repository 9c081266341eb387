// The picture of a graph, and the page of one object.
import { el, svg, age, advice, announce, badge, copyable, href, problem, refOf, setText, Stream } from "./dom.js";

const line = 17, padding = 10; // as the layout has them

// Picture draws boxes and edges. Boxes are moved and not drawn again, so that one sees what changes. Arrow keys lead from box to box.
export class Picture {
  constructor(label, select) {
    this.select = select;
    this.edges = svg("g");
    this.nodes = svg("g", { role: "list", "aria-label": label });
    this.svg = svg("svg", { role: "group", "aria-label": label },
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, svg("path", { class: "arrow", d: "M0 0 8 4 0 8z" }))), this.edges, this.nodes);
    this.element = el("div", { class: "picture" }, this.svg);
    this.boxes = new Map();
    this.svg.addEventListener("keydown", (e) => this.key(e));
  }

  draw(head, items) {
    this.svg.setAttribute("width", head.width);
    this.svg.setAttribute("height", head.height);
    this.svg.setAttribute("viewBox", `0 0 ${head.width} ${head.height}`);
    this.paths = head.edges;
    this.edges.replaceChildren(...head.edges.map((e) => svg("path", { class: "edge" + (e.dashed ? " later" : ""), d: e.path, "marker-end": "url(#arrow)" })));
    const seen = new Set();
    for (const item of items) {
      seen.add(item.id);
      this.box(item);
    }
    for (const [id, box] of this.boxes) {
      if (!seen.has(id)) {
        box.element.remove();
        this.boxes.delete(id);
      }
    }
    for (const item of items) { // the order in which a keyboard and a screen reader meet them
      const element = this.boxes.get(item.id).element;
      if (this.nodes.children[items.indexOf(item)] !== element) this.nodes.insertBefore(element, this.nodes.children[items.indexOf(item)] || null);
    }
    if (!this.current || !this.boxes.has(this.current)) this.current = items.length ? items[0].id : null;
    for (const [id, box] of this.boxes) box.element.setAttribute("tabindex", id === this.current ? "0" : "-1");
  }

  box(item) {
    let box = this.boxes.get(item.id);
    if (!box) {
      const element = svg("g", { role: this.select ? "button" : "listitem", "data-id": item.id, on: {
        click: () => this.choose(item.id), focus: () => this.focusOn(item.id, false),
      } });
      box = { element };
      this.boxes.set(item.id, box);
      this.nodes.append(element);
    }
    const drawn = JSON.stringify([item.title, item.lines, item.tone, item.shape, item.width, item.height]);
    if (drawn !== box.drawn) {
      const was = box.drawn;
      box.drawn = drawn;
      const radius = item.shape === "rounded" ? item.height / 2 : 4;
      const rect = (d) => svg("rect", { x: d, y: d, width: item.width, height: item.height, rx: radius });
      box.element.setAttribute("class", ["node", item.shape, item.tone].filter(Boolean).join(" "));
      box.element.replaceChildren(...(item.shape === "stacked" ? [rect(4)] : []), rect(0),
        ...[item.title, ...item.lines].map((text, i) => svg("text", { class: i === 0 ? "title" : "detail", x: padding, y: padding / 2 + (i + 1) * line - 5 }, text)));
      if (was && !box.element.classList.contains("flash")) {
        box.element.classList.add("flash");
        setTimeout(() => box.element.classList.remove("flash"), 1200);
      }
    }
    box.item = item;
    box.element.setAttribute("aria-label", item.label);
    box.element.style.transform = `translate(${item.x}px, ${item.y}px)`;
    if (this.select) box.element.setAttribute("aria-pressed", item.id === this.chosen ? "true" : "false");
  }

  choose(id) {
    if (!this.select) return;
    this.chosen = id;
    for (const [other, box] of this.boxes) box.element.setAttribute("aria-pressed", other === id ? "true" : "false");
    this.select(id);
  }

  focusOn(id, move) {
    if (this.current && this.boxes.has(this.current)) this.boxes.get(this.current).element.setAttribute("tabindex", "-1");
    this.current = id;
    const element = this.boxes.get(id).element;
    element.setAttribute("tabindex", "0");
    if (move) {
      element.focus();
      element.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  key(e) {
    if (e.ctrlKey || e.metaKey || e.altKey || !this.current) return;
    const from = this.boxes.get(this.current).item;
    const all = [...this.boxes.values()].map((b) => b.item);
    const y = (i) => i.y + i.height / 2;
    const nearest = (list) => list.sort((a, b) => Math.abs(y(a) - y(from)) - Math.abs(y(b) - y(from)))[0];
    const column = all.filter((i) => i.x === from.x).sort((a, b) => a.y - b.y);
    const edgesTo = (test) => this.paths.filter(test).map((p) => (p.from === from.id ? p.to : p.from)).map((id) => this.boxes.get(id)).filter(Boolean).map((b) => b.item);
    let to;
    switch (e.key) {
      case "ArrowRight": to = nearest(edgesTo((p) => p.from === from.id)) || nearest(all.filter((i) => i.x > from.x)); break;
      case "ArrowLeft": to = nearest(edgesTo((p) => p.to === from.id)) || nearest(all.filter((i) => i.x < from.x)); break;
      case "ArrowDown": to = column[column.indexOf(from) + 1]; break;
      case "ArrowUp": to = column[column.indexOf(from) - 1]; break;
      case "Home": to = all[0]; break;
      case "End": to = all[all.length - 1]; break;
      case "Enter": case " ": e.preventDefault(); this.choose(from.id); return;
      default: return;
    }
    e.preventDefault();
    if (to) this.focusOn(to.id, true);
  }
}

function definitionList(pairs) {
  return el("dl", {}, pairs.filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

function section(title, ...children) {
  return el("section", {}, el("h3", {}, title), children);
}

function details(item, root) {
  const o = item.object;
  const out = [el("h2", { tabindex: "-1", id: "details-title" }, item.title), el("p", {}, badge(item.tone, item.state))];
  if (item.cause && !root) out.push(el("p", { class: "cause-main" }, item.cause, item.since ? [" (", age(item.since), ")"] : ""), advice(item.advice));
  else if (item.message && !root) out.push(el("p", {}, item.message));
  if (o) {
    out.push(definitionList([["Kind", o.kind + " · " + o.apiVersion], ["Namespace", o.namespace], ["Name", o.name], ["Created", item.created ? [age(item.created), " ago"] : null], ["Deletion began", item.deleted ? [age(item.deleted), " ago"] : null]]));
    if (!root && item.instance) out.push(el("p", {}, el("a", { href: href("object", refOf(o)) }, "Open it as a graph of its own")));
  }
  if (item.waits) out.push(section("Waits for", el("ul", {}, item.waits.map((w) => el("li", {}, el("code", {}, w.on), ` ${w.reason}, since `, age(w.since))))));
  if (item.blockers) out.push(section("Blockers", el("ul", {}, item.blockers.map((b) => el("li", {}, el("strong", {}, b.object), `: ${b.reason}`, b.message ? `: ${b.message}` : "", b.since ? [" (", age(b.since), ")"] : "", advice(b.advice))))));
  if (item.fields) out.push(section("Fields that other managers have changed", el("ul", {}, item.fields.map((f) => el("li", {}, el("code", {}, f.field), " is ", el("code", {}, f.value), f.managers ? [", set by " + f.managers.map((m) => m.name).join(", ")] : "", "; the definition sets ", el("code", {}, f.sets), copyable(f.command))))));
  if (item.writes) out.push(section("Last writes", el("table", { class: "small" }, el("thead", {}, el("tr", {}, ["Manager", "Operation", "Age"].map((c) => el("th", { scope: "col" }, c)))),
    el("tbody", {}, item.writes.map((w) => el("tr", {}, el("th", { scope: "row" }, w.manager), el("td", {}, w.operation + (w.subresource ? " of " + w.subresource : "")), el("td", {}, age(w.time))))))));
  if (item.commands) out.push(section("Commands", advice(item.commands)));
  return out.flat().filter(Boolean);
}

export function object(main, query) {
  const name = (query.namespace ? query.namespace + "/" : "") + query.name;
  const head = el("div", {}, el("p", { class: "summary" }, "Reading…")), notes = el("div");
  const panel = el("aside", { class: "details", "aria-label": "Details of the chosen resource" });
  const more = el("div");
  let chosen = "/", shown = "";
  const show = (s, force) => {
    const item = s.items.get(chosen) || s.items.get("/");
    if (!item) { panel.replaceChildren(); return; }
    const text = JSON.stringify({ ...item, x: 0, y: 0 });
    if (text === shown && !force) return;
    shown = text;
    const focus = document.activeElement && panel.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    panel.replaceChildren(...details(item, item.id === "/"));
    if (focus) for (const b of panel.querySelectorAll("button")) if (b.getAttribute("aria-label") === focus) { b.focus(); break; }
  };
  const picture = new Picture("Graph of " + query.kind + " " + name + ": an arrow leads from a resource to those that read it. Arrow keys move, Enter shows details.", (id) => {
    chosen = id;
    show(stream, true);
    announce("Details: " + (stream.items.get(id) || {}).label);
  });
  const crumbs = el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Definitions"));
  main.replaceChildren(crumbs, el("h1", {}, query.kind + " ", el("span", { class: "name" }, name)), head, notes,
    el("div", { class: "split" }, picture.element, panel), more);
  let said = "";
  const stream = new Stream("object", query, {
    update(s, change) {
      const h = s.head;
      if (h.gone) {
        const known = said !== "";
        head.replaceChildren(known ? el("p", { class: "summary" }, "It is gone.") : problem("There is no such object."), el("p", {}, el("a", { href: "#/" }, "All definitions and their instances")));
        if (known) announce("It is gone.");
        picture.element.hidden = panel.hidden = true;
        more.replaceChildren();
        return;
      }
      if (change.head) {
        head.replaceChildren(
          el("p", { class: "summary" }, badge(h.tone, h.deleted ? "deleting" : h.ready === "True" ? "ready" : h.ready === "-" ? "exists" : "not ready"), " " + resources(h), h.created ? [" · created ", age(h.created), " ago"] : ""),
          h.removal ? el("p", {}, el("progress", { max: Math.max(h.removal.total, 1), value: h.removal.removed, "aria-label": "Objects removed" }), ` ${h.removal.removed} of ${h.removal.total} removed` + (h.removal.blocked ? `, ${h.removal.blocked} blocked` : "")) : "",
          h.ready === "True" && !h.deleted ? "" : el("p", { class: "cause-main" }, h.cause), h.ready === "True" && !h.deleted ? "" : advice(h.advice) || "");
        if (h.definition) crumbs.replaceChildren(el("a", { href: "#/" }, "Definitions"), " › ", el("a", { href: href("definition", refOf(h.definition)) }, (h.definition.namespace ? h.definition.namespace + "/" : "") + h.definition.name));
        notes.replaceChildren(...(h.unreadable || []).map((u) => el("p", { class: "note" }, "You are not allowed to list and watch " + u + "; these objects are not shown.")),
          ...(h.omitted ? [el("p", { class: "note" }, `${h.omitted} objects are not drawn.`)] : []));
        more.replaceChildren(chain(h), others(h));
        if (h.cause !== said) announce(h.cause);
        said = h.cause;
      }
      picture.draw(h, s.order.map((key) => s.items.get(key)));
      show(s, false);
    },
    problem: (text) => head.replaceChildren(problem(text)),
  });
  return () => stream.close();
}

function resources(h) {
  if (!h.unready) return h.resources === 1 ? "1 resource" : h.resources + " resources";
  return `${h.unready} of ${h.resources} resources ${h.unready === 1 ? "is" : "are"} not ready` + (h.objects < h.resources ? ` (${h.objects} exist${h.objects === 1 ? "s" : ""})` : "");
}

function chain(h) {
  if (!h.chain || h.chain.length < 2) return "";
  return el("section", { class: "box" }, el("h2", {}, "Chain to the cause"), el("ol", { class: "chain" }, h.chain.map((l) => el("li", {}, el("strong", {}, l.name), l.reason ? " " + l.reason : "", l.message ? ": " + l.message : "", l.since ? [" (", age(l.since), ")"] : ""))));
}

function others(h) {
  if (!h.others) return "";
  return el("section", { class: "box" }, el("h2", {}, "Other problems"), el("ul", {}, h.others.map((o) => el("li", {}, o.cause, advice(o.advice)))));
}
