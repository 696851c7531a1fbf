"use strict";
/* The colours of the maps: the mechanism map's own, and for shares the scale of all figures. */

/* What a map can show: the mechanism, or a share of each cell, `of`, which is undefined where it was not measured. */
const VIEWS = {
  mechanism: { title: "Mechanism", there: (cell) => cell.main !== undefined },
  accuracy: share("Accuracy", (cell) => cell.accuracy / 100, "Positions counted rightly, mean over runs"),
  rc: share("Share of RC", (cell) => cell.RC, "Share of RC, mean over solved runs"),
  ic: share("Share of IC", (cell) => cell.IC, "Share of IC, mean over solved runs"),
  gated: share("Share gated", (cell) => cell.gated, "Share that is gated, mean over solved runs"),
  proof: share("Proof", (cell) => cell.proved, "Cells (token and count, for lin also the place) proved right on every sequence, mean over runs"),
};

function share(title, of, words) {
  return { title, of, words, there: (cell) => of(cell) !== undefined };
}

function channels(colour) {
  if (colour.startsWith("#")) return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return colour.match(/\d+/g).slice(0, 3).map(Number);
}

function between(first, second, share) {
  const [a, b] = [channels(first), channels(second)];
  return `rgb(${a.map((value, i) => Math.round(value + share * (b[i] - value))).join(",")})`;
}

/* A colour of the scale, for a share from 0 to 1. */
function onScale(scale, share) {
  const at = Math.min(Math.max(share, 0), 1);
  const above = Math.max(1, scale.findIndex(([stop]) => stop >= at));
  const [[low, first], [high, second]] = [scale[above - 1], scale[above]];
  return between(first, second, (at - low) / (high - low));
}

/* Black or white, whichever is easier to read on a colour. */
function inkOn(colour) {
  const [r, g, b] = channels(colour);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#111111" : "#ffffff";
}

/* What a cell looks like in a view: {colour, letters}; null where there is nothing to show. */
function look(atlas, cell, view) {
  if (!VIEWS[view].there(cell)) return null;
  if (view !== "mechanism") return { colour: onScale(atlas.scale, VIEWS[view].of(cell)), letters: "" };
  const { colour } = atlas.mechanisms[cell.main];
  return { colour: between("#ffffff", colour, atlas.palest + (1 - atlas.palest) * cell.share), letters: cell.letters };
}

function drawLegend(place, atlas, view) {
  if (view === "mechanism") {
    place.replaceChildren(...Object.entries(atlas.mechanisms).map(([name, { words, colour, letter }]) => {
      const key = element("span", { className: "key" }, letter);
      key.style.background = colour;
      key.style.color = inkOn(colour);
      return element("span", { className: "entry" }, key, name === words ? name : `${name}: ${words}`);
    }), element("span", { className: "entry" }, "Paler: runs disagree; small letters: what the others do."));
  } else {
    const bar = element("span", { className: "ramp" });
    bar.style.background = `linear-gradient(to right, ${atlas.scale.map(([, colour]) => colour).join(",")})`;
    place.replaceChildren(element("span", { className: "entry" }, `${VIEWS[view].words}: 0 %`, bar, "100 %"));
  }
  place.append(element("span", { className: "entry" },
    element("span", { className: "key empty" }), view === "accuracy" ? "no run" : "no such run"));
}
