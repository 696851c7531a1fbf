"use strict";
/* Attention: one block and head at a time, chosen among thumbnails; the row or column of a token on hover; and the answer
 * as a function of one weight. In bos+sftm the weight on `$` carries the count. There the alpha sweeps of the feed-forward
 * layer are drawn behind the answer, on the same axis. */

const WEIGHTS = 81; // number of weights at which the answer is computed

class Attention {
  constructor(panel) {
    Object.assign(this, { panel, block: 0, head: null, target: null, known: "", locked: false });
    this.thumbs = element("div", { className: "thumbs", role: "group", "aria-label": "Block and head" });
    this.matrix = element("div", { className: "attention" });
    this.matrix.addEventListener("pointerover", (event) => { if (!this.locked) this.hovered(event); });
    this.matrix.addEventListener("pointerleave", () => { if (!this.locked) this.light(); });
    this.matrix.addEventListener("click", (event) => this.clicked(event));
    const { firstCount, config: { L } } = panel.model;
    this.plot = new StepPlot("Weight of attention", [firstCount, L], (weight) => this.set(weight));
    this.keys = element("select", { className: "keys" });
    this.keys.addEventListener("change", () => {
      this.target = { query: this.query, key: Number(this.keys.value) };
      panel.setWeight(null);
    });
    this.text = element("p", { className: "answer" });
    this.text.setAttribute("aria-live", "polite");
    this.note = element("p", { className: "note" });
    this.back = button("reset", () => panel.setWeight(null));
    const edited = element("div", { className: "edited" },
      element("label", { className: "field" }, "Weight on", this.keys), button("ablate", () => this.set(0)), this.back,
      this.plot.root, this.text, this.note);
    this.title = element("h4");
    this.root = element("div", { className: "card" }, this.title, this.thumbs, this.matrix, edited);
  }

  get query() {
    return this.panel.selected + (this.panel.model.hasBos ? 1 : 0);
  }

  /* The pattern of the chosen block: that of the chosen head, or the mean of all heads. */
  shown({ layers }) {
    const { pattern, patterns } = layers[this.block];
    return this.head === null ? pattern : patterns[this.head];
  }

  draw(plain, result) {
    const { tokens, config } = this.panel;
    this.names = (plain.shift ? [config.T] : []).concat(tokens).map((token) => this.panel.name(token));
    if (!this.target || (this.target.query >= plain.shift && this.target.query !== this.query)) { // another position was chosen
      this.target = { query: this.query, key: plain.shift ? 0 : this.query };
    }
    this.drawThumbs(result);
    this.drawMatrix(result);
    this.drawPlot(plain, result);
  }

  drawThumbs({ layers }) {
    const { n_layers: blocks, n_heads: heads } = this.panel.config;
    this.title.textContent = "Attention, query in rows" + (blocks * heads === 1 ? "" :
      `: ${blocks > 1 ? `block ${this.block + 1}, ` : ""}${this.headName(this.head)}`);
    this.thumbs.hidden = blocks * heads === 1;
    if (this.thumbs.hidden) return;
    const choices = layers.flatMap((_, block) => [...(heads > 1 ? [null] : []), ...Array(heads).keys()]
      .map((head) => [block, heads === 1 ? null : head]));
    this.thumbs.replaceChildren(...choices.map(([block, head]) => {
      const { pattern, patterns } = layers[block], words = `${blocks > 1 ? `block ${block + 1}, ` : ""}${this.headName(head)}`;
      const thumb = button("", () => {
        Object.assign(this, { block, head });
        this.panel.setWeight(null);
      }, "thumb");
      thumb.append(this.picture(head === null ? pattern : patterns[head]), element("span", {}, words));
      thumb.setAttribute("aria-pressed", String(block === this.block && head === this.head));
      return thumb;
    }));
  }

  headName(head) {
    return this.panel.config.n_heads === 1 ? "its head" : head === null ? "mean of all heads" : `head ${head}`;
  }

  picture(pattern) {
    const n = pattern.length, largest = Math.max(1e-12, ...pattern.flat().map(Math.abs));
    return drawing("svg", { viewBox: `0 0 ${n} ${n}`, "aria-hidden": true }, ...pattern.flatMap((row, y) => row.map((weight, x) =>
      drawing("rect", { x, y, width: 1, height: 1, opacity: Math.abs(weight) / largest, class: weight < 0 ? "negative" : "positive" }))));
  }

  drawMatrix(result) {
    const pattern = this.shown(result), { names } = this, { softmax } = this.panel.config;
    const largest = Math.max(1e-12, ...pattern.flat().map(Math.abs));
    const digits = largest >= 10 ? 0 : largest >= 1 ? 1 : 2;
    const head = element("tr", {}, element("th"), ...names.map((name, key) => element("th", { "data-key": key }, name)));
    const rows = pattern.map((row, query) => {
      const cells = row.map((weight, key) => {
        const cell = element("td", { "data-query": query, "data-key": key }, softmax ? String(Math.round(weight * 100)) : fixed(weight, digits));
        cell.style.setProperty("--share", `${(Math.abs(weight) / largest) * 100}%`);
        cell.className = (weight < 0 ? "negative" : "positive") + (Math.abs(weight) > 0.6 * largest ? " strong" : "") +
          (names[query] === names[key] ? " equal" : "") + (query === this.query ? " row" : "");
        if (this.target.query === query && this.target.key === key) cell.classList.add("set");
        cell.setAttribute("data-tip", `${this.at(query, result)} to ${this.at(key, result)}: ${fixed(weight, 4)}`);
        return cell;
      });
      return element("tr", {}, element("th", { "data-query": query }, names[query]), ...cells);
    });
    const small = names.length > 16 ? "matrix dense" : softmax ? "matrix" : "matrix signed";
    const unit = softmax ? "Percent. " : "";
    const table = element("table", { className: small }, head, ...rows);
    table.style.setProperty("--columns", names.length + 1);
    this.matrix.replaceChildren(table, element("p", { className: "note" },
      `${unit}Equal tokens are framed. Hover or tap a token to see its row or column; click a weight to ablate it.`));
  }

  /* `B at 3`, with positions numbered like the tiles. */
  at(position, { shift }) {
    return position < shift ? "$" : `${this.names[position]} at ${position - shift + 1}`;
  }

  hovered({ target }) {
    const { key, query } = target.dataset;
    if (target.tagName !== "TH" || (key ?? query) === undefined) this.light();
    else this.light(key === undefined ? "query" : "key", Number(key ?? query));
  }

  /* Dims all but one row (`query`) or column (`key`); without arguments nothing is dimmed. */
  light(axis = null, index = 0) {
    for (const cell of this.matrix.querySelectorAll("td")) {
      cell.classList.toggle("dim", axis !== null && Number(cell.dataset[axis]) !== index);
    }
  }

  clicked({ target }) {
    const { key, query } = target.dataset;
    if (target.tagName === "TH") { // a tap keeps the highlight until the next tap
      this.locked = !this.locked;
      this.hovered({ target });
      if (!this.locked) this.light();
    } else if (key !== undefined) {
      this.locked = false;
      this.target = { query: Number(query), key: Number(key) };
      const position = Number(query) - (this.panel.model.hasBos ? 1 : 0);
      if (position >= 0) this.panel.selected = position;
      this.set(0);
    }
  }

  set(weight) {
    this.panel.setWeight({ layer: this.block, head: this.head, ...this.target, weight });
  }

  drawPlot(plain, result) {
    const { panel, target: { query, key } } = this, { config, model, selected, edit } = panel;
    const pattern = this.shown(plain), before = pattern[query][key], at = edit ? edit.weight : before;
    const most = config.softmax ? 1 : 2 * Math.max(1e-12, ...pattern.flat().map(Math.abs));
    const range = [config.softmax ? 0 : -most, most];
    const state = [panel.tokens, selected, this.block, this.head, query, key].join();
    if (state !== this.known) { // the curve does not depend on the position of the handle
      this.known = state;
      this.curve = Array.from({ length: WEIGHTS }, (_, i) => {
        const weight = range[0] + ((range[1] - range[0]) * i) / (WEIGHTS - 1);
        return model.ranked(model.run(panel.tokens, null, { layer: this.block, head: this.head, query, key, weight }).logits[selected]);
      });
      this.behind = config.softmax && model.hasBos && key === 0 && query === this.query ? this.shares(plain) : { faint: [], ticks: [] };
      this.keys.replaceChildren(...this.names.map((_, i) => element("option", { value: i }, this.at(i, plain))));
      this.keys.value = key;
    }
    const ranked = model.ranked(result.logits[selected]);
    this.plot.draw({ range, at, says: ranked[0].count, answers: this.curve.map(([best]) => best.count),
      second: this.curve.map(([, next]) => next.count), ...this.behind,
      name: `weight of ${this.at(query, plain)} on ${this.at(key, plain)}` });
    this.back.disabled = edit === null;
    const changed = plain.counts.map((count, i) => [count, result.counts[i], i]).filter(([a, b]) => a !== b);
    const says = changed.length === 0 ? "no answer changes" :
      changed.map(([a, b, i]) => `position ${i + 1} says ${b} instead of ${a}`).join(", ");
    this.text.textContent = (edit === null ? `${twoDigits(before)}, as it is. ` : `${twoDigits(at)} instead of ${twoDigits(before)}: ${says}. `) +
      `Position ${selected + 1} says ${rankedWords(ranked)}.`;
    this.note.textContent = "Drag in the plot to set the weight" + (config.softmax ? "; the rest of the row keeps its proportions. " : ". ") +
      "Dotted: the second answer." + (this.behind.ticks.length ? ` Vertical lines: the weight on $ where ${panel.name(panel.tokens[selected])} ` +
      `occurs 1 to ${config.L} times.` : "") + (this.behind.faint.length ? " Faint: the feed-forward layer alone, on $ and one other token." : "");
  }

  /* The natural weights on `$` where the chosen token occurs 1, 2, ... times, and the alpha sweeps against `$`. */
  shares(plain) {
    const { model, config: { T, L }, tokens, selected } = this.panel, token = tokens[selected];
    const others = [...Array(T).keys()].filter((other) => other !== token);
    const ticks = Array.from({ length: L }, (_, i) => i + 1).filter((count) => L - count <= others.length).map((count) => {
      const pattern = this.shown(model.run([...others.slice(0, L - count), ...Array(count).fill(token)]));
      return [pattern[L - 1 + plain.shift][0], String(count)];
    });
    const at = (other, alpha) => model.count(model.isolated([T, other, token], [alpha, 1 - alpha, 1]));
    const faint = model.whyNotIsolated === null && this.block === 0 ?
      others.map((other) => Array.from({ length: WEIGHTS }, (_, i) => at(other, i / (WEIGHTS - 1)))) : [];
    return { ticks, faint };
  }
}
