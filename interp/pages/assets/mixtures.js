"use strict";
/* The feed-forward layer in isolation: its answer to mixtures of two tokens (drag along a line) and of three (drag in a
 * triangle), plus a residual token. */

const ALPHAS = 101;
const ROWS = 90; // of the triangle

class Mixtures {
  constructor(panel) {
    this.panel = panel;
    this.root = element("div", { className: "card isolation" }, element("h4", {}, "Feed-forward layer in isolation"));
    if (panel.model.whyNotIsolated !== null) {
      this.root.append(element("p", { className: "note" }, panel.model.whyNotIsolated));
      return;
    }
    const { T, L } = panel.config, { hasBos, firstCount } = panel.model;
    this.alpha = 0.5;
    this.weights = [1 / 3, 1 / 3, 1 / 3];
    this.tokens = hasBos ? [T, 3 % T, 2 % T] : [1 % T, 2 % T, 3 % T];
    this.residual = 1 % T;
    const choose = ["e", "e′", "e″"].map((text, i) => panel.tokenSelect(text, this.tokens[i], true, (token) => {
      this.tokens[i] = token;
      this.draw();
    }));
    choose.push(panel.tokenSelect("residual", this.residual, true, (token) => {
      this.residual = token;
      this.draw();
    }));
    this.line = new StepPlot("alpha, the weight of the first token", [firstCount, L], (alpha) => {
      this.alpha = alpha;
      this.drawLine();
    });
    this.triangle = new Triangle((weights) => {
      this.weights = weights;
      this.drawTriangle();
    });
    this.lineText = element("p", { className: "answer two" });
    this.triangleText = element("p", { className: "answer three" });
    for (const text of [this.lineText, this.triangleText]) text.setAttribute("aria-live", "polite");
    this.root.append(
      element("p", { className: "note" }, "Its answer to mixtures that need not occur in the model. Drag along the line: α e + (1 − α) e′ + residual."),
      element("div", { className: "fields" }, ...choose), this.line.root, this.lineText,
      element("p", { className: "note" }, "Faint: every other token as e′. Dotted: the second answer. Vertical line: this sequence's own α."),
      element("p", { className: "note" }, "Drag in the triangle to mix all three. Numbers are its answers."),
      this.triangle.root, this.triangleText);
    this.fresh = true;
  }

  logits(weights) {
    return this.panel.model.isolated([...this.tokens, this.residual], [...weights, 1]);
  }

  /* The sequence has changed, and so has its own mixture. */
  follow(plain) {
    if (this.panel.model.whyNotIsolated !== null) return;
    const row = plain.layers[0].pattern[this.panel.selected + plain.shift];
    const sequence = (plain.shift ? [this.panel.config.T] : []).concat(this.panel.tokens);
    this.own = (token) => row.reduce((sum, weight, i) => sum + (sequence[i] === token ? weight : 0), 0);
    if (this.fresh) this.draw();
    else this.drawLine();
    this.fresh = false;
  }

  draw() {
    const { model, config: { T, L } } = this.panel, [first] = this.tokens;
    const alphas = Array.from({ length: ALPHAS }, (_, i) => i / (ALPHAS - 1));
    const count = (other, alpha) => model.count(model.isolated([first, other, this.residual], [alpha, 1 - alpha, 1]));
    this.faint = Array.from({ length: T }, (_, other) => alphas.map((alpha) => count(other, alpha)));
    this.answers = alphas.map((alpha) => model.ranked(this.logits([alpha, 1 - alpha, 0])));
    this.triangle.paint((weights) => model.count(this.logits(weights)), [model.firstCount, L], this.tokens.map((token) => this.panel.name(token)));
    this.drawLine();
    this.drawTriangle();
  }

  says(logits) {
    return `it says ${rankedWords(this.panel.model.ranked(logits))}`;
  }

  drawLine() {
    const [first, second] = this.tokens, { alpha } = this, logits = this.logits([alpha, 1 - alpha, 0]);
    const [a, b] = [this.own(first), this.own(second)];
    const ticks = first !== second && a > 0 && b > 0 ? [[a / (a + b), "here"]] : [];
    this.line.draw({ range: [0, 1], at: alpha, says: this.panel.model.count(logits), ticks, faint: this.faint,
      answers: this.answers.map(([one]) => one.count), second: this.answers.map(([, two]) => two.count),
      name: `α, the weight of ${this.panel.name(first)}` });
    this.lineText.textContent = `At α = ${alpha.toFixed(2)} ${this.says(logits)}.`;
  }

  drawTriangle() {
    const mixed = this.weights.map((weight, i) => `${weight.toFixed(2)} ${this.panel.name(this.tokens[i])}`).join(" + ");
    this.triangle.point(this.weights);
    this.triangleText.textContent = `At ${mixed} ${this.says(this.logits(this.weights))}.`;
  }
}

/* Three weights that add up to one: a corner for each, coloured by the answer, with a point to drag. */
class Triangle {
  constructor(moved) {
    this.weights = [1 / 3, 1 / 3, 1 / 3];
    this.area = drawing("g", {});
    this.handle = drawing("circle", { r: 7, class: "handle" });
    this.root = drawing("svg", { viewBox: "0 0 220 176", class: "curve triangle drag", role: "application", tabindex: 0,
      "aria-label": "Mixture of three tokens; arrow keys move the point" }, this.area, this.handle);
    const go = (a, b, c) => {
      const kept = [a, b, c].map((weight) => Math.max(0, weight)), total = kept[0] + kept[1] + kept[2] || 1;
      moved(kept.map((weight) => weight / total));
    };
    const inverse = (x, y) => {
      const c = (158 - y) / 140, b = (x - 30 - 80 * c) / 160;
      return [1 - b - c, b, c];
    };
    draggable(this.root, (x, y) => go(...inverse(x, y)), (dx, dy) => {
      const [x, y] = this.coordinates(this.weights);
      go(...inverse(x + 3 * dx, y - 3 * dy));
    });
  }

  coordinates([, b, c]) {
    return [30 + 160 * b + 80 * c, 158 - 140 * c];
  }

  point(weights) {
    this.weights = weights;
    const [x, y] = this.coordinates(weights);
    this.handle.setAttribute("cx", x);
    this.handle.setAttribute("cy", y);
  }

  /* Adjacent equal answers of a row are drawn as one stripe. The number of an answer is at the centre of its area. */
  paint(answer, [least, most], names) {
    const parts = [], fields = new Map();
    for (let row = 0; row < ROWS; row++) {
      const c = (row + 0.5) / ROWS, wide = ROWS - row;
      for (let start = 0; start < wide;) {
        const at = (column) => [1 - c - ((column + 0.5) / wide) * (1 - c), ((column + 0.5) / wide) * (1 - c), c];
        const count = answer(at(start));
        let end = start + 1;
        while (end < wide && answer(at(end)) === count) end += 1;
        const [x0, y] = this.coordinates([0, (start / wide) * (1 - c), c]), [x1] = this.coordinates([0, (end / wide) * (1 - c), c]);
        const colour = onScale((count - least) / (most - least));
        parts.push(drawing("rect", { x: x0, y: y - 70 / ROWS, width: x1 - x0, height: 140 / ROWS + 0.3, fill: colour }));
        const field = fields.get(count) || { size: 0, x: 0, y: 0, colour };
        const size = end - start;
        fields.set(count, { ...field, size: field.size + size, x: field.x + (size * (x0 + x1)) / 2, y: field.y + size * y });
        start = end;
      }
    }
    const labels = []; // large areas first; labels do not overlap
    for (const [count, { size, x: sumX, y: sumY, colour }] of [...fields].sort((a, b) => b[1].size - a[1].size)) {
      const [x, y] = [sumX / size, sumY / size];
      if (size < (ROWS * ROWS) / 150 || labels.some((other) => Math.hypot(other[0] - x, other[1] - y) < 11)) continue;
      labels.push([x, y]);
      parts.push(drawing("text", { x, y: y + 4, style: `fill:${inkOn(colour)}` }, String(count)));
    }
    [[22, 170], [198, 170], [110, 12]].forEach(([x, y], i) => parts.push(drawing("text", { x, y, class: "corner" }, names[i])));
    this.area.replaceChildren(...parts);
  }
}
