// The picture of a graph: boxes that one can choose, zoom and pan, and an outline of the same for narrow windows.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./lib/preact.js";
import { Badge } from "./dom.js";

const least = 0.2, most = 2, readable = 0.62; // scales
const margin = 16, below = 28; // below is where the buttons are

// useView keeps what part of a picture is seen: it fits the window until the viewer moves it. If it would be too small to read then, it
// begins at a node.
function useView(head, nodes, at) {
  const canvas = useRef(), layer = useRef(), view = useRef({ x: 0, y: 0, k: 1 }), moved = useRef(false);
  const apply = (v) => {
    view.current = v;
    if (layer.current) layer.current.style.transform = `translate(${v.x}px, ${v.y}px) scale(${v.k})`;
  };
  const fit = () => {
    const { clientWidth: w, clientHeight: h } = canvas.current;
    if (!w || !h) return;
    const room = h - below, k = Math.min(1, (w - 2 * margin) / head.width, (room - 2 * margin) / head.height);
    apply({ k, x: (w - k * head.width) / 2, y: (room - k * head.height) / 2 });
  };
  const center = (n, k) => {
    const { clientWidth: w, clientHeight: h } = canvas.current;
    apply({ k, x: w / 2 - k * (n.x + n.width / 2), y: h / 2 - k * (n.y + n.height / 2) });
  };
  const begin = () => {
    moved.current = false;
    fit();
    const node = nodes.find((n) => n.id === at);
    if (view.current.k < readable && node) center(node, readable + 0.1);
  };
  const zoom = (factor, cx, cy) => {
    const { clientWidth: w, clientHeight: h } = canvas.current, v = view.current;
    const k = Math.min(most, Math.max(least, v.k * factor)), x = cx ?? w / 2, y = cy ?? h / 2;
    moved.current = true;
    apply({ k, x: x - (x - v.x) * k / v.k, y: y - (y - v.y) * k / v.k });
  };
  const pan = (dx, dy) => { moved.current = true; apply({ ...view.current, x: view.current.x + dx, y: view.current.y + dy }); };
  // reveal moves the picture so far that a node is seen.
  const reveal = (n) => {
    const { clientWidth: w, clientHeight: h } = canvas.current, v = view.current;
    const into = (from, size, room) => Math.max(margin - from, 0) || Math.min(room - margin - from - size, 0);
    apply({ ...v, x: v.x + into(v.x + v.k * n.x, v.k * n.width, w), y: v.y + into(v.y + v.k * n.y, v.k * n.height, h) });
  };
  useLayoutEffect(() => { if (!moved.current) begin(); }, [head.width, head.height, at]);
  useEffect(() => {
    const observer = new ResizeObserver(() => { if (!moved.current) begin(); });
    observer.observe(canvas.current);
    const wheel = (e) => {
      e.preventDefault();
      const box = canvas.current.getBoundingClientRect();
      zoom(Math.exp(-e.deltaY / 400), e.clientX - box.left, e.clientY - box.top);
    };
    canvas.current.addEventListener("wheel", wheel, { passive: false });
    return () => observer.disconnect();
  }, []);
  const down = (e) => {
    if (e.button !== 0 || e.target.closest("button")) return;
    const element = canvas.current;
    element.setPointerCapture(e.pointerId);
    const move = (m) => pan(m.movementX, m.movementY);
    element.addEventListener("pointermove", move);
    element.addEventListener("pointerup", () => element.removeEventListener("pointermove", move), { once: true });
  };
  return { canvas, layer, begin, zoom, reveal, down };
}

// curve is the way from a box to another one.
function curve(a, b) {
  const ay = a.y + a.height / 2, by = b.y + b.height / 2;
  if (b.x >= a.x + a.width) return bend(a.x + a.width, ay, b.x, by, 1, 1);
  if (a.x >= b.x + b.width) return bend(a.x, ay, b.x + b.width, by, -1, -1);
  return bend(a.x + a.width, ay, b.x + b.width, by, 1, -1);
}

function bend(ax, ay, bx, by, out, into) {
  const reach = out === into ? Math.max(16, Math.abs(bx - ax) / 2) : 34;
  return `M${ax} ${ay} C${ax + out * reach} ${ay} ${bx - into * reach} ${by} ${bx} ${by}`;
}

// Graph draws boxes, and lines between them: those that contain others with solid lines; flows of data with light, dashed ones, of the
// node under the pointer, the focused one and the chosen one, or all if there is no containment. Arrow keys lead to the next box.
export function Graph({ label, head, nodes, chosen, at, onChoose }) {
  const v = useView(head, nodes, at);
  const [near, setNear] = useState("");
  const [current, setCurrent] = useState("");
  const byID = new Map(nodes.map((n) => [n.id, n]));
  const active = [near, chosen].filter((id) => byID.has(id));
  const flows = (Array.isArray(head.flows) ? head.flows : []).filter((f) => typeof f !== "string" && active.some((id) => f.from === id || f.to === id) && byID.has(f.from) && byID.has(f.to));
  const related = new Set(flows.flatMap((f) => [f.from, f.to]));
  const tabbed = byID.has(current) ? current : byID.has(chosen) ? chosen : nodes.length ? nodes[0].id : "";
  const key = (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const zooms = { "+": 1.25, "=": 1.25, "-": 0.8 };
    if (zooms[e.key]) { e.preventDefault(); v.zoom(zooms[e.key]); return; }
    if (e.key === "0") { e.preventDefault(); v.begin(); return; }
    const from = byID.get(e.target.dataset.id);
    if (!from) return;
    const directions = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    let to;
    if (directions[e.key]) {
      const [dx, dy] = directions[e.key];
      const far = (n) => { const x = n.x - from.x, y = n.y + n.height / 2 - from.y - from.height / 2, ahead = dx * x + dy * y; return ahead > 1 ? ahead + 3 * Math.abs(dx * y + dy * x) : Infinity; };
      to = nodes.reduce((best, n) => (far(n) < far(best) ? n : best), from);
      if (to === from) to = null;
    } else if (e.key === "Home") to = nodes[0];
    else if (e.key === "End") to = nodes[nodes.length - 1];
    else return;
    e.preventDefault();
    if (!to) return;
    v.reveal(to);
    v.canvas.current.querySelector(`[data-id="${CSS.escape(to.id)}"]`).focus({ preventScroll: true });
  };
  const node = (n) => {
    const name = ["node", n.shape, n.tone, related.has(n.id) ? "related" : ""].filter(Boolean).join(" ");
    const style = { transform: `translate(${n.x}px, ${n.y}px)`, width: n.width + "px", height: n.height + "px" };
    const content = html`<b>${n.title}</b>${onChoose && n.lines.length ? html`<span class="minor">${n.lines.join(" ")}</span>` : n.lines.map((l) => html`<span class="minor">${l}</span>`)}${n.state ? html`<${Badge} tone=${n.tone} text=${n.state} />` : null}`;
    if (!onChoose) return html`<div key=${n.id} role="listitem" class=${name} style=${style} data-id=${n.id}>${content}</div>`;
    return html`<button type="button" key=${n.id} class=${name} style=${style} data-id=${n.id} title=${n.label} aria-pressed=${n.id === chosen ? "true" : "false"} tabindex=${n.id === tabbed ? 0 : -1}
      onClick=${() => onChoose(n.id)} onFocus=${() => { setCurrent(n.id); setNear(n.id); }} onBlur=${() => setNear("")} onMouseEnter=${() => setNear(n.id)} onMouseLeave=${() => setNear("")}>${content}</button>`;
  };
  const svg = (name, content) => html`<svg class=${name} width=${head.width} height=${head.height} aria-hidden="true">${content}</svg>`;
  return html`<div class=${onChoose ? "graph" : "graph plain"} style=${onChoose ? null : { height: Math.min(head.height + 2 * margin + below, 560) + "px" }}>
    <div class="canvas" ref=${v.canvas} onKeyDown=${key} onPointerDown=${v.down} role="group" aria-label=${label}>
      <div class="layer" ref=${v.layer}>
        ${svg("lines", html`<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"><path class="arrow" d="M0 0 8 4 0 8z" /></marker></defs>
          ${(head.frames || []).map((f) => html`<rect class=${f.foreign ? "frame foreign" : "frame"} x=${f.x} y=${f.y} width=${f.width} height=${f.height} rx="8" />`)}
          ${(head.lines || []).map((d) => html`<path class="line" d=${d} />`)}
          ${(head.flows || []).filter((f) => typeof f === "string").map((d) => html`<path class="flow" d=${d} marker-end="url(#arrow)" />`)}`)}
        <div role=${onChoose ? "group" : "list"} aria-label=${label}>${nodes.map(node)}</div>
        ${svg("above", flows.map((f) => html`<path class="flow" d=${curve(byID.get(f.from), byID.get(f.to))} marker-end="url(#arrow)" />`))}
      </div>
    </div>
    <div class="zoom">${head.lines ? html`<span class="legend"><i class="solid" /> contains <i class="dotted" /> is read by</span>` : null}
      <button type="button" aria-label="Zoom out" onClick=${() => v.zoom(0.8)}>−</button><button type="button" aria-label="Zoom in" onClick=${() => v.zoom(1.25)}>+</button><button type="button" onClick=${v.begin}>Fit</button></div>
  </div>`;
}

const order = { bad: 0, progress: 1 };

// Outline lists the same nodes below each other, the worst first.
export function Outline({ label, nodes, chosen, onChoose }) {
  const below = new Map();
  for (const n of nodes) below.set(n.parent || "", [...(below.get(n.parent || "") || []), n]);
  const worst = (n) => Math.min(order[n.tone] ?? 2, ...(below.get(n.id) || []).map(worst));
  const list = (id) => below.has(id) ? html`<ul>${[...below.get(id)].sort((a, b) => worst(a) - worst(b)).map((n) => html`<li key=${n.id}>
    <button type="button" class=${"entry " + (n.tone || "")} aria-pressed=${n.id === chosen ? "true" : "false"} onClick=${() => onChoose(n.id)}><b>${n.title}</b> <span class="minor">${n.lines.join(" ")}</span> <${Badge} tone=${n.tone} text=${n.state} /></button>${list(n.id)}</li>`)}</ul>` : null;
  return html`<nav class="outline" aria-label=${label}>${list("")}</nav>`;
}
