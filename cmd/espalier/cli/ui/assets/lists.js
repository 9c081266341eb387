// The pages with tables: what is not ready, definitions, one definition with its instances, and the watches and queues.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/preact.js";
import { Advice, Age, announce, Badge, Command, counted, href, nameOf, Notes, Problem, refOf, sentence, useStream } from "./dom.js";
import { Graph } from "./graph.js";

// Table shows the items of a stream; rows that change light up.
function Table({ caption, columns, state, row }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${caption}><table>
    <caption class="unseen">${caption}</caption>
    <thead><tr>${columns.map((c) => html`<th scope="col" class=${numbers.includes(c) ? "number" : null}>${c}</th>`)}</tr></thead>
    <tbody>${state.order.map((key) => html`<${Row} key=${key} item=${state.items.get(key)} columns=${columns} draw=${row} />`)}</tbody>
  </table></div>`;
}

const numbers = ["Instances", "Subscribers", "Objects", "Events", "Waiting", "Active", "Failing"];

// Row draws an item as cells, the first of which is its heading.
function Row({ item, columns, draw }) {
  const element = useRef(), before = useRef(item);
  useLayoutEffect(() => {
    if (before.current === item) return;
    before.current = item;
    element.current.classList.remove("changed");
    void element.current.offsetWidth; // begins the animation again
    element.current.classList.add("changed");
  });
  const [heading, ...cells] = draw(item);
  return html`<tr ref=${element} class=${item.tone || null}><th scope="row">${heading}</th>${cells.map((c, i) => html`<td data-label=${columns[i + 1]} class=${numbers.includes(columns[i + 1]) ? "number" : null}>${c}</td>`)}</tr>`;
}

function Bar({ done, total, label }) {
  return html`<progress max=${Math.max(total, 1)} value=${done} aria-label=${label} />`;
}

function needAction(count) {
  return count + (count === 1 ? " needs action" : " need action");
}

function stateOf(r) {
  return r.deleting ? "deleting" : r.ready === "True" ? "ready" : r.ready === "-" ? "exists" : r.reason || "not ready";
}

// objectRow is a row of a list of objects.
function objectRow(withKind) {
  return (r) => [
    html`<a href=${href(r.definition ? "definition" : "object", refOf(r.object))}>${r.object.name}</a><span class="minor">${[withKind ? r.object.kind : "", r.object.namespace].filter(Boolean).join(" · ")}</span>`,
    html`<${Badge} tone=${r.tone} text=${stateOf(r)} />${r.progress ? html`<span class="minor">${r.progress}</span>` : null}${r.pin ? html`<span class="minor">revision ${r.pin}</span>` : null}`,
    html`<span class="cause">${r.cause || ""}</span>`, html`<${Age} of=${r.created} />`,
  ];
}

const pageSize = 50;

function Pager({ head, label, move }) {
  if (!head || head.matching <= head.limit) return null;
  const { offset, limit, matching } = head;
  const button = (text, to, off) => html`<button type="button" disabled=${off} onClick=${() => move(to)}>${text}</button>`;
  return html`<nav class="pager" aria-label=${"Pages of " + label}>
    ${button("First", 0, offset === 0)}${button("Previous", Math.max(0, offset - limit), offset === 0)}
    <span class="place">${offset + 1}–${Math.min(offset + limit, matching)} of ${matching}</span>
    ${button("Next", offset + limit, offset + limit >= matching)}${button("Last", Math.floor(Math.max(0, matching - 1) / limit) * limit, offset + limit >= matching)}</nav>`;
}

// useAnnounced announces a text when it changes.
function useAnnounced(text) {
  useEffect(() => { if (text) announce(text); }, [text]);
}

// Overview shows everything that is not ready, or what matches the search; or all objects of a section.
export function Overview({ query, title }) {
  const section = query.name || "", q = query.q || "";
  const [offset, setOffset] = useState(0);
  const [all, setAll] = useState(section !== "");
  useEffect(() => setOffset(0), [q, all]);
  const s = useStream("overview", section ? { name: section } : {}, { filter: q, unready: !all && !q, offset, limit: pageSize });
  const h = s.head, problems = (h && h.problems) || [];
  const summary = !h ? "" : h.total === 0 ? (problems.length ? "Nothing can be read." : "There is nothing yet.") :
    h.unready === 0 ? `${problems.length ? "Of what can be read, everything" : "Everything"} is ready: ${counted(h.total, "object")}.` :
    `${h.unready} of ${counted(h.total, "object")} ${h.unready === 1 ? "is" : "are"} not ready` + (h.action ? `, ${needAction(h.action)}` : "") + (h.deleting ? `, ${h.deleting} being deleted` : "") + ".";
  const text = summary + (q && h ? ` ${counted(h.matching, "object matches", "objects match")} “${q}”.` : "");
  useAnnounced(text);
  return html`<h1>${title || (q ? "Search" : "Health")}</h1>
    <p class=${"summary " + (h && h.action ? "bad" : "")}>${s.problem ? "" : h ? text : "Reading…"}</p>
    <${Problem} text=${s.problem} /><${Notes} list=${problems} />
    ${problems.length ? html`<${KindForm} />` : null}
    ${h && !section ? html`<div class="tools">
      ${(h.kinds || []).filter((k) => k.unready).slice(0, 12).map((k) => html`<a class=${"chip " + (k.action ? "bad" : "progress")} href=${"#/?" + new URLSearchParams({ q: (k.kind + "." + k.group).toLowerCase() })}>${k.kind} <b>${k.unready}</b></a>`)}
      ${q ? html`<a href="#/">Show what is not ready</a>` : html`<label><input type="checkbox" checked=${all} onChange=${(e) => setAll(e.target.checked)} /> include what is ready</label>`}</div>` : null}
    ${h && s.order.length ? html`<${Table} caption=${title || "Objects, the worst first"} columns=${["Object", "State", "Cause", "Age"]} state=${s} row=${objectRow(true)} /><${Pager} head=${h} label="objects" move=${setOffset} />` : null}
    ${h && h.kinds && (all || section) ? html`<h2>Kinds</h2><ul class="kinds">${h.kinds.map((k) => html`<li><a href=${href("instances", { group: k.group, kind: k.kind })}>${k.kind}</a> <span class="minor">${k.group}</span> ${k.unready ? html`<${Badge} tone=${k.action ? "bad" : "progress"} text=${k.unready + " of " + k.total + " not ready"} />` : html`<span class="minor">${k.total} ready</span>`}</li>`)}</ul>` : null}`;
}

function rolloutText(r) {
  return `revision ${r.revision}: ${r.phase}, wave ${r.wave} of ${r.waves}, ${r.updated} of ${r.total} updated, ${r.ready} ready`;
}

// unreadyText names the first number only if it is another one than the second: the column says what it counts.
function unreadyText(unready, action) {
  if (!action) return String(unready);
  return (unready === action ? "" : unready + ", ") + needAction(action);
}

export function Definitions() {
  const s = useStream("definitions", {});
  const h = s.head, problems = (h && h.problems) || [];
  const count = h && counted(h.definitions, "definition");
  const text = !h ? "" : h.definitions === 0 ? (problems.length ? "No definition can be read." : "There are no definitions yet.")
    : h.unready > 0 ? `${count}; ${h.unready} with something that is not ready.` : problems.length ? `${count}; of what can be read, everything is ready.` : `${count}; everything is ready.`;
  useAnnounced(text);
  const row = (d) => [
    html`<a href=${href("definition", refOf(d.object))}>${nameOf(d.object)}</a><span class="minor">${d.kinds.map((k) => k.kind).join(", ")} · ${d.object.kind}</span>`,
    html`<${Badge} tone=${d.tone} text=${d.ready === "True" ? "ready" : d.ready === "False" ? "not ready" : "unknown"} />${d.cause ? html`<span class="cause">${d.cause}</span>` : null}`,
    d.counts ? String(d.counts.total) : html`<span title="not counted">–</span>`,
    d.counts ? html`${d.counts.unready ? html`<${Badge} tone=${d.counts.action ? "bad" : "progress"} text=${unreadyText(d.counts.unready, d.counts.action)} />` : null}${d.counts.deleting ? html`<span class="minor">${d.counts.deleting} being deleted</span>` : null}` : null,
    html`${d.revision || ""}${d.rollout && d.rollout.phase !== "Complete" ? html`<span class="minor">${rolloutText(d.rollout)}<${Bar} done=${d.rollout.updated} total=${d.rollout.total} label="Instances updated" /></span>` : null}`,
    html`<${Age} of=${d.created} />`,
  ];
  return html`<h1>Definitions</h1><p class="summary">${s.problem ? "" : h ? text + (h.omitted ? ` ${h.omitted} are not shown.` : "") : "Reading…"}</p>
    <${Problem} text=${s.problem} /><${Notes} list=${problems} />${problems.length ? html`<${KindForm} />` : null}
    ${h && h.definitions ? html`<${Table} caption="Definitions, those with something unready first" columns=${["Definition", "State", "Instances", "Not ready", "Revision", "Age"]} state=${s} row=${row} />` : null}`;
}

// KindForm leads to the instances of a kind in a namespace: for viewers who may read these, but not the definition.
function KindForm({ kind, namespace }) {
  const text = { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false" };
  const submit = (e) => {
    e.preventDefault();
    const [kinds, within] = e.target.querySelectorAll("input");
    location.hash = href("instances", { kind: kinds.value.trim(), namespace: within.value.trim() });
  };
  return html`<form class="tools" aria-label="Instances of a kind" onSubmit=${submit}><span>See the instances of a kind that you may read:</span>
    <label>Kind <input ...${text} size="24" maxlength="253" required placeholder="shop.example.com" value=${kind} /></label>
    <label>Namespace <input ...${text} size="16" maxlength="63" value=${namespace} /></label><button type="submit">Show</button></form>`;
}

// Instances is the page of the instances of a kind, without its definition.
export function Instances({ query }) {
  const heading = html`<p class="crumbs"><a href="#/definitions">Definitions</a></p><h1>Instances <span class="name">${query.kind || ""}</span></h1>`;
  if (!query.kind) return html`${heading}<${KindForm} namespace=${query.namespace} />`;
  if (query.namespace) chosenNamespace = query.namespace;
  return html`${heading}<${InstanceList} kind=${{ group: query.group || "", kind: query.kind }} />`;
}

// The namespace that the viewer has typed, for the next lists too.
let chosenNamespace = "";

// InstanceList is the list of the instances of a kind, of which the server sends one window.
function InstanceList({ kind, namespace: fixed }) {
  const [namespace, setNamespace] = useState(fixed || chosenNamespace);
  const [part, setPart] = useState({ filter: "", unready: false, offset: 0, limit: pageSize });
  const typing = useRef(0);
  const move = (change) => setPart((before) => ({ ...before, ...change }));
  const s = useStream("instances", { ...kind, namespace }, part);
  const h = s.head, label = "instances of " + kind.kind;
  const text = !h || s.problem ? "" : `${h.total} in all, ${h.unready} not ready` + (h.action ? `, ${needAction(h.action)}` : "") + (h.deleting ? `, ${h.deleting} being deleted` : "") + (h.matching !== h.total ? `, ${h.matching} match` : "");
  useAnnounced(text);
  const within = (e) => { chosenNamespace = e.target.value.trim(); move({ offset: 0 }); setNamespace(chosenNamespace); };
  const filter = (e) => { clearTimeout(typing.current); typing.current = setTimeout(() => move({ filter: e.target.value, offset: 0 }), 150); };
  return html`<section aria-label=${"Instances of " + kind.kind}><h2>${kind.kind} <span class="minor">${kind.group}</span></h2>
    <div class="tools">${fixed ? null : html`<label>Namespace <input type="text" size="16" maxlength="63" autocomplete="off" autocapitalize="off" spellcheck="false" value=${namespace} onChange=${within} /></label>`}
      <label>Filter <input type="search" maxlength="200" autocomplete="off" spellcheck="false" onInput=${filter} /></label>
      <label><input type="checkbox" onChange=${(e) => move({ unready: e.target.checked, offset: 0 })} /> only what is not ready</label>
      <span class="summary">${s.problem ? "" : text || "Reading…"}</span></div>
    <${Problem} text=${s.problem} />
    ${h && !s.problem ? html`<${Table} caption=${"Instances of " + kind.kind + ", what is unready first"} columns=${["Instance", "State", "Cause", "Age"]} state=${s} row=${objectRow(false)} /><${Pager} head=${h} label=${label} move=${(offset) => move({ offset })} />` : null}</section>`;
}

export function Definition({ query }) {
  const s = useStream("definition", query);
  const h = s.head;
  const heading = html`<p class="crumbs"><a href="#/definitions">Definitions</a></p><h1>${query.kind} <span class="name">${nameOf(query)}</span></h1>`;
  if (!h || h.gone) return html`${heading}${s.problem ? html`<${Problem} text=${s.problem} />` : h ? html`<${Problem} text="there is no such definition" />` : html`<p class="summary">Reading…</p>`}`;
  return html`${heading}
    <p class="summary"><${Badge} tone=${h.tone} text=${h.ready === "True" ? "ready" : "not ready"} />${h.revision ? ` serves revision ${h.revision}` + (h.latest > h.revision ? `; the newest is ${h.latest}` : "") : ""}${h.created ? html` · created <${Age} of=${h.created} /> ago` : null}</p>
    <${Problem} text=${s.problem} />
    ${h.cause ? html`<p class=${"cause-main " + h.tone}>${h.cause}</p>` : null}<${Advice} list=${h.advice} />
    <${Rollout} r=${h.rollout} waves=${h.waves} />
    ${h.kinds.map((k) => html`<${InstanceList} key=${k.kind + k.group} kind=${k} namespace=${query.kind === "ResourceGroup" ? query.namespace : ""} />`)}
    ${h.picture ? html`<section aria-label="Graph"><h2>Graph</h2><p class="minor">An arrow leads from a resource to those that read it.</p>
      <${Graph} label="Graph of the definition: an arrow leads from a resource to those that read it" head=${h.picture} at=${h.picture.nodes[0].id} nodes=${h.picture.nodes.map((n) => ({ ...n, label: [n.title, ...n.lines].join(", ") }))} /></section>` : null}
    <${Schema} fields=${h.fields} version=${h.version} />
    <section aria-label="Revisions" hidden=${!s.order.length && !h.revisionsProblem}><h2>Revisions</h2><${Notes} list=${h.revisionsProblem ? [h.revisionsProblem] : []} />
      ${s.order.length ? html`<${Table} caption="Revisions, the newest first" columns=${["Revision", "State", "Age", "To return to it"]} state=${s} row=${revisionRow} />` : null}</section>
    <details class="box"><summary><h2>Commands</h2></summary><${Advice} list=${h.commands} /></details>`;
}

function revisionRow(r) {
  return [String(r.number), html`${r.serving ? html`<${Badge} tone="good" text="serving" />` : r.rolling ? html`<${Badge} tone="progress" text="being rolled out" />` : null}${r.account && r.account !== "controllers" ? html`<span class="minor">as ${r.account}</span>` : null}`,
    html`<${Age} of=${r.created} />`, r.rollback ? html`<${Command} text=${r.rollback} />` : null];
}

const waveTones = { done: "good", current: "progress", next: "muted" };
const waveWords = { done: "updated", current: "in progress", next: "later" };

function Rollout({ r, waves }) {
  if (!r) return null;
  const isOver = r.phase === "Complete";
  return html`<section class="box" aria-label="Rollout"><h2>Rollout</h2>
    <p>${isOver ? `Revision ${r.revision} has reached ${counted(r.total, "instance")}: all of them.` : sentence(rolloutText(r))} ${isOver ? null : html`Started <${Age} of=${r.started} /> ago.`}${r.pinned ? ` ${r.pinned} keep a revision of their own.` : ""}</p>
    ${waves ? html`<ol class="waves">${waves.map((w, i) => html`<li class=${w.state}>Wave ${i + 1}: ${w.instances} <${Badge} tone=${waveTones[w.state]} text=${waveWords[w.state]} /></li>`)}</ol>` : null}
    ${isOver ? null : html`<p><${Bar} done=${r.updated} total=${r.total} label="Instances updated" /> ${r.updated} of ${r.total} updated</p><p><${Bar} done=${r.ready} total=${r.total} label="Instances ready" /> ${r.ready} of ${r.total} ready</p>`}
    ${r.message ? html`<p>${r.message}</p>` : null}
    ${r.unready ? html`<ul>${r.unready.map((u) => html`<li>${nameOf(u)}: ${[u.reason, u.message].filter(Boolean).join(": ")}</li>`)}</ul>` : null}</section>`;
}

function Schema({ fields, version }) {
  if (!fields) return null;
  const part = (title, list) => list.length ? html`<h3>${title}</h3><div class="scroll schema" tabindex="0" role="region" aria-label=${title}><table><caption class="unseen">${title}</caption>
    <thead><tr>${["Field", "Type", "Default", "What it is"].map((c) => html`<th scope="col">${c}</th>`)}</tr></thead>
    <tbody>${list.map((f) => html`<tr><th scope="row"><code>${f.path}</code>${f.required ? html`<span class="minor">required</span>` : null}</th><td data-label="Type">${f.type}</td><td data-label="Default">${f.default ? html`<code>${f.default}</code>` : null}</td><td data-label="What it is">${f.description}${(f.limits || []).map((l) => html`<span class="minor">${l}</span>`)}</td></tr>`)}</tbody></table></div>` : null;
  return html`<section aria-label="Schema"><h2>Schema <span class="minor">${version}</span></h2>${part("What users set", fields.filter((f) => !f.status))}${part("What the status reports", fields.filter((f) => f.status))}</section>`;
}

export function Program() {
  const s = useStream("program", {});
  const h = s.head;
  const watchRow = (w) => [html`${w.kind}<span class="minor">${(w.group ? w.group + "/" : "") + w.version}</span>`, html`${w.selection}${w.as ? html`<span class="minor">as ${w.as}</span>` : null}`,
    html`<${Badge} tone=${w.unavailable ? "bad" : w.state === "Synced" ? "good" : "progress"} text=${w.reason || w.state} />${w.message ? html`<span class="cause">${w.message}</span>` : null}`,
    String(w.subscribers), String(w.objects), String(w.events), html`<${Age} of=${w.since} />`];
  const queueRow = (q) => [html`${q.kind}<span class="minor">${q.group}</span>`, String(q.depth), String(q.active), String(q.retries)];
  const queues = h && { order: h.queues.map((q) => q.kind + "." + q.group), items: new Map(h.queues.map((q) => [q.kind + "." + q.group, { ...q, tone: q.retries ? "bad" : "" }])) };
  return html`<h1>Watches and queues</h1>
    <p class="summary">${s.problem || (h && h.problem) ? "" : h ? `${h.watches} watches of ${h.objects} objects; ${h.unavailable || "none"} unavailable` + (h.omitted ? `; ${h.omitted} are not shown` : "") : "Reading…"}</p>
    <${Problem} text=${s.problem || (h && h.problem)} />
    ${h && !h.problem ? html`<h2>Queues</h2>${h.queues.length ? html`<${Table} caption="Queues, what fails and what waits first" columns=${["Kind", "Waiting", "Active", "Failing"]} state=${queues} row=${queueRow} />` : null}
      <p class="minor">${h.idle} kinds have nothing to reconcile.</p><h2>Watches</h2>
      <${Table} caption="Watches, what does not work first" columns=${["Kind", "Selection", "State", "Subscribers", "Objects", "Events", "Since"]} state=${s} row=${watchRow} />` : null}`;
}
