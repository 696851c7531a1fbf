"use strict";
/* Draws the figures of a page and keeps their colours in step with light, dark and print. */

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function themed(layout, isDark) {
  const { ink, line } = LOOK[isDark ? "dark" : "light"];
  const copy = structuredClone(layout);
  copy.paper_bgcolor = "rgba(0,0,0,0)";
  if (/^(white|#fff(fff)?)$/i.test(copy.plot_bgcolor || "white")) copy.plot_bgcolor = "rgba(0,0,0,0)"; // others mean something
  if (isDark) copy.plot_bgcolor = IN_THE_DARK[copy.plot_bgcolor.toLowerCase()] || copy.plot_bgcolor;
  copy.font = { ...copy.font, color: ink };
  copy.modebar = { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink };
  copy.legend = { ...copy.legend, bgcolor: "rgba(0,0,0,0)" };
  for (const key of Object.keys(copy).filter((name) => /^[xy]axis\d*$/.test(name))) {
    copy[key] = { ...copy[key], gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line };
  }
  if (!isDark) return copy;
  for (const shape of copy.shapes || []) {
    if (shape.line) shape.line.color = IN_THE_DARK[(shape.line.color || "").toLowerCase()] || shape.line.color;
  }
  for (const note of copy.annotations || []) {
    const colour = note.font && note.font.color;
    if (note.bgcolor && /255/.test(note.bgcolor)) note.bgcolor = "rgba(20,23,28,0.75)";
    else if (note.bgcolor === "white") note.bgcolor = LOOK.dark.paper;
    if (colour && !note.bgcolor) note.font.color = IN_THE_DARK[colour.toLowerCase()] || colour;
  }
  for (const key of Object.keys(copy).filter((name) => /^coloraxis\d*$/.test(name))) { // zero is the paper, whichever it is
    const scale = copy[key].colorscale;
    if (Array.isArray(scale) && scale[0][1] === PAPER_WHITE) {
      copy[key].colorscale = [[0, "#1c2733"], [0.25, "#1d4e79"], [0.6, "#3f9bd6"], [1, "#d6ecfa"]];
    }
  }
  return copy;
}

/* Lines drawn in black, dark grey or grey are there to be seen against the paper, whichever it is; what lies on colours
 * keeps its own. */
const IN_THE_DARK = { "#000000": LOOK.dark.ink, black: LOOK.dark.ink, "#222222": LOOK.dark.ink, "#444444": LOOK.dark.soft, "#5b6472": "#a3abb8", "#7f7f7f": "#b4bcc8", "#dddddd": "#2f363f" };
for (const { colour, text, dark: other } of Object.values(LOOK.mechanisms)) {
  for (const name of [colour, text]) IN_THE_DARK[name.toLowerCase()] = other;
}
const PAPER_WHITE = "rgb(247,251,255)"; // with which the scale of shares begins

/* The dark end of a scale of counts, half-way to white: a line in it would not be seen. */
function lifted(colour) {
  const parts = (/^rgb\((\d+), *(\d+), *(\d+)\)$/.exec(colour) || []).slice(1).map(Number);
  if (!parts.length || 0.3 * parts[0] + 0.59 * parts[1] + 0.11 * parts[2] > 85) return colour;
  return `rgb(${parts.map((part) => Math.round(0.55 * part + 0.45 * 255)).join(",")})`;
}

function inTheDark(trace) {
  if (trace.meta === "on colours") return trace;
  const copy = structuredClone(trace);
  for (const part of [copy.line, copy.marker]) {
    if (part && typeof part.color === "string") part.color = IN_THE_DARK[part.color.toLowerCase()] || lifted(part.color);
  }
  if (copy.line && !copy.fill && copy.opacity >= 0.3 && copy.opacity < 0.6) copy.opacity = 0.6; // thin lines, not bands
  return copy;
}

const places = [...document.querySelectorAll("[data-plot]")];
const figureOf = (place) => JSON.parse(document.getElementById(place.dataset.plot).textContent);

const PAPER = 530; // pixels: as wide as half a page at the print's scale
const NARROW = 600; // pixels: in less, the panels of a figure stand below each other

/* The panels below each other, each as wide as the page; colour bars lie below them. Whatever belongs to a panel is placed
 * by its axes and goes along. */
function stacked(layout, width) {
  const gap = 74, { stack, titles } = layout.meta;
  const bars = Object.keys(layout).filter((key) => /^coloraxis\d*$/.test(key) && layout[key].colorbar);
  const total = stack.reduce((sum, panel) => sum + panel.height + gap, -gap);
  const foot = 60 + 62 * bars.length + (layout.showlegend === false ? 0 : 60);
  const copy = { ...layout, width, height: total + 34 + foot, margin: { l: 58, r: 14, t: 34, b: foot } };
  let top = total;
  for (const { x, y, height } of stack) {
    copy[x] = { ...layout[x], domain: [0, 1], showticklabels: true };
    copy[y] = { ...layout[y], domain: [Math.max(0, top - height) / total, top / total], showticklabels: true };
    if (titles) {
      copy[x].title = { ...layout[x].title, text: titles.x };
      copy[y].title = { ...layout[y].title, text: titles.y };
    }
    top -= height + gap;
  }
  bars.forEach((key, i) => {
    const bar = { ...layout[key].colorbar, orientation: "h", x: 0.5, xanchor: "center", xpad: 0, len: 0.74, yanchor: "top", ticklabeloverflow: "allow" };
    copy[key] = { ...layout[key], colorbar: { ...bar, y: -(52 + 62 * i) / total, title: { ...bar.title, side: "top" } } };
  });
  return copy;
}

function drawFigure(place, isDark, most = Infinity) {
  const figure = figureOf(place);
  const full = figure.layout.width || 900, { stack, least = 300 } = figure.layout.meta || {};
  const width = Math.min(full, most, Math.max(least, place.clientWidth)); // a sheet of many panels scrolls in its frame
  const narrow = most === Infinity && place.clientWidth < NARROW && stack;
  let layout = { ...themed(figure.layout, isDark), width };
  if (narrow) layout = stacked(layout, Math.max(300, place.clientWidth));
  const free = !(layout.annotations || []).length; // nothing stands above the plot already
  if (width < 420 && free && (layout.legend.x ?? 1.02) > 0.9) { // beside the plot it would take half of a phone
    layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" };
    layout.margin = { ...layout.margin, r: 20 };
  }
  if (width < 420 && !free && !narrow) layout.margin = { ...layout.margin, r: (layout.margin.r ?? 20) + 22 }; // labels beside it
  if ((layout.annotations || []).length || (layout.legend.y ?? 1) > 1) { // room for the mode bar above what stands there
    layout.margin = { ...layout.margin, t: (layout.margin.t ?? 40) + 28 };
    layout.height = (layout.height || 450) + 28;
  }
  const data = isDark ? figure.data.map(inTheDark) : figure.data;
  Plotly.react(place, data, layout, {
    displaylogo: false, responsive: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  });
  place.style.minHeight = `${layout.height}px`;
  if (!place.listens) { // a row of tokens is loaded into the model that runs in the page
    place.listens = true;
    place.on("plotly_click", ({ points }) => {
      if (points[0].data.meta === "pair") window.dispatchEvent(new CustomEvent("pair", { detail: points[0].customdata }));
    });
  }
}

const folded = (place) => place.closest("details:not([open])") !== null;

function drawFigures(isDark, most) {
  places.filter((place) => !folded(place)).forEach((place) => drawFigure(place, isDark, most));
}

/* One figure at a time, from the top: the page is there at once, and answers in between. */
async function drawInTurn() {
  await new Promise((resolve) => window.addEventListener("load", resolve, { once: true }));
  for (const place of places.filter((one) => !folded(one))) {
    await new Promise((resolve) => setTimeout(resolve));
    drawFigure(place, dark.matches);
  }
}

for (const place of places) place.style.minHeight = `${figureOf(place).layout.height || 450}px`;
window.figuresDrawn = drawInTurn();
dark.addEventListener("change", () => drawFigures(dark.matches));
window.addEventListener("resize", () => drawFigures(dark.matches));
for (const details of document.querySelectorAll("details")) { // what is folded is drawn when it is opened
  details.addEventListener("toggle", () => {
    if (details.open) places.filter((place) => details.contains(place)).forEach((place) => drawFigure(place, dark.matches));
  });
}
window.addEventListener("beforeprint", () => {
  window.opened = [...document.querySelectorAll("details:not([open])")];
  for (const details of window.opened) details.open = true;
  drawFigures(false, PAPER);
});
window.addEventListener("afterprint", () => {
  for (const details of window.opened) details.open = false;
  drawFigures(dark.matches);
});
