"use strict";
/* The maps of one setting, one for each model: p to the right, d upwards, a button for every cell that has runs. What has
 * none is empty; nothing is interpolated. */

/* What a map can show: the mechanism, or a share of each cell, `of`, which is undefined where it was not measured. */
const VIEWS = {
  mechanism: { title: "Mechanism", there: (cell) => cell.main !== undefined },
  accuracy: share("Accuracy", (cell) => cell.accuracy / 100, "Positions answered correctly, mean over runs"),
  rc: share("Share of RC", (cell) => cell.RC, "Share of RC, mean over solved runs"),
  ic: share("Share of IC", (cell) => cell.IC, "Share of IC, mean over solved runs"),
  gated: share("Share gated", (cell) => cell.gated, "Share that is gated, mean over solved runs"),
  proof: share("Proof", (cell) => cell.proved, "Cells (token and count, for lin also the position) proved right on every sequence, mean over runs"),
};

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

/* What a cell looks like in a view: {colour, letters}; null where there is nothing to show. */
function look(atlas, cell, view) {
  if (!VIEWS[view].there(cell)) return null;
  if (view !== "mechanism") return { colour: onScale(VIEWS[view].of(cell)), letters: "" };
  const colour = colourOf(cell.main);
  return { colour: between(LOOK[isDarkPage() ? "dark" : "light"].paper, colour, atlas.palest + (1 - atlas.palest) * cell.share), letters: cell.letters };
}

function drawLegend(place, atlas, view) {
  if (view === "mechanism") {
    place.replaceChildren(...Object.entries(LOOK.mechanisms).map(([name, { words, letters }]) => {
      const key = element("span", { className: "key" }, letters), colour = colourOf(name);
      key.style.background = colour;
      key.style.color = inkOn(colour);
      return element("span", { className: "entry" }, key, name === words ? name : `${name}: ${words}`);
    }), element("span", { className: "entry" }, "Paler: runs disagree; small letters: what the others do."));
  } else {
    const bar = element("span", { className: "ramp" });
    bar.style.background = `linear-gradient(to right, ${LOOK.scale.map(([, colour]) => colour).join(",")})`;
    place.replaceChildren(element("span", { className: "entry" }, `${VIEWS[view].words}: 0 %`, bar, "100 %"));
  }
  const nothing = { accuracy: "no run", mechanism: "no run", proof: "not verified" }[view] || "no run, or none that counts";
  place.append(element("span", { className: "entry" }, element("span", { className: "key empty" }), nothing),
    element("span", { className: "entry" }, element("span", { className: "key runs" }), "runs in this page"));
}

function cellName(cell) {
  return `${cell.model}, d = ${cell.d}, p = ${cell.p}`;
}

/* A cell in one line, for hovering and for screen readers. */
function cellLine(cell) {
  const parts = [`${cell.accuracy.toFixed(1)} % right in ${cell.runs.length} ${cell.runs.length === 1 ? "run" : "runs"}`];
  if (cell.counts) parts.push(Object.entries(cell.counts).map(([name, n]) => `${n} ${name}`).join(", "));
  if (cell.RC !== undefined) parts.push(`shares RC ${fixed(cell.RC, 2)}, IC ${fixed(cell.IC, 2)}, gated ${fixed(cell.gated, 2)}`);
  if (cell.proved !== undefined) parts.push(`${percent(cell.proved)} proved`);
  if (cell.live) parts.push("runs in this page");
  return `${cellName(cell)}: ${parts.join("; ")}`;
}

class Maps {
  /* `choose(cell, how)` is called when a reader opens a cell: how is "click" or "walk". */
  constructor(root, tip, atlas, choose) {
    Object.assign(this, { root, tip, atlas, choose });
    root.addEventListener("click", (event) => this.heard(event, (cell) => choose(cell, "click")));
    root.addEventListener("keydown", (event) => this.pressed(event));
    for (const name of ["pointerover", "focusin"]) {
      root.addEventListener(name, (event) => this.hovered(event));
    }
    for (const name of ["pointerleave", "focusout"]) root.addEventListener(name, () => { tip.hidden = true; });
  }

  show(setting, view) {
    this.setting = setting;
    this.cells = new Map(setting.cells.map((cell) => [`${cell.model}|${cell.d}|${cell.p}`, cell]));
    this.buttons = new Map();
    this.root.replaceChildren(...setting.models.map((model) => this.map(model)));
    this.colour(view);
  }

  find(model, d, p) {
    return this.cells.get(`${model}|${Number(d)}|${Number(p)}`);
  }

  map(model) {
    const { d, p, T } = this.setting;
    const rows = [...d].reverse().map((dim) => element("div", { className: "line", role: "row" },
      element("span", { className: "tick", role: "rowheader" }, this.tick(dim, d)),
      ...p.map((units) => this.button(model, dim, units))));
    const foot = element("div", { className: "line", role: "row" }, element("span", { className: "tick" }),
      ...p.map((units) => element("span", { className: "tick", role: "columnheader" }, this.tick(units, p))));
    const body = element("div", { className: "cells", role: "rowgroup" }, ...rows, ...this.lines(T));
    const grid = element("div", { className: "map", role: "grid" }, body, foot);
    grid.setAttribute("aria-label", model);
    grid.style.setProperty("--columns", p.length);
    return element("div", { className: "map-box" }, element("h3", {}, model), grid,
      element("p", { className: "axis-title" }, "p to the right, d upwards"));
  }

  /* On a fine grid only powers of two, for which there is room. */
  tick(value, values) {
    return values.length <= 8 || Number.isInteger(Math.log2(value)) ? String(value) : "";
  }

  button(model, d, p) {
    const cell = this.find(model, d, p);
    if (!cell) {
      const none = element("span", { className: "cell empty", role: "gridcell" });
      none.setAttribute("aria-label", `${model}, d = ${d}, p = ${p}: no run`);
      return none;
    }
    const button = element("button", { type: "button", className: "cell", role: "gridcell", tabIndex: -1 });
    button.setAttribute("aria-label", cellLine(cell));
    button.cell = cell;
    button.classList.toggle("runs", Boolean(cell.live));
    if (this.buttons.size === 0 || ![...this.buttons.keys()].some((other) => other.model === model)) button.tabIndex = 0;
    this.buttons.set(cell, button);
    return button;
  }

  /* Where d = T and p = T: through the middle of their cells, or between the nearest. */
  lines(T) {
    return [["p", "across"], ["d", "up"]].flatMap(([axis, direction]) => {
      const values = this.setting[axis];
      if (T < values[0] || T > values[values.length - 1]) return [];
      const above = values.findIndex((value) => value >= T);
      const below = Math.max(0, above - 1);
      const [a, b] = [values[below], values[above]].map(Math.log);
      const at = above === below || a === b ? above : below + (Math.log(T) - a) / (b - a);
      const line = element("span", { className: `limit ${direction}` });
      line.style.setProperty("--at", (at + 0.5) / values.length);
      return [line];
    });
  }

  colour(view) {
    for (const [cell, button] of this.buttons) {
      const shown = look(this.atlas, cell, view);
      button.classList.toggle("unknown", shown === null);
      button.style.background = shown === null ? "" : shown.colour;
      button.style.color = shown === null ? "" : inkOn(shown.colour);
      button.textContent = shown === null ? "" : shown.letters;
      button.classList.toggle("disagreeing", shown !== null && cell.share < 1);
    }
  }

  mark(cell, focus) {
    for (const [other, button] of this.buttons) {
      if (other === cell) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
      if (cell && other.model === cell.model) button.tabIndex = other === cell ? 0 : -1;
    }
    if (focus && cell) this.buttons.get(cell).focus({ preventScroll: true });
  }

  heard(event, act) {
    const button = event.target.closest && event.target.closest("button.cell");
    if (button) act(button.cell);
  }

  hovered(event) {
    const target = event.target.closest && event.target.closest(".cell");
    this.tip.hidden = !target;
    if (!target) return;
    this.tip.textContent = target.getAttribute("aria-label");
    const box = target.getBoundingClientRect(), width = this.tip.offsetWidth;
    const left = Math.min(Math.max(8, box.left + box.width / 2 - width / 2), document.documentElement.clientWidth - width - 8);
    const map = target.closest(".map-box").getBoundingClientRect(); // below the map: its neighbours stay in sight
    const below = map.bottom + 4, room = window.innerHeight - this.tip.offsetHeight - 4;
    this.tip.style.left = `${Math.max(8, left)}px`;
    this.tip.style.top = `${below < room ? below : Math.max(4, map.top - this.tip.offsetHeight - 4)}px`;
  }

  pressed(event) {
    this.heard(event, (cell) => this.walk(event, cell));
  }

  /* To the next cell with runs in the direction of an arrow key. */
  walk(event, from) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [1, 0], ArrowDown: [-1, 0] }[event.key];
    if (!step || !from || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const { d, p } = this.setting;
    let [i, j] = [d.indexOf(from.d) + step[0], p.indexOf(from.p) + step[1]];
    while (i >= 0 && i < d.length && j >= 0 && j < p.length) {
      const next = this.find(from.model, d[i], p[j]);
      if (next) return this.choose(next, "walk");
      [i, j] = [i + step[0], j + step[1]];
    }
  }
}
