"use strict";
/* The maps of one setting, one for each model: p to the right, d upwards, a button for every cell that has runs. Other
 * cells are empty; nothing is interpolated. */

/* What a map can show. `there(cell)` tells whether a view can show a cell; `of(cell)` is the value of a share. */
const VIEWS = {
  mechanism: { title: "Mechanism", there: (cell) => cell.main !== undefined },
  shares: { title: "Shares", there: (cell) => cell.RC !== undefined },
  plane: { title: "Plane of shares", there: (cell) => cell.RC !== undefined },
  accuracy: share("Accuracy", (cell) => cell.accuracy / 100, "Positions counted right, mean over runs"),
  proof: share("Proof", (cell) => cell.proved, "Cells (token and count, for lin also the position) proved right on every sequence, mean over runs"),
};
const SHARES = ["RC", "IC", "gated"];

function share(title, of, words) {
  return { title, of, words, there: (cell) => of(cell) !== undefined };
}

function isDarkPage() {
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function colourOf(mechanism) {
  const { colour, dark } = LOOK.mechanisms[mechanism];
  return isDarkPage() ? dark : colour;
}

/* The look of a cell in a view: {colour, background, letters}; null if there is nothing to show. */
function look(atlas, cell, view) {
  if (!VIEWS[view].there(cell)) return null;
  if (VIEWS[view].of) return plainly(onScale(VIEWS[view].of(cell)));
  if (view === "shares") return { ...plainly(colourOf(cell.main)), background: stacked3(cell) };
  const paper = LOOK[isDarkPage() ? "dark" : "light"].paper;
  return plainly(between(paper, colourOf(cell.main), atlas.palest + (1 - atlas.palest) * cell.share), cell.letters);
}

function plainly(colour, letters = "") {
  return { colour, background: colour, letters };
}

/* The three shares of a cell stacked, RC at the bottom; negative shares take no room. */
function stacked3(cell) {
  const sizes = SHARES.map((name) => Math.max(0, cell[name])), total = sizes.reduce((sum, size) => sum + size, 0) || 1;
  let from = 0;
  const stops = SHARES.map((name, i) => {
    const to = from + (100 * sizes[i]) / total, stop = `${colourOf(name)} ${from.toFixed(1)}% ${to.toFixed(1)}%`;
    from = to;
    return stop;
  });
  return `linear-gradient(to top, ${stops.join(", ")})`;
}

function drawLegend(home, view) {
  const key = (name, letters) => {
    const node = element("span", { className: "key" }, letters), colour = colourOf(name);
    Object.assign(node.style, { background: colour, color: inkOn(colour) });
    return node;
  };
  const entry = (...parts) => element("span", { className: "entry" }, ...parts);
  if (VIEWS[view].of) {
    const bar = element("span", { className: "ramp" });
    bar.style.background = `linear-gradient(to right, ${LOOK.scale.map(([, colour]) => colour).join(",")})`;
    home.replaceChildren(entry(`${VIEWS[view].words}: 0 %`, bar, "100 %"));
  } else if (view === "mechanism") {
    home.replaceChildren(...Object.entries(LOOK.mechanisms).map(([name, { words, letters }]) =>
      entry(key(name, letters), name === words ? name : `${name}: ${words}`)),
    entry("Paler: runs disagree; small letters: the other mechanism."));
  } else {
    const words = view === "shares" ? "Each cell: its three shares, RC at the bottom." : "Each dot: the shares of a cell, with 95 % intervals; click one to open it.";
    const names = view === "plane" ? [...SHARES, "mixed"] : SHARES;
    home.replaceChildren(...names.map((name) => entry(key(name, ""), name)), entry(`${words} Means over solved runs.`));
  }
  if (view === "plane") return;
  const nothing = { accuracy: "no run", mechanism: "no run, or not classified", proof: "not proved or tried" }[view] || "no run that counts";
  home.append(entry(element("span", { className: "key empty" }), nothing), entry(element("span", { className: "key runs" }), "runs in this page"));
}

function cellName(cell) {
  return `${cell.model}, d = ${cell.d}, p = ${cell.p}`;
}

/* The lowest and the highest end of the 95 % intervals of a share, over the solved runs of a cell; null if there are
 * none. */
function interval(cell, name) {
  const counting = cell.runs.filter((run) => run.estimates && run.mechanism !== "unsolved");
  const found = counting.flatMap((run) => run.estimates.filter(([known]) => known === name));
  return found.length ? [Math.min(...found.map(([, , low]) => low)), Math.max(...found.map(([, , , high]) => high))] : null;
}

/* A cell in one line, for tooltips and screen readers. */
function cellLine(cell) {
  const parts = [`${sampled(cell.accuracy / 100)} right in ${cell.runs.length} ${cell.runs.length === 1 ? "run" : "runs"}`];
  if (cell.counts) parts.push(Object.entries(cell.counts).map(([name, n]) => `${n} ${name}`).join(", "));
  const share = (name) => {
    const ends = interval(cell, name);
    return `${name} ${fixed(cell[name], 2)}${ends ? ` (${fixed(ends[0], 2)} to ${fixed(ends[1], 2)})` : ""}`;
  };
  if (cell.RC !== undefined) parts.push(`shares ${SHARES.map(share).join(", ")}`);
  if (cell.proved !== undefined) parts.push(`${percent(cell.proved)} proved`);
  if (cell.live) parts.push("runs in this page");
  return `${cellName(cell)}: ${parts.join("; ")}`;
}

class Maps {
  /* `choose(cell, how)` is called when a reader opens a cell; `how` is "click" or "walk" (arrow keys). */
  constructor(root, atlas, choose) {
    Object.assign(this, { root: element("div", { className: "maps" }), atlas, choose });
    root.append(this.root);
    new Tip(root, (target) => target.closest(".map-box")); // below the map, so that neighbouring cells stay visible
    root.addEventListener("click", (event) => this.heard(event, (cell) => choose(cell, "click")));
    root.addEventListener("keydown", (event) => this.heard(event, (cell) => this.walk(event, cell)));
  }

  /* The rows and columns are those of the cells that the view can show. */
  show(setting, view) {
    this.setting = setting;
    const known = setting.cells.filter(VIEWS[view].there);
    const values = (axis) => [...new Set(known.map((cell) => cell[axis]))].sort((a, b) => a - b);
    Object.assign(this, { d: values("d"), p: values("p") });
    this.cells = new Map(setting.cells.map((cell) => [`${cell.model}|${cell.d}|${cell.p}`, cell]));
    this.buttons = new Map();
    this.root.style.setProperty("--columns", this.p.length);
    if (view === "plane") this.root.replaceChildren(this.plane(known));
    else this.root.replaceChildren(...setting.models.map((model) => this.map(model)));
    for (const [cell, node] of this.buttons) this.paint(cell, node, view);
  }

  find(model, d, p) {
    return this.cells.get(`${model}|${Number(d)}|${Number(p)}`);
  }

  map(model) {
    const { d, p } = this;
    const rows = [...d].reverse().map((dim) => element("div", { className: "line", role: "row" },
      element("span", { className: "tick", role: "rowheader" }, this.tick(dim, d)),
      ...p.map((units) => this.button(model, dim, units))));
    const foot = element("div", { className: "line", role: "row" }, element("span", { className: "tick" }),
      ...p.map((units) => element("span", { className: "tick", role: "columnheader" }, this.tick(units, p))));
    const body = element("div", { className: "cells", role: "rowgroup" }, ...rows, ...this.lines(this.setting.T));
    const grid = element("div", { className: "map", role: "grid", "aria-label": model }, body, foot);
    return element("div", { className: "map-box" }, element("h3", {}, model), grid,
      element("p", { className: "axis-title" }, "p to the right, d upwards"));
  }

  /* On a fine grid there is only room for powers of two. */
  tick(value, values) {
    return values.length <= 8 || Number.isInteger(Math.log2(value)) ? String(value) : "";
  }

  button(model, d, p) {
    const cell = this.find(model, d, p), line = cell ? cellLine(cell) : `${model}, d = ${d}, p = ${p}: no run`;
    const said = { role: "gridcell", "aria-label": line, "data-tip": line };
    if (!cell) return element("span", { className: "cell empty", ...said });
    const node = element("button", { type: "button", className: "cell", tabIndex: -1, ...said });
    node.classList.toggle("runs", Boolean(cell.live));
    if (![...this.buttons.keys()].some((other) => other.model === model)) node.tabIndex = 0;
    this.keep(cell, node);
    return node;
  }

  keep(cell, node) {
    node.cell = cell;
    this.buttons.set(cell, node);
  }

  /* Lines at d = T and p = T: through the middle of those cells, or between the nearest. */
  lines(T) {
    return [[this.p, "across"], [this.d, "up"]].flatMap(([values, direction]) => {
      if (!values.length || T < values[0] || T > values[values.length - 1]) return [];
      const above = values.findIndex((value) => value >= T);
      const below = Math.max(0, above - 1);
      const [a, b] = [values[below], values[above]].map(Math.log);
      const at = above === below || a === b ? above : below + (Math.log(T) - a) / (b - a);
      const line = element("span", { className: `limit ${direction}` });
      line.style.setProperty("--at", (at + 0.5) / values.length);
      return [line];
    });
  }

  /* Cells by their shares of RC (to the right) and IC (upwards). The corners are mechanisms. */
  plane(cells) {
    const x = (value) => 38 + 320 * Math.min(Math.max((value + 0.1) / 1.2, 0), 1);
    const y = (value) => 330 - 320 * Math.min(Math.max((value + 0.1) / 1.2, 0), 1);
    const parts = [drawing("rect", { x: x(-0.1), y: y(1.1), width: 320, height: 320, class: "frame" }),
      drawing("line", { x1: x(0), y1: y(1), x2: x(1), y2: y(0), class: "own" })];
    for (const value of [0, 0.5, 1]) {
      parts.push(drawing("text", { x: x(value), y: 343 }, String(value)), drawing("text", { x: 33, y: y(value) + 4, class: "tick" }, String(value)));
    }
    const corners = [["RC", 1, 0, "end"], ["IC", 0, 1, "start"], ["gated", 0, 0, "start"], ["either suffices", 1, 1, "end"]];
    for (const [name, a, b, anchor] of corners) {
      parts.push(drawing("text", { x: x(a) + (a ? 22 : -22), y: y(b) + (b ? -14 : 20), class: "corner", style: `text-anchor:${anchor}` }, name));
    }
    parts.push(drawing("text", { x: 198, y: 357 }, "share of RC"),
      drawing("text", { x: 11, y: 170, transform: "rotate(-90 11 170)" }, "share of IC"));
    for (const cell of cells) {
      const [left, right] = (interval(cell, "RC") || [cell.RC, cell.RC]).map(x), [low, high] = (interval(cell, "IC") || [cell.IC, cell.IC]).map(y);
      parts.push(drawing("path", { d: `M${left} ${y(cell.IC)}H${right}M${x(cell.RC)} ${low}V${high}`, class: "whiskers" }));
      const dot = drawing("circle", { cx: x(cell.RC), cy: y(cell.IC), r: 5, class: "dot", tabindex: -1, role: "button",
        "aria-label": cellLine(cell), "data-tip": cellLine(cell) });
      this.keep(cell, dot);
      parts.push(dot);
    }
    return element("div", { className: "map-box whole" }, drawing("svg", { viewBox: "0 0 366 362", class: "curve plane", role: "img" }, ...parts));
  }

  paint(cell, node, view) {
    const shown = look(this.atlas, cell, view);
    if (view === "plane") {
      node.style.fill = colourOf(cell.main);
      return;
    }
    node.classList.toggle("unknown", shown === null);
    node.classList.toggle("disagreeing", view === "mechanism" && shown !== null && cell.share < 1);
    if (shown === null) return;
    Object.assign(node.style, { background: shown.background, color: inkOn(shown.colour) });
    node.textContent = shown.letters;
  }

  mark(cell, focus) {
    for (const [other, node] of this.buttons) {
      if (other === cell) node.setAttribute("aria-current", "true");
      else node.removeAttribute("aria-current");
      if (other === cell && node.matches(".dot")) node.parentNode.append(node); // in front of the others
      if (cell && other.model === cell.model) node.tabIndex = other === cell ? 0 : -1;
    }
    if (focus && this.buttons.has(cell)) this.buttons.get(cell).focus({ preventScroll: true });
  }

  heard(event, act) {
    const node = event.target.closest && event.target.closest("button.cell, circle.dot");
    if (node) act(node.cell);
  }

  /* Moves to the next cell with runs in the direction of an arrow key. */
  walk(event, from) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];
    if (!step || !from || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const { d, p } = this;
    let [i, j] = [d.indexOf(from.d) + step[0], p.indexOf(from.p) + step[1]];
    while (i >= 0 && i < d.length && j >= 0 && j < p.length) {
      const next = this.find(from.model, d[i], p[j]);
      if (next) return this.choose(next, "walk");
      [i, j] = [i + step[0], j + step[1]];
    }
  }
}
