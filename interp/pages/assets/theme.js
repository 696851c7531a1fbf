"use strict";
/* Draws the figures of a page and adapts their colours to light, dark and print. */

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function themed(layout, isDark) {
  const { ink, line } = LOOK[isDark ? "dark" : "light"];
  const copy = structuredClone(layout);
  copy.paper_bgcolor = "rgba(0,0,0,0)";
  if (/^(white|#fff(fff)?)$/i.test(copy.plot_bgcolor || "white")) copy.plot_bgcolor = "rgba(0,0,0,0)"; // other colours carry meaning
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
  for (const key of Object.keys(copy).filter((name) => /^coloraxis\d*$/.test(name))) { // zero has the colour of the page
    const scale = copy[key].colorscale;
    if (Array.isArray(scale) && scale[0][1] === PAPER_WHITE) {
      copy[key].colorscale = [[0, "#1c2733"], [0.25, "#1d4e79"], [0.6, "#3f9bd6"], [1, "#d6ecfa"]];
    }
  }
  return copy;
}

/* Black and grey lines get lighter on a dark page; what is drawn on top of colours keeps its own. */
const IN_THE_DARK = { "#000000": LOOK.dark.ink, black: LOOK.dark.ink, "#222222": LOOK.dark.ink, "#444444": LOOK.dark.soft, "#5b6472": "#a3abb8", "#7f7f7f": "#b4bcc8", "#dddddd": "#2f363f" };
for (const { colour, text, dark: other } of Object.values(LOOK.mechanisms)) {
  for (const name of [colour, text]) IN_THE_DARK[name.toLowerCase()] = other;
}
const PAPER_WHITE = "rgb(247,251,255)"; // the first colour of the scale of shares

/* A dark colour half-way to white, since a dark line is invisible on a dark page; other colours as they are. */
function lifted(colour) {
  const rgb = (/^rgb\((\d+), *(\d+), *(\d+)\)$/.exec(colour) || []).slice(1).map(Number);
  if (!rgb.length || 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 85) return colour;
  return `rgb(${rgb.map((channel) => Math.round(0.55 * channel + 0.45 * 255)).join(",")})`;
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

const plots = [...document.querySelectorAll("[data-plot]")];
const figureOf = (plot) => JSON.parse(document.getElementById(plot.dataset.plot).textContent);

const PAPER = 530; // pixels: half the width of a printed page
const NARROW = 600; // pixels: on a narrower page, panels are stacked

/* The layout with stacked panels, each as wide as the page, and colour bars below. What belongs to a panel is positioned
 * relative to its axes and moves with them. */
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

function drawFigure(plot, isDark, most = Infinity) {
  const figure = figureOf(plot);
  const full = figure.layout.width || 900, { stack, least = 300 } = figure.layout.meta || {};
  const width = Math.min(full, most, Math.max(least, plot.clientWidth)); // a sheet of many panels scrolls
  const narrow = most === Infinity && plot.clientWidth < NARROW && stack;
  let layout = { ...themed(figure.layout, isDark), width };
  if (narrow) layout = stacked(layout, Math.max(300, plot.clientWidth));
  const free = !(layout.annotations || []).length; // nothing is above the plot yet
  if (width < 420 && free && (layout.legend.x ?? 1.02) > 0.9) { // beside the plot it would take half of a phone
    layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" };
    layout.margin = { ...layout.margin, r: 20 };
  }
  if (width < 420 && !free && !narrow) layout.margin = { ...layout.margin, r: (layout.margin.r ?? 20) + 22 }; // labels beside it
  if ((layout.annotations || []).length || (layout.legend.y ?? 1) > 1) { // room for the mode bar above them
    layout.margin = { ...layout.margin, t: (layout.margin.t ?? 40) + 28 };
    layout.height = (layout.height || 450) + 28;
  }
  const data = isDark ? figure.data.map(inTheDark) : figure.data;
  Plotly.react(plot, data, layout, {
    displaylogo: false, responsive: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  });
  plot.style.minHeight = `${layout.height}px`;
  if (!plot.listens) { // a click on a row of tokens loads it into the live model
    plot.listens = true;
    plot.on("plotly_click", ({ points }) => {
      if (points[0].data.meta === "pair") window.dispatchEvent(new CustomEvent("pair", { detail: points[0].customdata }));
    });
  }
}

const folded = (plot) => plot.closest("details:not([open])") !== null;

function drawFigures(isDark, most) {
  plots.filter((plot) => !folded(plot)).forEach((plot) => drawFigure(plot, isDark, most));
}

/* One figure at a time, from the top, so that the page stays responsive. */
async function drawInTurn() {
  await new Promise((resolve) => window.addEventListener("load", resolve, { once: true }));
  for (const plot of plots.filter((plot) => !folded(plot))) {
    await new Promise((resolve) => setTimeout(resolve));
    drawFigure(plot, dark.matches);
  }
}

for (const plot of plots) plot.style.minHeight = `${figureOf(plot).layout.height || 450}px`;
window.figuresDrawn = drawInTurn();
dark.addEventListener("change", () => drawFigures(dark.matches));
window.addEventListener("resize", () => drawFigures(dark.matches));
for (const details of document.querySelectorAll("details")) { // folded figures are drawn when opened
  details.addEventListener("toggle", () => {
    if (details.open) plots.filter((plot) => details.contains(plot)).forEach((plot) => drawFigure(plot, dark.matches));
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
