"use strict";
/* Draws the figures of a page and keeps their colours in step with light, dark and print. */

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function themed(layout, isDark) {
  const ink = isDark ? "#e6e9ee" : "#1b1f24", line = isDark ? "#343b45" : "#d5dae1";
  const copy = structuredClone(layout);
  copy.paper_bgcolor = "rgba(0,0,0,0)";
  if (/^(white|#fff(fff)?)$/i.test(copy.plot_bgcolor || "white")) copy.plot_bgcolor = "rgba(0,0,0,0)"; // others mean something
  copy.font = { ...copy.font, color: ink };
  copy.modebar = { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink };
  copy.legend = { ...copy.legend, bgcolor: "rgba(0,0,0,0)" };
  for (const key of Object.keys(copy).filter((name) => /^[xy]axis\d*$/.test(name))) {
    copy[key] = { ...copy[key], gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line };
  }
  for (const shape of copy.shapes || []) {
    if (isDark && shape.line) shape.line.color = IN_THE_DARK[(shape.line.color || "").toLowerCase()] || shape.line.color;
  }
  return copy;
}

/* Lines drawn in black, dark grey or grey are there to be seen against the paper, whichever it is; what lies on colours
 * keeps its own. */
const IN_THE_DARK = { "#000000": "#e6e9ee", black: "#e6e9ee", "#222222": "#e6e9ee", "#444444": "#a0a9b5", "#7f7f7f": "#b4bcc8", "#0072b2": "#56b4e9" };

function inTheDark(trace) {
  if (trace.meta === "on colours") return trace;
  const copy = structuredClone(trace);
  for (const part of [copy.line, copy.marker]) {
    if (part && typeof part.color === "string") part.color = IN_THE_DARK[part.color.toLowerCase()] || part.color;
  }
  if (copy.line && copy.opacity && copy.opacity < 0.6) copy.opacity = 0.6;
  return copy;
}

const places = [...document.querySelectorAll("[data-plot]")];
const figureOf = (place) => JSON.parse(document.getElementById(place.dataset.plot).textContent);

const PAPER = 530; // pixels: as wide as half a page at the print's scale

function drawFigure(place, isDark, most = Infinity) {
  const figure = figureOf(place);
  const full = figure.layout.width || 900; // narrow places scroll sideways rather than squeeze two panels into a phone
  const width = Math.min(full, most, Math.max(full > 600 ? 500 : 320, place.clientWidth));
  const layout = { ...themed(figure.layout, isDark), width };
  const free = !(layout.annotations || []).length; // nothing stands above the plot already
  if (width < 420 && free && (layout.legend.x ?? 1.02) > 0.9) { // beside the plot it would take half of a phone
    layout.legend = { ...layout.legend, orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom" };
    layout.margin = { ...layout.margin, r: 20 };
  }
  const data = isDark ? figure.data.map(inTheDark) : figure.data;
  Plotly.react(place, data, layout, {
    displaylogo: false, responsive: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"],
  });
}

function drawFigures(isDark, most) {
  places.forEach((place) => drawFigure(place, isDark, most));
}

/* One figure at a time, from the top: the page is there at once, and answers in between. */
async function drawInTurn() {
  await new Promise((resolve) => window.addEventListener("load", resolve, { once: true }));
  for (const place of places) {
    await new Promise((resolve) => setTimeout(resolve));
    drawFigure(place, dark.matches);
  }
}

for (const place of places) place.style.minHeight = `${figureOf(place).layout.height || 450}px`;
window.figuresDrawn = drawInTurn();
dark.addEventListener("change", () => drawFigures(dark.matches));
window.addEventListener("resize", () => drawFigures(dark.matches));
window.addEventListener("beforeprint", () => drawFigures(false, PAPER));
window.addEventListener("afterprint", () => drawFigures(dark.matches));
