// The pages with tables: definitions, one definition with its instances, and the watches and queues.
import { el, age, advice, announce, badge, copyable, href, problem, refOf, sentence, setText, Stream } from "./dom.js";
import { Picture } from "./graph.js";

// Table keeps the rows of a table in step with the items of a stream: only rows that have changed are drawn again.
class Table {
  constructor(caption, columns, draw) {
    this.draw = draw;
    this.body = el("tbody");
    this.rows = new Map();
    this.element = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, el("tr", {}, headers(columns))), this.body));
  }

  update(stream, change) {
    const hadFocus = document.activeElement && this.body.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    for (const key of this.rows.keys()) {
      if (!stream.items.has(key)) {
        this.rows.get(key).remove();
        this.rows.delete(key);
      }
    }
    for (const key of stream.order) {
      if (this.rows.has(key) && !change.changed.has(key)) continue;
      const row = this.draw(stream.items.get(key), key);
      if (this.rows.has(key)) {
        row.classList.add("changed");
        this.rows.get(key).replaceWith(row);
      }
      this.rows.set(key, row);
    }
    let place = this.body.firstElementChild;
    for (const key of stream.order) {
      const row = this.rows.get(key);
      if (row === place) place = place.nextElementSibling;
      else this.body.insertBefore(row, place);
    }
    if (hadFocus && !this.body.contains(document.activeElement)) {
      for (const link of this.body.querySelectorAll("a")) if (link.getAttribute("href") === hadFocus) { link.focus(); break; }
    }
  }
}

const numbers = ["Instances", "Subscribers", "Objects", "Events", "Waiting", "Active", "Failing"];

function headers(columns) {
  return columns.map((c) => el("th", { scope: "col", class: numbers.includes(c) ? "number" : null }, c));
}

function bar(done, total, label) {
  return el("progress", { max: Math.max(total, 1), value: done, "aria-label": label });
}

function rolloutText(r) {
  return `revision ${r.revision}: ${r.phase}, wave ${r.wave} of ${r.waves}, ${r.updated} of ${r.total} updated, ${r.ready} ready`;
}

function needAction(count) {
  return count + (count === 1 ? " needs action" : " need action");
}

// unreadyText names the first number only if it is another one than the second: the column says what it counts.
function unreadyText(unready, action) {
  if (!action) return String(unready);
  return (unready === action ? "" : unready + ", ") + needAction(action);
}

export function overview(main) {
  const summary = el("p", { class: "summary" }, "Reading…");
  const problems = el("div");
  const table = new Table("Definitions, those with something unready first", ["Definition", "State", "Instances", "Not ready", "Revision", "Age"], (d) => el("tr", { class: d.tone },
    el("th", { scope: "row" }, el("a", { href: href("definition", refOf(d.object)) }, (d.object.namespace ? d.object.namespace + "/" : "") + d.object.name),
      el("span", { class: "minor" }, d.kinds.map((k) => k.kind).join(", ") + " · " + d.object.kind)),
    el("td", {}, badge(d.tone, d.ready === "True" ? "ready" : d.ready === "False" ? "not ready" : "unknown"), d.cause ? el("span", { class: "cause" }, d.cause) : null),
    el("td", { class: "number" }, d.counts ? String(d.counts.total) : el("span", { title: "not counted" }, "–")),
    el("td", {}, d.counts && d.counts.unready ? badge(d.counts.action ? "bad" : "progress", unreadyText(d.counts.unready, d.counts.action)) : null,
      d.counts && d.counts.deleting ? el("span", { class: "minor" }, d.counts.deleting + " being deleted") : null),
    el("td", {}, d.revision ? String(d.revision) : "", d.rollout && d.rollout.phase !== "Complete" ? el("span", { class: "minor" }, rolloutText(d.rollout), bar(d.rollout.updated, d.rollout.total, "Instances updated")) : null),
    el("td", {}, age(d.created))));
  const elsewhere = kindForm("", "");
  elsewhere.hidden = true;
  main.replaceChildren(el("h1", {}, "Definitions"), summary, problems, elsewhere, table.element);
  const stream = new Stream("overview", {}, {
    update(s, change) {
      const h = s.head;
      const hidden = (h.problems || []).length > 0, count = h.definitions === 1 ? "1 definition" : h.definitions + " definitions";
      const text = h.definitions === 0 ? (hidden ? "No definition can be read." : "There are no definitions yet.")
        : h.unready > 0 ? `${count}; ${h.unready} with something that is not ready.` : hidden ? `${count}; of what can be read, everything is ready.` : `${count}; everything is ready.`;
      if (change.head) {
        if (summary.textContent !== text) announce(text);
        setText(summary, text + (h.omitted ? ` ${h.omitted} are not shown.` : ""));
        problems.replaceChildren(...(h.problems || []).map((p) => el("p", { class: "note" }, sentence(p))));
        elsewhere.hidden = !hidden;
      }
      table.element.hidden = h.definitions === 0;
      table.update(s, change);
    },
    problem: (text) => problems.replaceChildren(problem(text)),
  });
  return () => stream.close();
}

// kindForm leads to the instances of a kind in a namespace: for viewers who may read these, but not the definition.
function kindForm(kind, namespace) {
  const text = { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" };
  const kinds = el("input", { ...text, size: 24, maxlength: 253, required: true, placeholder: "shop.example.com", value: kind });
  const within = el("input", { ...text, size: 16, maxlength: 63, value: namespace });
  const submit = (e) => {
    e.preventDefault();
    location.hash = href("instances", { kind: kinds.value.trim(), namespace: within.value.trim() });
  };
  return el("form", { class: "tools", "aria-label": "Instances of a kind", on: { submit } }, el("span", {}, "See the instances of a kind that you may read:"), el("label", {}, "Kind ", kinds), el("label", {}, "Namespace ", within), el("button", { type: "submit" }, "Show"));
}

// instances is the page of the instances of a kind, without its definition.
export function instances(main, query) {
  const heading = [el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Definitions")), el("h1", {}, "Instances ", el("span", { class: "name" }, query.kind || ""))];
  if (!query.kind) {
    main.replaceChildren(...heading, kindForm("", query.namespace || ""));
    return () => {};
  }
  if (query.namespace) chosenNamespace = query.namespace;
  const list = new Instances({ group: query.group || "", kind: query.kind }, "");
  main.replaceChildren(...heading, list.element);
  return () => list.close();
}

export function definition(main, query) {
  const head = el("div"), tabs = el("div");
  const title = el("h1", {}, query.kind + " ", el("span", { class: "name" }, (query.namespace ? query.namespace + "/" : "") + query.name));
  main.replaceChildren(el("p", { class: "crumbs" }, el("a", { href: "#/" }, "Definitions")), title, head, tabs);
  let lists = [], shown = "";
  const revisions = new Table("Revisions, the newest first", ["Revision", "State", "Age", "To return to it"], (r) => el("tr", {},
    el("th", { scope: "row" }, String(r.number)), el("td", {}, r.serving ? badge("good", "serving") : r.rolling ? badge("progress", "being rolled out") : "", r.account && r.account !== "controllers" ? el("span", { class: "minor" }, "as " + r.account) : null),
    el("td", {}, age(r.created)), el("td", {}, r.rollback ? copyable(r.rollback) : "")));
  const revisionsProblem = el("div");
  const revisionsBox = el("details", { class: "box" }, el("summary", {}, el("h2", {}, "Revisions")), revisionsProblem, revisions.element);
  const pictureBox = el("details", { class: "box" }, el("summary", {}, el("h2", {}, "Graph of the definition")));
  const picture = new Picture("Graph of the definition: an arrow leads from a resource to those that read it");
  pictureBox.append(picture.element);
  const stream = new Stream("definition", query, {
    update(s, change) {
      const h = s.head;
      if (h.gone) {
        head.replaceChildren(problem("There is no such definition."));
        tabs.replaceChildren();
        return;
      }
      if (change.head) {
        head.replaceChildren(
          el("p", { class: "summary" }, badge(h.tone, h.ready === "True" ? "ready" : "not ready"), h.revision ? ` serves revision ${h.revision}` + (h.latest > h.revision ? `; the newest is ${h.latest}` : "") : "", h.created ? [" · created ", age(h.created), " ago"] : ""),
          h.cause ? el("p", { class: "cause-main" }, h.cause) : "", advice(h.advice) || "", rollout(h.rollout) || "",
          el("details", { class: "box" }, el("summary", {}, el("h2", {}, "Commands")), advice(h.commands)));
        if (h.picture) picture.draw(h.picture, h.picture.nodes.map((n) => ({ ...n, label: [n.title, ...n.lines].join(", ") })));
        pictureBox.hidden = !h.picture;
        const kinds = JSON.stringify(h.kinds);
        if (kinds !== shown) {
          shown = kinds;
          for (const l of lists) l.close();
          lists = h.kinds.map((k) => new Instances(k, query.namespace && query.kind === "ResourceGroup" ? query.namespace : ""));
          tabs.replaceChildren(...lists.map((l) => l.element), pictureBox, revisionsBox);
        }
      }
      revisionsProblem.replaceChildren(h.revisionsProblem ? el("p", { class: "note" }, sentence(h.revisionsProblem)) : "");
      revisions.element.hidden = s.order.length === 0;
      revisionsBox.hidden = s.order.length === 0 && !h.revisionsProblem;
      revisions.update(s, change);
    },
    problem: (text) => head.replaceChildren(problem(text)),
  });
  return () => { stream.close(); for (const l of lists) l.close(); };
}

function rollout(r) {
  if (!r || r.phase === "Complete") return null;
  return el("section", { class: "box", "aria-label": "Rollout" }, el("h2", {}, "Rollout"), el("p", {}, rolloutText(r), " · started ", age(r.started), " ago"),
    bar(r.updated, r.total, "Instances updated"), bar(r.ready, r.total, "Instances ready"), r.message ? el("p", {}, r.message) : null,
    (r.unready || []).length ? el("ul", {}, r.unready.map((u) => el("li", {}, (u.namespace ? u.namespace + "/" : "") + u.name + ": " + [u.reason, u.message].filter(Boolean).join(": ")))) : null);
}

const pageSize = 50;

// The namespace that the viewer has typed, for the next lists too.
let chosenNamespace = "";

// Instances is the list of the instances of a kind, of which the server sends one window.
class Instances {
  constructor(kind, namespace) {
    this.window = { filter: "", unready: false, offset: 0, limit: pageSize };
    this.summary = el("p", { class: "summary" }, "Reading…");
    this.problems = el("div");
    this.table = new Table("Instances of " + kind.kind + ", what is unready first", ["Instance", "State", "Cause", "Age"], (r) => el("tr", { class: r.tone },
      el("th", { scope: "row" }, el("a", { href: href("object", refOf(r.object)) }, r.object.name), r.object.namespace ? el("span", { class: "minor" }, r.object.namespace) : null),
      el("td", {}, badge(r.tone, r.deleting ? "deleting" : r.ready === "True" ? "ready" : r.reason || "not ready"), r.progress ? el("span", { class: "minor" }, r.progress) : null, r.pin ? el("span", { class: "minor" }, "revision " + r.pin) : null),
      el("td", {}, el("span", { class: "cause" }, r.cause || "")), el("td", {}, age(r.created))));
    const filter = el("input", { type: "search", maxlength: 200, autocomplete: "off", spellcheck: "false", on: { input: (e) => { clearTimeout(this.typing); this.typing = setTimeout(() => this.move({ filter: e.target.value, offset: 0 }), 150); } } });
    const only = el("input", { type: "checkbox", on: { change: (e) => this.move({ unready: e.target.checked, offset: 0 }) } });
    const within = el("input", { type: "text", size: 16, maxlength: 63, autocomplete: "off", autocapitalize: "off", spellcheck: "false", value: chosenNamespace, on: { change: (e) => { chosenNamespace = e.target.value.trim(); this.open(chosenNamespace); } } });
    this.place = el("span", { class: "place" });
    const button = (label, to) => el("button", { type: "button", on: { click: () => this.move({ offset: to() }) } }, label);
    this.first = button("First", () => 0);
    this.before = button("Previous", () => Math.max(0, this.window.offset - pageSize));
    this.next = button("Next", () => this.window.offset + pageSize);
    this.last = button("Last", () => Math.floor(Math.max(0, this.matching - 1) / pageSize) * pageSize);
    this.pager = el("nav", { class: "pager", "aria-label": "Pages of instances of " + kind.kind }, this.first, this.before, this.place, this.next, this.last);
    this.element = el("section", { "aria-label": "Instances of " + kind.kind }, el("h2", {}, kind.kind, " ", el("span", { class: "minor" }, kind.group)),
      el("div", { class: "tools" }, namespace ? null : el("label", {}, "Namespace ", within), el("label", {}, "Filter ", filter), el("label", {}, only, " only what is not ready"), this.summary), this.problems, this.table.element, this.pager);
    this.kind = kind;
    this.open(namespace || chosenNamespace);
  }

  // open shows the instances of a namespace, or of all of them.
  open(namespace) {
    const before = this.stream;
    if (before) before.close();
    this.window.offset = 0;
    this.stream = new Stream("instances", { group: this.kind.group, kind: this.kind.kind, namespace }, {
      update: (s, change) => {
        this.problems.replaceChildren();
        this.table.element.hidden = false;
        this.update(s, change);
      },
      problem: (text) => {
        this.table.element.hidden = this.pager.hidden = true; // what they show is of another namespace, or nothing
        this.problems.replaceChildren(problem(text));
        setText(this.summary, "");
      },
    });
    if (before) this.stream.move(this.window);
  }

  move(change) {
    Object.assign(this.window, change);
    this.stream.move(this.window);
  }

  update(s, change) {
    const h = s.head;
    this.matching = h.matching;
    this.window.offset = h.offset;
    const filtered = h.matching !== h.total ? `, ${h.matching} match` : "";
    const text = `${h.total} in all, ${h.unready} not ready` + (h.action ? `, ${needAction(h.action)}` : "") + (h.deleting ? `, ${h.deleting} being deleted` : "") + filtered;
    if (change.head && this.summary.textContent !== text) {
      setText(this.summary, text);
      announce(text);
    }
    this.table.update(s, change);
    this.pager.hidden = h.matching <= h.limit;
    setText(this.place, h.matching ? `${h.offset + 1}–${Math.min(h.offset + h.limit, h.matching)} of ${h.matching}` : "");
    this.first.disabled = this.before.disabled = h.offset === 0;
    this.next.disabled = this.last.disabled = h.offset + h.limit >= h.matching;
  }

  close() {
    clearTimeout(this.typing);
    this.stream.close();
  }
}

export function program(main) {
  const summary = el("p", { class: "summary" }, "Reading…"), problems = el("div"), queues = el("tbody");
  const table = new Table("Watches, what does not work first", ["Kind", "Selection", "State", "Subscribers", "Objects", "Events", "Since"], (w) => el("tr", { class: w.unavailable ? "bad" : "" },
    el("th", { scope: "row" }, w.kind, el("span", { class: "minor" }, (w.group ? w.group + "/" : "") + w.version)), el("td", {}, w.selection, w.as ? el("span", { class: "minor" }, "as " + w.as) : null),
    el("td", {}, badge(w.unavailable ? "bad" : w.state === "Synced" ? "good" : "progress", w.reason || w.state), w.message ? el("span", { class: "cause" }, w.message) : null),
    el("td", { class: "number" }, String(w.subscribers)), el("td", { class: "number" }, String(w.objects)), el("td", { class: "number" }, String(w.events)), el("td", {}, age(w.since))));
  const queueTable = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Queues" }, el("table", {}, el("caption", { class: "unseen" }, "Queues, what fails and what waits first"),
    el("thead", {}, el("tr", {}, headers(["Kind", "Waiting", "Active", "Failing"]))), queues));
  const idle = el("p", { class: "minor" });
  const body = el("div", {}, el("h2", {}, "Queues"), queueTable, idle, el("h2", {}, "Watches"), table.element);
  main.replaceChildren(el("h1", {}, "Watches and queues"), summary, problems, body);
  const stream = new Stream("program", {}, {
    update(s, change) {
      const h = s.head;
      body.hidden = !!h.problem;
      problems.replaceChildren(...(h.problem ? [problem(h.problem)] : []));
      setText(summary, h.problem ? "" : `${h.watches} watches of ${h.objects} objects; ${h.unavailable || "none"} unavailable` + (h.omitted ? `; ${h.omitted} are not shown` : ""));
      queueTable.hidden = h.queues.length === 0;
      setText(idle, `${h.idle} kinds have nothing to reconcile.`);
      queues.replaceChildren(...h.queues.map((q) => el("tr", { class: q.retries ? "bad" : "" }, el("th", { scope: "row" }, q.kind, el("span", { class: "minor" }, q.group)), el("td", { class: "number" }, String(q.depth)), el("td", { class: "number" }, String(q.active)), el("td", { class: "number" }, String(q.retries)))));
      table.update(s, change);
    },
    problem: (text) => problems.replaceChildren(problem(text)),
  });
  return () => stream.close();
}
