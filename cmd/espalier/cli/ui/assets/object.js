// The page of one object: its cause, the graph of what it contains, and the details of the chosen resource.
import { html, useEffect, useState } from "./lib/preact.js";
import { Advice, Age, announce, Badge, Command, counted, href, nameOf, Notes, Problem, refOf, useStream } from "./dom.js";
import { Graph, Outline } from "./graph.js";

export function ObjectPage({ query }) {
  const [part, setPart] = useState({ node: "", field: "" });
  const s = useStream("object", query, part);
  const h = s.head && !s.head.gone ? s.head : null;
  const [wasThere, setWasThere] = useState(false);
  const isOver = s.head && s.head.gone;
  useEffect(() => { if (h) { setWasThere(true); announce(h.cause); } }, [h && h.cause]);
  useEffect(() => { if (isOver && wasThere) announce("It is gone."); }, [isOver]);
  const crumbs = html`<p class="crumbs">${h && h.definition ? html`<a href="#/definitions">Definitions</a> › <a href=${href("definition", refOf(h.definition))}>${nameOf(h.definition)}</a>` : html`<a href="#/">Health</a>`}</p>`;
  const title = html`${crumbs}<h1>${query.kind} <span class="name">${nameOf(query)}</span></h1>`;
  if (isOver) return html`${title}${wasThere ? html`<p class="summary">It is gone.</p>` : html`<${Problem} text="there is no such object" />`}<p><a href="#/">What is not ready</a></p>`;
  if (!h) return html`${title}${s.problem ? html`<${Problem} text=${s.problem} />` : html`<p class="summary">Reading…</p>`}`;
  const nodes = s.order.filter((k) => k.startsWith("/")).map((k) => s.items.get(k)), details = s.items.get("details");
  const choose = (node) => {
    setPart({ node, field: "" });
    announce("Details: " + s.items.get(node).label);
  };
  const label = `Graph of ${query.kind} ${nameOf(query)}. Arrow keys move, Enter shows details.`;
  const isFine = h.ready === "True" && !h.deleted;
  return html`${title}
    <p class="summary"><${Badge} tone=${h.tone} text=${h.deleted ? "deleting" : h.ready === "True" ? "ready" : h.ready === "-" ? "exists" : "not ready"} /> ${resources(h)}${h.created ? html` · created <${Age} of=${h.created} /> ago` : null}
      ${h.removal ? html` · <progress max=${Math.max(h.removal.total, 1)} value=${h.removal.removed} aria-label="Objects removed" /> ${h.removal.removed} of ${h.removal.total} removed${h.removal.blocked ? `, ${h.removal.blocked} blocked` : ""}` : null}</p>
    <${Problem} text=${s.problem} />
    <${Notes} list=${[...(h.unreadable || []).map((u) => `You are not allowed to list and watch ${u}; these objects are not shown.`), ...(h.omitted ? [`${h.omitted} objects are not drawn.`] : [])]} />
    <div class=${nodes.length > 1 ? "split" : "split single"}>
      <div class="side">${isFine && !h.others ? null : html`<section class="why" aria-label="Cause">${isFine ? null : html`<p class=${"cause-main " + h.tone}>${h.cause}</p>`}<${Advice} list=${isFine ? null : h.advice} />
        ${h.causeAt && details && details.id !== h.causeAt ? html`<p><button type="button" onClick=${() => choose(h.causeAt)}>Go to the cause</button></p>` : null}<${Chain} h=${h} /><${Others} h=${h} /></section>`}
        <aside class="details" aria-label="Details of the chosen resource" tabindex="0">${details ? html`<${Details} key=${details.id} d=${details} node=${s.items.get(details.id)} head=${h} setField=${(field) => setPart({ node: details.id, field })} />` : null}</aside></div>
      ${nodes.length > 1 ? html`<${Graph} label=${label} head=${h} nodes=${nodes} chosen=${details && details.id} at=${h.causeAt} onChoose=${choose} />
        <${Outline} label="Resources, the worst first" nodes=${nodes} chosen=${details && details.id} onChoose=${choose} />` : null}
    </div>`;
}

function resources(h) {
  if (!h.unready) return counted(h.resources, "resource");
  return `${h.unready} of ${counted(h.resources, "resource")} ${h.unready === 1 ? "is" : "are"} not ready` + (h.objects < h.resources ? ` (${h.objects} exist${h.objects === 1 ? "s" : ""})` : "");
}

function Chain({ h }) {
  if (!h.chain || h.chain.length < 2) return null;
  return html`<details><summary>Chain to the cause</summary><ol class="chain">${h.chain.map((l) => html`<li><strong>${l.name}</strong>${l.reason ? " " + l.reason : ""}${l.message ? ": " + l.message : ""}${l.since ? html` (<${Age} of=${l.since} />)` : null}</li>`)}</ol></details>`;
}

function Others({ h }) {
  if (!h.others) return null;
  return html`<details open><summary>${counted(h.others.length, "other problem")}</summary><ul class="chain">${h.others.map((o) => html`<li>${o.cause}<${Advice} list=${o.advice} /></li>`)}</ul></details>`;
}

function Part({ title, open, children }) {
  return html`<details class="part" open=${open}><summary><h3>${title}</h3></summary>${children}</details>`;
}

function Details({ d, node, head, setField }) {
  const o = d.object, isRoot = d.id === "/", ago = (time) => time ? html`<${Age} of=${time} /> ago` : null;
  const facts = o ? [["Kind", o.kind + " · " + o.apiVersion], ["Namespace", o.namespace], ["Name", o.name], ["Created", ago(d.created)], ["Deletion began", ago(d.deleted)]] : [];
  const isSaid = isRoot || d.cause === head.cause;
  return html`<h2 id="details-title">${node.title}</h2><p><${Badge} tone=${node.tone} text=${node.state} /></p>
    ${d.cause && !isSaid ? html`<p class="cause-main">${d.cause}${d.since ? html` (<${Age} of=${d.since} />)` : null}</p><${Advice} list=${d.advice} />` : d.message && !isRoot && !d.cause ? html`<p class="message">${d.message}</p>` : null}
    ${d.waits ? html`<h3>Waits for</h3><ul>${d.waits.map((w) => html`<li><code>${w.on}</code> ${w.reason}, since <${Age} of=${w.since} /></li>`)}</ul>` : null}
    ${d.blockers && !(d.id === head.causeAt && d.blockers.length === 1) ? html`<h3>Blockers</h3><ul>${d.blockers.map((b) => html`<li><strong>${b.object}</strong>: ${b.reason}${b.message ? ": " + b.message : ""}${b.since ? html` (<${Age} of=${b.since} />)` : null}<${Advice} list=${b.advice} /></li>`)}</ul>` : null}
    ${d.fields ? html`<h3>Fields that other managers have changed</h3><ul>${d.fields.map((f) => html`<li><code>${f.field}</code> is <code>${f.value}</code>${f.managers ? ", set by " + f.managers.map((m) => m.name).join(", ") : ""}; the definition sets <code>${f.sets}</code> <${Command} text=${f.command} /></li>`)}</ul>` : null}
    ${o ? html`<dl>${facts.filter(([, value]) => value).map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>` : null}
    ${o && !isRoot ? html`<p><a href=${href("object", refOf(o))}>${d.instance ? "Open it as a graph of its own" : "Open it on a page of its own"}</a></p>` : null}
    ${d.conditions ? html`<${Part} title="Conditions" open><ul class="conditions">${d.conditions.map((c) => html`<li><b>${c.type}</b> ${c.status}${c.reason && c.reason !== c.type ? " · " + c.reason : ""} ${c.since ? html`<span class="minor">for <${Age} of=${c.since} /></span>` : null}${c.message ? html`<span class="message">${c.message}</span>` : null}</li>`)}</ul><//>` : null}
    ${o ? html`<${Part} title="Events" open><${Events} of=${refOf(o)} /><//>` : null}
    ${d.writes ? html`<${Part} title="Last writers" open><table class="small"><thead><tr>${["Manager", "Operation", "Age"].map((c) => html`<th scope="col">${c}</th>`)}</tr></thead><tbody>${d.writes.map((w) => html`<tr><th scope="row">${w.manager}</th><td>${w.operation}${w.subresource ? " of " + w.subresource : ""}</td><td><${Age} of=${w.time} /></td></tr>`)}</tbody></table><//>` : null}
    ${d.lines ? html`<${Part} title="YAML, with the origin of each field"><${Lines} d=${d} setField=${setField} /><//>` : null}
    ${d.commands ? html`<${Part} title="Commands"><${Advice} list=${d.commands} /><//>` : null}`;
}

function Events({ of }) {
  const s = useStream("events", of);
  if (s.problem) return html`<p class="note">${s.problem}</p>`;
  if (!s.head) return html`<p class="minor">Reading…</p>`;
  if (!s.order.length) return html`<p class="minor">There are none. The API server keeps events for a limited time.</p>`;
  return html`<ul class="conditions">${s.order.map((k) => [k, s.items.get(k)]).map(([k, e]) => html`<li key=${k}><b class=${e.type === "Warning" ? "warning" : ""}>${e.reason}</b>${e.count > 1 ? ` × ${e.count}` : ""} <span class="minor">${e.from} <${Age} of=${e.last} /> ago</span><span class="message">${e.message}</span></li>`)}</ul>${s.head.omitted ? html`<p class="minor">${s.head.omitted} older ones are not shown.</p>` : null}`;
}

// Lines shows an object as YAML. The managers of a value lead to its origin.
function Lines({ d, setField }) {
  const asked = d.why && d.why.field;
  return html`<ol class="yaml">${d.lines.map((l) => html`<li><code>${l.text}</code>${l.field ? html`<button type="button" class="origin" aria-expanded=${l.field === asked ? "true" : "false"} aria-label=${((l.managers || []).join(", ") || "no owner") + ": origin of " + l.field} onClick=${() => setField(l.field === asked ? "" : l.field)}>${(l.managers || []).join(", ") || "no owner"}</button>` : null}${l.field && l.field === asked ? html`<${Why} w=${d.why} />` : null}</li>`)}</ol>
    ${d.omitted ? html`<p class="minor">${counted(d.omitted, "further line")}</p>` : null}`;
}

function Managers({ list }) {
  return list ? list.map((m) => html`<li>owned by ${m.name} (${m.operation}${m.subresource ? " of " + m.subresource : ""})${m.time ? html`, which last changed its fields <${Age} of=${m.time} /> ago` : null}</li>`) : html`<li>no owner: it is a default, or the API server has set it</li>`;
}

function Why({ w }) {
  return html`<div class="origin-of"><p><code>${w.field}</code> is <code>${w.text}</code></p><ul><${Managers} list=${w.managers} /></ul>
    ${w.place ? html`<p>${w.definition} sets it, at <code>${w.place}</code>:</p><ul>${(w.expressions || []).map((x) => html`<li><code>${x}</code></li>`)}${w.expressions ? null : html`<li>a literal</li>`}
      ${(w.reads || []).map((r) => html`<li><code>${r.name}</code> ${r.text ? html`is <code>${r.text}</code>` : "is not set"} <span class="minor">${r.object}</span></li>`)}</ul>` : w.definition ? html`<p>${w.definition} does not set it.</p>` : null}
    <${Command} text=${w.command} /></div>`;
}
