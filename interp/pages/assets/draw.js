"use strict";
/* Drawing helpers for all pages: elements, numbers as text, colours, tooltips, bars, and a step plot with a handle. Text
 * enters a page through textContent only. */

const SVG = "http://www.w3.org/2000/svg";

function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(properties)) {
    if (key in node && key !== "list") node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function drawing(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function button(text, act, className = "offer") {
  const node = element("button", { type: "button", className }, text);
  node.addEventListener("click", act);
  return node;
}

/* A fixed number of decimals; zero has no sign. */
function fixed(value, digits) {
  return value.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1");
}

/* Two significant digits. */
function twoDigits(value) {
  return Math.abs(value) < 1e-9 ? "0" : String(Number(value.toPrecision(2)));
}

const times = (n) => (n === 1 ? "once" : n === 0 ? "never" : `${n} times`);

/* Rounded down, so that only a share of 1 is 100 %. */
function percent(share, digits = 1) {
  const scale = 10 ** digits;
  return share >= 1 ? "100 %" : `${(Math.floor(share * 100 * scale + 1e-9) / scale).toFixed(digits)} %`;
}

/* A share of a sample; `> 99.9 %` for 1, since a larger sample may have a miss. */
function sampled(share) {
  return share >= 1 ? "> 99.9 %" : percent(share);
}

/* The two best answers: `3 (99.7 %), then 4 (0.3 %)`. No probability is shown as 0 or 100 %. */
function rankedWords([first, second]) {
  const likely = (share) => (share > 0.999 ? "> 99.9 %" : share < 0.001 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);
  return `${first.count} (${likely(first.share)}), then ${second.count} (${likely(second.share)})`;
}

function channels(colour) {
  if (colour.startsWith("#")) return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return colour.match(/\d+/g).slice(0, 3).map(Number);
}

function between(first, second, share) {
  const [a, b] = [channels(first), channels(second)];
  return `rgb(${a.map((value, i) => Math.round(value + share * (b[i] - value))).join(",")})`;
}

/* The colour of a share from 0 to 1, on the scale of the figures. */
function onScale(share) {
  const at = Math.min(Math.max(share, 0), 1);
  const above = Math.max(1, LOOK.scale.findIndex(([stop]) => stop >= at));
  const [[low, first], [high, second]] = [LOOK.scale[above - 1], LOOK.scale[above]];
  return between(first, second, (at - low) / (high - low));
}

/* Black or white, whichever is easier to read on a colour. */
function inkOn(colour) {
  const [r, g, b] = channels(colour);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111111" : "#ffffff";
}

/* A tooltip for all elements with `data-tip` inside `root`, by mouse, touch and keyboard. It is shown below the element, or
 * below `around(element)`, so that its neighbours stay visible. */
class Tip {
  constructor(root, around = (target) => target) {
    Object.assign(this, { around, node: element("div", { className: "tip", hidden: true }) });
    root.append(this.node);
    for (const name of ["pointerover", "focusin"]) root.addEventListener(name, (event) => this.show(event));
    for (const name of ["pointerleave", "focusout"]) {
      root.addEventListener(name, ({ pointerType }) => { if (pointerType !== "touch") this.node.hidden = true; });
    }
  }

  show({ target }) {
    const owner = target.closest && target.closest("[data-tip]");
    this.node.hidden = !owner;
    if (!owner) return;
    this.node.textContent = owner.getAttribute("data-tip");
    const box = owner.getBoundingClientRect(), room = this.around(owner).getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const most = document.documentElement.clientWidth - width - 8;
    const below = room.bottom + 6, fits = below + height + 4 < window.innerHeight;
    const left = Math.max(8, Math.min(box.left + box.width / 2 - width / 2, most));
    const top = fits ? below : Math.max(4, room.top - height - 6);
    const corner = this.node.getBoundingClientRect(), { style } = this.node; // an ancestor may have a transform, as Jupyter's cells do
    style.left = `${left + (parseFloat(style.left) || 0) - corner.left}px`;
    style.top = `${top + (parseFloat(style.top) || 0) - corner.top}px`;
  }
}

/* A bar for each value, up or down from zero, scaled to the largest. */
function bars(values, { names = null, chosen = -1, right = -1, hints = null } = {}) {
  const width = 320, height = 70, middle = values.some((v) => v < 0) ? height / 2 : height - 2;
  const largest = Math.max(1e-12, ...values.map(Math.abs));
  const step = width / values.length;
  const root = drawing("svg", { viewBox: `0 0 ${width} ${height + (names ? 16 : 2)}`, class: "bars", role: "img" });
  values.forEach((value, i) => {
    const size = (Math.abs(value) / largest) * (middle === height / 2 ? height / 2 - 2 : height - 4);
    const kind = i === chosen ? (chosen === right ? "chosen" : "negative") : value < 0 ? "negative" : "positive";
    const tip = hints ? hints[i] : `${names ? names[i] : i}: ${fixed(value, 3)}`;
    const bar = { x: i * step + step * 0.1, width: step * 0.8, y: value < 0 ? middle : middle - size, height: size, class: kind };
    root.append(drawing("rect", bar), // the whole column shows the tooltip, however small its bar is
      drawing("rect", { x: i * step, width: step, y: 0, height: height + 16, class: "column", "data-tip": tip }));
    if (names) {
      root.append(drawing("text", { x: (i + 0.5) * step, y: height + 13, class: i === right ? "right" : "" }, names[i]));
    }
  });
  root.append(drawing("line", { x1: 0, x2: width, y1: middle, y2: middle, class: "axis" }));
  return root;
}

/* Makes `node` a handle for mouse, touch and arrow keys. Calls `moved(x, y)` in its own units, `stepped(dx, dy)` by a key. */
function draggable(node, moved, stepped) {
  const { width, height } = node.viewBox.baseVal;
  const at = (event) => {
    const box = node.getBoundingClientRect();
    moved(((event.clientX - box.left) / box.width) * width, ((event.clientY - box.top) / box.height) * height);
  };
  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    at(event);
  });
  node.addEventListener("pointermove", (event) => { if (node.hasPointerCapture(event.pointerId)) at(event); });
  node.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    stepped(...step);
  });
}

/* A plot of answers against a weight, with a handle to drag along the axis. */
class StepPlot {
  /* `counts` = [least, most] answer; `moved(weight)` is called while the handle is dragged. */
  constructor(label, counts, moved) {
    Object.assign(this, { counts, moved, range: [0, 1], at: 0 });
    this.root = drawing("svg", { viewBox: "0 0 320 132", class: "curve drag", role: "slider", tabindex: 0, "aria-label": label });
    const go = (value) => moved(Math.min(Math.max(value, this.range[0]), this.range[1]));
    draggable(this.root, (x) => go(this.value(x)),
      (dx, dy) => go(this.at + ((dx || dy) * (this.range[1] - this.range[0])) / 100));
  }

  x(value) {
    return 24 + (288 * (value - this.range[0])) / (this.range[1] - this.range[0]);
  }

  value(x) {
    return this.range[0] + ((x - 24) / 288) * (this.range[1] - this.range[0]);
  }

  y(count) {
    return 108 - ((count - this.counts[0]) / (this.counts[1] - this.counts[0])) * 84;
  }

  /* The path of a step function through answers at evenly spaced weights. */
  path(answers) {
    const [low, high] = this.range, n = answers.length;
    return answers.map((count, i) => {
      const [a, b] = [i - 0.5, i + 0.5].map((j) => low + ((high - low) * Math.min(Math.max(j, 0), n - 1)) / (n - 1));
      return `${i ? "L" : "M"}${this.x(a).toFixed(1)} ${this.y(count).toFixed(1)}H${this.x(b).toFixed(1)}`;
    }).join("");
  }

  /* `answers`, `second` and each of `faint` are counts at evenly spaced weights; `ticks` are [weight, text] pairs. */
  draw({ range, at, says, answers, second, faint = [], ticks = [], name }) {
    Object.assign(this, { range, at });
    const parts = [];
    const { counts: [least, most] } = this;
    for (const count of new Set([Math.max(1, least), Math.ceil(most / 2), most])) {
      parts.push(drawing("text", { x: 18, y: this.y(count) + 4, class: "tick" }, String(count)),
        drawing("line", { x1: 24, x2: 312, y1: this.y(count), y2: this.y(count), class: "grid" }));
    }
    let last = -Infinity;
    for (const [weight, text] of ticks.filter(([weight]) => weight >= range[0] && weight <= range[1]).sort((a, b) => a[0] - b[0])) {
      const x = this.x(weight), free = x - last > 9;
      parts.push(drawing("line", { x1: x, x2: x, y1: 18, y2: 108, class: "own" }));
      if (free) parts.push(drawing("text", { x, y: 12 }, text));
      if (free) last = x;
    }
    if (faint.length) parts.push(drawing("path", { d: faint.map((line) => this.path(line)).join(""), class: "faint" }));
    parts.push(drawing("path", { d: this.path(second), class: "second" }), drawing("path", { d: this.path(answers), class: "line" }));
    for (const value of range) parts.push(drawing("text", { x: this.x(value), y: 125 }, twoDigits(value)));
    parts.push(drawing("text", { x: 168, y: 125 }, name));
    const x = this.x(Math.min(Math.max(at, range[0]), range[1]));
    parts.push(drawing("line", { x1: x, x2: x, y1: 16, y2: 108, class: "marker" }),
      drawing("circle", { cx: x, cy: this.y(says), r: 7, class: "handle" }));
    this.root.replaceChildren(...parts);
    const now = { valuemin: range[0], valuemax: range[1], valuenow: at, valuetext: `${twoDigits(at)}: it says ${says}` };
    for (const [key, value] of Object.entries(now)) this.root.setAttribute(`aria-${key}`, value);
  }
}
