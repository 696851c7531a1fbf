"use strict";
/* The live model: type a sequence and see attention, mixed token, hidden units, probabilities and counts; click a weight
 * of attention and set it; drag alpha through the feed-forward layer in isolation; swap the self path and see whom the
 * model counts. Text enters the page through textContent only. */

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
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

/* To so many digits; what rounds to zero has no sign. */
function fixed(value, digits) {
  return value.toFixed(digits).replace(/^-(0(\.0*)?)$/, "$1");
}

/* Two digits that count, whatever the size. */
function twoDigits(value) {
  return Math.abs(value) < 1e-9 ? "0" : String(Number(value.toPrecision(2)));
}

/* `A to Z, a to f`. */
function alphabet(T) {
  if (T > LETTERS.length) return `the numbers 0 to ${T - 1}`;
  const small = T > 26 ? `, a to ${LETTERS[T - 1]}` : "";
  return `A to ${LETTERS[Math.min(T, 26) - 1]}${small}, or the numbers 0 to ${T - 1}`;
}

function label(token, T) {
  return token === T ? "$" : token < LETTERS.length ? LETTERS[token] : String(token);
}

/* `BBCBBBDEEE`, or numbers separated by commas or spaces. Throws a sentence for the reader. */
function parseTokens(text, config) {
  const parts = text.replace(/,/g, " ").split(/\s+/).filter((part) => part !== "");
  const numeric = parts.length > 1 || /^\d+$/.test(parts[0] || "");
  const tokens = numeric ? parts.map(Number) : [...(parts[0] || "")].map((char) => LETTERS.indexOf(char));
  if (tokens.some((token) => !Number.isInteger(token) || token < 0 || token >= config.T)) {
    throw new Error(`Tokens are ${alphabet(config.T)}.`);
  }
  if (tokens.length !== config.L) throw new Error(`${config.L} tokens are needed, ${tokens.length} are here.`);
  return tokens;
}

/* A bar for each value, up or down from zero, scaled to the largest. */
function bars(values, { names = null, chosen = -1, right = -1, hints = null } = {}) {
  const width = 320, height = 90, middle = values.some((v) => v < 0) ? height / 2 : height - 12;
  const largest = Math.max(1e-12, ...values.map(Math.abs));
  const step = width / values.length;
  const root = drawing("svg", { viewBox: `0 0 ${width} ${height + 14}`, class: "bars", role: "img" });
  values.forEach((value, i) => {
    const size = (Math.abs(value) / largest) * (middle === height / 2 ? height / 2 - 2 : height - 14);
    const kind = i === chosen ? "chosen" : value < 0 ? "negative" : "positive";
    const bar = drawing("rect", {
      x: i * step + step * 0.1, width: step * 0.8, y: value < 0 ? middle : middle - size, height: size, class: kind,
    });
    bar.append(drawing("title", {}, hints ? hints[i] : `${names ? names[i] : i}: ${fixed(value, 3)}`));
    root.append(bar);
    if (names) {
      const text = drawing("text", { x: (i + 0.5) * step, y: height + 11, class: i === right ? "right" : "" }, names[i]);
      root.append(text);
    }
  });
  root.append(drawing("line", { x1: 0, x2: width, y1: middle, y2: middle, class: "axis" }));
  return root;
}

class LivePanel {
  /* `wrong`: a sequence that the model counts wrong, if one is known. */
  constructor(root, model, wrong = null) {
    this.root = root;
    this.model = model;
    this.config = model.config;
    this.wrong = wrong;
    this.tokens = this.example();
    this.selected = 0;
    this.head = null; // the mean of all heads
    this.edit = null; // a weight of attention that was set
    this.build();
    this.update();
  }

  example() {
    const { L, T } = this.config;
    if (L === 10 && T >= 5) return [1, 1, 2, 1, 1, 1, 3, 4, 4, 4];
    const tokens = [];
    for (let kind = 1; tokens.length < L; kind++) {
      const block = Math.ceil((L - tokens.length) / 2);
      for (let i = 0; i < block; i++) tokens.push(kind % T);
    }
    return tokens;
  }

  name(token) {
    return label(token, this.config.T);
  }

  tokenSelect(text, value, withBos, onChange) {
    const last = this.config.T + (withBos && this.model.hasBos ? 1 : 0);
    const options = Array.from({ length: last }, (_, token) => element("option", { value: token }, this.name(token)));
    const select = element("select", {}, ...options);
    select.value = value;
    select.addEventListener("change", () => onChange(Number(select.value)));
    return element("label", { className: "field" }, text, select);
  }

  build() {
    this.input = element("input", { type: "text", spellcheck: false, autocomplete: "off", className: "sequence" });
    this.input.addEventListener("input", () => this.typed());
    this.problem = element("p", { className: "problem", role: "alert" });
    this.tiles = element("div", { className: "tiles", role: "group" });
    this.tiles.setAttribute("aria-label", "Tokens of the sequence; arrow keys move and change, letters set");
    this.tiles.addEventListener("keydown", (event) => this.pressed(event));
    this.spoken = element("p", { className: "spoken" });
    this.spoken.setAttribute("aria-live", "polite");
    this.attention = element("div", { className: "attention" });
    this.inside = element("div", { className: "inside" });
    this.swap = element("div", { className: "card swap" });
    this.isolation = element("div", { className: "card isolation" });
    this.edited = element("div", { className: "edited" });
    this.below = element("div", { className: "columns" },
      element("div", { className: "stack" },
        element("div", { className: "card" }, element("h4", {}, "Attention, query in rows"), ...this.headSelect(),
          this.attention, this.edited), this.swap),
      element("div", { className: "stack" }, element("div", { className: "card" }, this.inside), this.isolation));
    this.root.replaceChildren(
      element("div", { className: "card" },
        element("label", { className: "field wide" }, `Sequence of ${this.config.L} tokens`, this.input),
        element("p", { className: "note" }, `Tokens are ${alphabet(this.config.T)}; B and b are different ones. `,
          ...this.buttons()),
        this.problem, this.tiles, this.spoken),
      this.below);
    this.buildSwap();
    this.buildIsolation();
    this.writeInput();
  }

  buttons() {
    const { T, L } = this.config;
    const random = () => { // of few tokens, so that some occur more than once
      const few = Array.from({ length: 4 }, () => Math.floor(Math.random() * T));
      return Array.from({ length: L }, () => few[Math.floor(Math.random() * 4)]);
    };
    const offers = [["example", () => this.example()], ["random", random]];
    if (this.wrong) offers.push(["one that it counts wrong", () => this.wrong]);
    return offers.map(([text, tokens]) => {
      const button = element("button", { type: "button", className: "offer" }, text);
      button.addEventListener("click", () => this.setTokens(tokens()));
      return button;
    });
  }

  headSelect() {
    const heads = this.config.n_heads;
    if (heads === 1) return [];
    const names = ["mean of all heads", ...Array.from({ length: heads }, (_, head) => `head ${head + 1}`)];
    const select = element("select", { className: "heads" }, ...names.map((name, i) => element("option", { value: i - 1 }, name)));
    select.addEventListener("change", () => {
      this.head = Number(select.value) < 0 ? null : Number(select.value);
      this.edit = null;
      this.update();
    });
    return [element("label", { className: "field" }, "Shown", select)];
  }

  writeInput() {
    const plain = this.config.T <= LETTERS.length;
    this.input.value = plain ? this.tokens.map((t) => this.name(t)).join("") : this.tokens.join(" ");
  }

  typed() {
    try {
      this.tokens = parseTokens(this.input.value, this.config);
      this.edit = null;
      this.explain("");
      this.update();
    } catch (error) {
      this.explain(error.message);
    }
  }

  /* A sentence about the input; while there is one, no answer to another sequence is shown. */
  explain(text) {
    this.problem.textContent = text;
    for (const part of [this.tiles, this.below]) part.classList.toggle("stale", text !== "");
    if (text) this.spoken.textContent = "";
  }

  setTokens(tokens) {
    this.tokens = [...tokens];
    this.edit = null;
    this.explain("");
    this.writeInput();
    this.update();
  }

  setToken(token) {
    this.tokens[this.selected] = (token + this.config.T) % this.config.T;
    this.edit = null;
    this.explain("");
    this.writeInput();
    this.update(true);
  }

  pressed(event) {
    const { L } = this.config;
    const letter = LETTERS.indexOf(event.key);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") this.selected = (this.selected + L - 1) % L;
    else if (event.key === "ArrowRight") this.selected = (this.selected + 1) % L;
    else if (event.key === "ArrowUp") this.setToken(this.tokens[this.selected] + 1);
    else if (event.key === "ArrowDown") this.setToken(this.tokens[this.selected] - 1);
    else if (event.key.length === 1 && letter >= 0 && letter < this.config.T) this.setToken(letter);
    else return;
    event.preventDefault();
    this.update(true);
  }

  /* How often a token occurs; for causal models, up to the position `at`. */
  trueCount(token, at = this.selected) {
    const seen = this.config.causal ? this.tokens.slice(0, at + 1) : this.tokens;
    return seen.filter((other) => other === token).length;
  }

  update(keepFocus = false) {
    const plain = this.model.run(this.tokens);
    const result = this.edit === null ? plain : this.model.run(this.tokens, null, this.edit);
    this.drawTiles(result, keepFocus);
    this.drawAttention(result);
    this.drawEdit(plain, result);
    this.drawInside(result);
    this.drawSwap(plain);
    this.drawIsolation();
  }

  drawTiles(result, keepFocus) {
    this.tiles.replaceChildren(...this.tokens.map((token, i) => {
      const said = result.counts[i], right = said === this.trueCount(token, i);
      const tile = element("button", { type: "button", className: "tile" },
        element("span", { className: "token" }, this.name(token)),
        element("span", { className: right ? "said" : "said wrong" }, `${said}${right ? "" : " ✗"}`));
      tile.tabIndex = i === this.selected ? 0 : -1;
      tile.setAttribute("aria-pressed", String(i === this.selected));
      const verdict = right ? "right" : `truth ${this.trueCount(token, i)}`;
      tile.setAttribute("aria-label", `position ${i + 1}: ${this.name(token)}, predicted ${said}, ${verdict}`);
      tile.addEventListener("click", () => { this.selected = i; this.update(true); });
      return tile;
    }));
    if (keepFocus) this.tiles.children[this.selected].focus();
    const wrong = result.counts.filter((count, i) => count !== this.trueCount(this.tokens[i], i)).length;
    this.spoken.textContent = `Predicted counts: ${result.counts.join(" ")}. ` +
      (wrong === 0 ? "All are right." : `${wrong} of ${result.counts.length} are wrong.`);
  }

  drawAttention(result) {
    const names = (result.shift ? [this.config.T] : []).concat(this.tokens);
    const tables = result.layers.map(({ pattern: mean, patterns }, layer) => {
      const pattern = this.head === null ? mean : patterns[this.head];
      const largest = Math.max(1e-12, ...pattern.flat().map(Math.abs));
      const head = element("tr", {}, element("th"), ...names.map((t) => element("th", {}, this.name(t))));
      const rows = pattern.map((row, query) => {
        const cells = row.map((weight, key) => {
          const cell = element("td", {}, this.config.softmax ? String(Math.round(weight * 100)) : twoDigits(weight));
          cell.style.setProperty("--share", `${(Math.abs(weight) / largest) * 100}%`);
          cell.className = (weight < 0 ? "negative" : "positive") + (Math.abs(weight) > 0.6 * largest ? " strong" : "") +
            (names[query] === names[key] ? " equal" : "") + (query === this.selected + result.shift ? " row" : "");
          const { edit } = this;
          if (edit && edit.layer === layer && edit.query === query && edit.key === key) cell.classList.add("set");
          cell.addEventListener("click", () => this.setWeight({ layer, query, key, weight: 0 }, result.shift));
          cell.title = `${this.name(names[query])} to ${this.name(names[key])}: ${fixed(weight, 4)}`;
          return cell;
        });
        return element("tr", {}, element("th", {}, this.name(names[query])), ...cells);
      });
      const title = result.layers.length > 1 ? [element("caption", {}, `Block ${layer + 1}`)] : [];
      return element("table", { className: names.length > 16 ? "matrix dense" : "matrix" }, ...title, head, ...rows);
    });
    const unit = this.config.softmax ? "Percent. " : "";
    const note = `${unit}Equal tokens are framed. Click a weight to take it away or to set it.`;
    this.attention.replaceChildren(...tables, element("p", { className: "note" }, note));
  }

  setWeight(edit, shift) {
    this.edit = { head: this.head, ...edit };
    if (edit.query >= shift) this.selected = edit.query - shift;
    this.update();
  }

  /* The weight that was set, a slider for it, and what it changed. */
  drawEdit(plain, result) {
    if (this.edit === null) {
      this.edited.replaceChildren();
      return;
    }
    const { layer, query, key, weight } = this.edit, { shift } = result;
    const before = this.head === null ? plain.layers[layer].pattern : plain.layers[layer].patterns[this.head];
    const name = (position) => (position < shift ? "$" : `${this.name(this.tokens[position - shift])} at ${position - shift + 1}`);
    const most = this.config.softmax ? 1 : 2 * Math.max(...before.flat().map(Math.abs));
    if (!this.weightSlider || !this.edited.contains(this.weightSlider)) {
      this.weightSlider = element("input", { type: "range", className: "weight" });
      this.weightSlider.addEventListener("input", () => {
        this.edit = { ...this.edit, weight: Number(this.weightSlider.value) };
        this.update();
      });
      this.editText = element("p", { className: "answer" });
      this.editText.setAttribute("aria-live", "polite");
      const back = element("button", { type: "button", className: "offer" }, "put it back");
      back.addEventListener("click", () => { this.edit = null; this.update(); });
      this.edited.replaceChildren(element("label", { className: "field wide" }, "Weight", this.weightSlider), this.editText, back);
    }
    Object.assign(this.weightSlider, { min: this.config.softmax ? 0 : -most, max: most, step: most / 100 });
    this.weightSlider.value = weight;
    const changed = plain.counts.map((count, i) => [count, result.counts[i], i]).filter(([a, b]) => a !== b);
    const says = changed.length === 0 ? "no answer changes" :
      changed.map(([a, b, i]) => `position ${i + 1} says ${b} instead of ${a}`).join(", ");
    this.editText.textContent = `From ${name(query)} to ${name(key)}: ${twoDigits(weight)} instead of ` +
      `${twoDigits(before[query][key])}: ${says}.`;
  }

  drawInside(result) {
    const here = this.selected + result.shift, token = this.tokens[this.selected];
    const counts = result.logits[0].map((_, i) => String(i + this.model.firstCount));
    const truth = this.trueCount(token) - this.model.firstCount, said = result.counts[this.selected];
    const parts = [element("h4", {}, `Position ${this.selected + 1}: ${this.name(token)}`)];
    result.layers.forEach(({ mixed, hidden }, layer) => {
      const where = result.layers.length > 1 ? `, block ${layer + 1}` : "";
      parts.push(element("p", { className: "note" }, `Mixed token${where} (d = ${this.config.d})`), bars(mixed[here]));
      const largest = Math.max(...hidden[here].map(Math.abs));
      const scale = largest === 0 ? "all are zero here" : `the largest is ${twoDigits(largest)}`;
      parts.push(element("p", { className: "note" }, `Hidden units${where} (p = ${this.config.p}; ${scale})`));
      if (largest > 0) parts.push(bars(hidden[here]));
    });
    const logits = result.logits[this.selected], best = Math.max(...logits), shares = softmax(logits);
    const hints = counts.map((count, i) => `${count}: probability ${shares[i].toPrecision(2)}, logit ${fixed(logits[i] - best, 2)} from the best`);
    const second = counts[logits.map((value, i) => [value, i]).sort((a, b) => b[0] - a[0])[1][1]];
    const text = `Probabilities: the model says ${said}, the truth is ${this.trueCount(token)}. Second is ${second}.`;
    parts.push(element("p", { className: "note" }, text),
      bars(shares, { names: counts, chosen: said - this.model.firstCount, right: truth, hints }));
    this.inside.replaceChildren(...parts);
  }

  buildSwap() {
    this.other = this.tokens.find((token) => token !== this.tokens[0]) ?? 0;
    this.swapSelect = this.tokenSelect("Tell the feed-forward layer it is", this.other, false, (token) => {
      this.other = token;
      this.update();
    });
    this.swapText = element("p", { className: "answer" });
    this.swapText.setAttribute("aria-live", "polite");
    const why = "Attention has compared for the token that is there. Then the self path, residual and diagonal, is " +
      "swapped to another token. Relation-based counting keeps the count; inventory-based counting counts the other token, " +
      "of which there is now one more.";
    this.swap.replaceChildren(element("h4", {}, "Cue conflict"), element("p", { className: "note" }, why),
      this.swapSelect, this.swapText);
  }

  drawSwap(plain) {
    const token = this.tokens[this.selected], other = this.other;
    const before = plain.counts[this.selected];
    const after = this.model.run(this.tokens, { position: this.selected, token: other }).counts[this.selected];
    const own = this.trueCount(token), patched = this.trueCount(other);
    const inventory = patched + 1; // the swapped position is one more of them
    let whom = "neither of them";
    if (own === inventory) whom = "either: both mechanisms would say so, choose another pair";
    else if (after === own) whom = `${this.name(token)}, whom attention compared (as relation-based counting does)`;
    else if (after === inventory) {
      whom = `${this.name(other)}, the patched token, this position included (as inventory-based counting does)`;
    }
    this.swapText.textContent = `Position ${this.selected + 1} holds ${this.name(token)} (${own} times), said ${before}. ` +
      `With ${this.name(other)} patched in (${patched} in the sequence), it says ${after}: it counts ${whom}.`;
  }

  buildIsolation() {
    const bos = this.model.hasBos;
    this.alpha = 0.5;
    this.mix = bos ? [this.config.T, 3 % this.config.T, 1] : [1, 2 % this.config.T, 1];
    this.slider = element("input", { type: "range", min: 0, max: 1, step: 0.01, value: this.alpha });
    this.slider.addEventListener("input", () => { this.alpha = Number(this.slider.value); this.drawIsolation(); });
    this.curve = element("div");
    this.isolationText = element("p", { className: "answer" });
    this.isolationText.setAttribute("aria-live", "polite");
    const names = ["weight α on", "weight 1 − α on", "residual"];
    const selects = names.map((text, i) => this.tokenSelect(text, this.mix[i], true, (token) => {
      this.mix[i] = token;
      this.drawIsolation();
    }));
    if (this.model.whyNotIsolated !== null) {
      this.isolation.replaceChildren(element("h4", {}, "Feed-forward layer in isolation"),
        element("p", { className: "note" }, this.model.whyNotIsolated));
      return;
    }
    this.isolation.replaceChildren(element("h4", {}, "Feed-forward layer in isolation"),
      element("p", { className: "note" }, "Its answer to a mixture that attention never made: α e + (1 − α) e′ + residual."),
      element("div", { className: "fields" }, ...selects),
      element("label", { className: "field wide" }, "α", this.slider), this.curve, this.isolationText);
  }

  drawIsolation() {
    if (this.model.whyNotIsolated !== null) return;
    const tokens = this.mix, steps = 100, width = 320, height = 110, { L } = this.config;
    const at = (alpha) => this.model.isolated(tokens, [alpha, 1 - alpha, 1]);
    const y = (count) => height - 14 - ((count - this.model.firstCount) / (L - this.model.firstCount)) * (height - 24);
    const x = (alpha) => 22 + alpha * (width - 28);
    const path = Array.from({ length: steps }, (_, i) => [i / steps, (i + 1) / steps].map((a) => [x(a), y(at(i / steps))]))
      .flat();
    const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, class: "curve", role: "img" });
    for (const count of [1, Math.ceil(L / 2), L]) {
      svg.append(drawing("text", { x: 16, y: y(count) + 4, class: "tick" }, String(count)),
        drawing("line", { x1: 22, x2: width, y1: y(count), y2: y(count), class: "grid" }));
    }
    svg.append(drawing("polyline", { points: path.map((point) => point.join(",")).join(" ") }),
      drawing("line", { x1: x(this.alpha), x2: x(this.alpha), y1: 4, y2: height - 12, class: "marker" }));
    this.curve.replaceChildren(svg);
    this.isolationText.textContent = `At α = ${this.alpha.toFixed(2)} it says ${at(this.alpha)}.`;
  }
}

/* One field for all models on the page that read the same sequences; the panels keep their own for the rest. */
function shareSequence(holder, panels) {
  const { T, L } = panels[0].config;
  const same = panels.filter((panel) => panel.config.T === T && panel.config.L === L);
  const input = element("input", { type: "text", spellcheck: false, autocomplete: "off", className: "sequence" });
  input.value = panels[0].input.value;
  const problem = element("p", { className: "problem", role: "alert" });
  input.addEventListener("input", () => {
    try {
      const tokens = parseTokens(input.value, panels[0].config);
      problem.textContent = "";
      for (const panel of same) panel.setTokens(tokens);
    } catch (error) {
      problem.textContent = error.message;
    }
  });
  const text = same.length === panels.length ? "Sequence for all models" : `Sequence for the models with T = ${T}, L = ${L}`;
  holder.replaceChildren(element("label", { className: "field wide" }, text, input), problem);
}

/* A row of tokens (t, s, q, ...) of the verdict's picture: three of t, two of s, and others. */
function sequenceOf([t, s, ...others], { T, L }) {
  const rest = [...others, ...Array.from({ length: T }, (_, token) => token)].filter((token) => token !== t && token !== s);
  return [t, t, s, t, s, ...rest].slice(0, L);
}

const panels = [...document.querySelectorAll("[data-live]")].map((root) => {
  const payload = JSON.parse(document.getElementById(root.dataset.live).textContent);
  return (root.panel = new LivePanel(root, new CountingModel(payload), payload.wrong || null));
});
window.addEventListener("pair", ({ detail }) => {
  for (const panel of panels) if (Math.max(...detail) < panel.config.T) panel.setTokens(sequenceOf(detail, panel.config));
  if (panels.length) panels[0].root.scrollIntoView({ behavior: "smooth" });
});
document.querySelectorAll("[data-shared]").forEach((holder) => shareSequence(holder, panels));
