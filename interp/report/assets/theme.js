"use strict";
/* Draws the figures of the page and keeps their colours in step with light, dark and print. */

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function themed(layout, isDark) {
  const ink = isDark ? "#e6e9ee" : "#1b1f24", line = isDark ? "#343b45" : "#d5dae1";
  const copy = structuredClone(layout);
  copy.paper_bgcolor = copy.plot_bgcolor = "rgba(0,0,0,0)";
  copy.font = { ...copy.font, color: ink };
  copy.modebar = { bgcolor: "rgba(0,0,0,0)", color: line, activecolor: ink };
  copy.legend = { ...copy.legend, bgcolor: "rgba(0,0,0,0)" };
  for (const key of Object.keys(copy).filter((name) => /^[xy]axis\d*$/.test(name))) {
    copy[key] = { ...copy[key], gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line };
  }
  for (const shape of copy.shapes || []) {
    if (shape.line && /^(black|#000|#000000|#1b1f24)$/.test(shape.line.color || "")) shape.line.color = ink;
  }
  return copy;
}

const places = [...document.querySelectorAll("[data-plot]")];
const figureOf = (place) => JSON.parse(document.getElementById(place.dataset.plot).textContent);

function drawFigure(place, isDark) {
  const figure = figureOf(place);
  const width = Math.min(figure.layout.width || 900, Math.max(320, place.clientWidth));
  const layout = { ...themed(figure.layout, isDark), width };
  Plotly.react(place, figure.data, layout, { displaylogo: false, responsive: false });
}

function drawFigures(isDark) {
  places.forEach((place) => drawFigure(place, isDark));
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
window.addEventListener("beforeprint", () => drawFigures(false));
window.addEventListener("afterprint", () => drawFigures(dark.matches));
