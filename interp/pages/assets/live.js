"use strict";
/* The live model: type a sequence to see the counts, attention (attention.js), the numbers of one position, the answer
 * after another token is patched in, and the feed-forward layer in isolation (mixtures.js). */

class LivePanel {
  /* `wrong`: a sequence that the model counts wrong, if one is known. `changed` is called after each change. */
  constructor(root, model, { wrong = null, tokens = null, selected = 0, changed = () => {} } = {}) {
    Object.assign(this, { root, model, config: model.config, wrong, selected, changed });
    this.tokens = tokens || exampleTokens(this.config);
    this.edit = null; // the attention weight that the reader has set
    this.build();
    this.update();
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
    this.input = element("input", { type: "text", spellcheck: false, autocomplete: "off", autocapitalize: "off", className: "sequence" });
    this.input.addEventListener("input", () => this.typed());
    this.problem = element("p", { className: "problem", role: "alert" });
    this.tiles = element("div", { className: "tiles", role: "group" });
    this.tiles.setAttribute("aria-label", "Tokens of the sequence; arrow keys move and change, letters set");
    this.tiles.addEventListener("keydown", (event) => this.pressed(event));
    this.spoken = element("p", { className: "spoken" });
    this.spoken.setAttribute("aria-live", "polite");
    this.inside = element("div", { className: "card inside" });
    this.attention = new Attention(this);
    this.swap = new Swap(this);
    this.mixtures = new Mixtures(this);
    this.below = element("div", { className: "columns" },
      element("div", { className: "stack" }, this.attention.root, this.swap.root),
      element("div", { className: "stack" }, this.inside, this.mixtures.root));
    this.root.replaceChildren(
      element("div", { className: "card" },
        element("label", { className: "field wide" }, `Sequence of ${this.config.L} tokens`, this.input),
        element("p", { className: "note" },
          `Tokens are ${alphabet(this.config.T)}${this.config.T > 26 ? "; B and b are different ones" : ""}. `, ...this.offers()),
        this.problem, this.tiles, this.spoken),
      this.below);
    this.tip = new Tip(this.root);
    this.input.value = writeTokens(this.tokens, this.config);
  }

  offers() {
    const offer = (text, tokens) => button(text, () => this.setTokens(tokens()));
    const offers = [offer("example", () => exampleTokens(this.config)), offer("random", () => randomTokens(this.config))];
    if (this.wrong) offers.push(offer("counterexample", () => this.wrong));
    return [...offers, button("next wrong one", () => this.findWrong())];
  }

  isWrong(tokens) {
    const truth = trueCounts(tokens, this.config);
    return this.model.run(tokens).counts.some((count, i) => count !== truth[i]);
  }

  /* Tries random sequences until one is counted wrong, for at most a second. */
  findWrong() {
    const end = performance.now() + 1000, before = String(this.tokens);
    let tries = 0;
    while (performance.now() < end) {
      const tokens = randomTokens(this.config);
      tries += 1;
      if (String(tokens) !== before && this.isWrong(tokens)) return this.setTokens(tokens);
    }
    this.problem.textContent = `None of ${tries.toLocaleString("en")} random sequences is counted wrong. Click again for others.`;
  }

  typed() {
    try {
      this.setTokens(parseTokens(this.input.value, this.config), false);
    } catch (error) {
      this.explain(error.message);
    }
  }

  /* Shows a problem with the input. Answers to the previous sequence are greyed out until it is empty. */
  explain(text) {
    this.problem.textContent = text;
    for (const area of [this.tiles, this.below]) area.classList.toggle("stale", text !== "");
    if (text) this.spoken.textContent = "";
  }

  setTokens(tokens, write = true, keepFocus = false) {
    this.tokens = [...tokens];
    this.edit = null;
    this.explain("");
    if (write) this.input.value = writeTokens(this.tokens, this.config);
    this.update(keepFocus);
  }

  setToken(token) {
    const { T } = this.config;
    this.setTokens(this.tokens.map((old, i) => (i === this.selected ? (token + T) % T : old)), true, true);
  }

  select(position, keepFocus = false) {
    this.selected = position;
    this.edit = null;
    this.update(keepFocus);
  }

  setWeight(edit) {
    this.edit = edit;
    this.update();
  }

  pressed(event) {
    const { L } = this.config, token = this.tokens[this.selected];
    const letter = LETTERS.indexOf(event.key);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") this.select((this.selected + L - 1) % L, true);
    else if (event.key === "ArrowRight") this.select((this.selected + 1) % L, true);
    else if (event.key === "ArrowUp") this.setToken(token + 1);
    else if (event.key === "ArrowDown") this.setToken(token - 1);
    else if (event.key.length === 1 && letter >= 0 && letter < this.config.T) this.setToken(letter);
    else return;
    event.preventDefault();
  }

  update(keepFocus = false) {
    const plain = this.model.run(this.tokens);
    const result = this.edit === null ? plain : this.model.run(this.tokens, null, this.edit);
    this.truth = trueCounts(this.tokens, this.config);
    this.drawTiles(result, keepFocus);
    this.attention.draw(plain, result);
    this.drawInside(result);
    this.swap.draw(plain);
    this.mixtures.follow(plain);
    this.changed(this);
  }

  drawTiles(result, keepFocus) {
    this.tiles.replaceChildren(...this.tokens.map((token, i) => {
      const said = result.counts[i], right = said === this.truth[i];
      const tile = element("button", { type: "button", className: "tile" },
        element("span", { className: "token" }, this.name(token)),
        element("span", { className: right ? "said" : "said wrong" }, `${said}${right ? "" : " ✗"}`));
      tile.tabIndex = i === this.selected ? 0 : -1;
      tile.setAttribute("aria-pressed", String(i === this.selected));
      const verdict = right ? "right" : `truth ${this.truth[i]}`;
      tile.setAttribute("aria-label", `position ${i + 1}: ${this.name(token)}, predicted ${said}, ${verdict}`);
      tile.addEventListener("click", () => this.select(i, true));
      tile.addEventListener("pointerenter", () => this.attention.light("query", i + result.shift));
      tile.addEventListener("pointerleave", () => this.attention.light());
      return tile;
    }));
    if (keepFocus) this.tiles.children[this.selected].focus();
    const wrong = result.counts.filter((count, i) => count !== this.truth[i]).length;
    this.spoken.textContent = `Predicted counts: ${result.counts.join(" ")}. ` +
      (wrong === 0 ? "All are right." : `${wrong} of ${result.counts.length} are wrong.`);
  }

  /* The numbers of one position: probabilities, residual stream and hidden units. */
  drawInside(result) {
    const here = this.selected + result.shift, { firstCount } = this.model;
    const ranked = this.model.ranked(result.logits[this.selected]), truth = this.truth[this.selected];
    const says = `Position ${this.selected + 1} holds ${this.name(this.tokens[this.selected])} and says ` +
      `${rankedWords(ranked)}. The truth is ${truth}.`;
    const logits = result.logits[this.selected], best = Math.max(...logits), shares = softmax(logits);
    const names = logits.map((_, i) => String(i + firstCount));
    const hints = names.map((count, i) =>
      `${count}: probability ${twoDigits(shares[i])}, logit ${fixed(logits[i] - best, 2)} from the best`);
    const parts = [element("h4", {}, "Probabilities"), element("p", { className: "note" }, says),
      bars(shares, { names, chosen: ranked[0].count - firstCount, right: truth - firstCount, hints })];
    result.layers.forEach(({ mixed, hidden }, layer) => {
      const where = result.layers.length > 1 ? `, block ${layer + 1}` : "";
      const largest = Math.max(...hidden[here].map(Math.abs));
      const scale = largest === 0 ? "all are zero here" : `the largest is ${twoDigits(largest)}`;
      parts.push(element("p", { className: "note" }, `Residual stream after attention${where} (d = ${this.config.d})`),
        bars(mixed[here]), element("p", { className: "note" }, `Hidden units${where} (p = ${this.config.p}; ${scale})`));
      if (largest > 0) parts.push(bars(hidden[here]));
    });
    this.inside.replaceChildren(...parts);
  }
}

/* Cue conflict: patch another token into the input of the feed-forward layer, and see which count comes out. */
class Swap {
  constructor(panel) {
    this.panel = panel;
    this.other = panel.tokens.find((token) => token !== panel.tokens[0]) ?? 0;
    this.text = element("p", { className: "answer" });
    this.text.setAttribute("aria-live", "polite");
    const why = "Attention compares for the token at this position. Then another token is patched into the residual stream " +
      "and the position's own value. Relation-based counting keeps the count. Inventory-based counting counts the other " +
      "token, including this position.";
    const select = panel.tokenSelect("Patch into the feed-forward layer", this.other, false, (token) => {
      this.other = token;
      panel.update();
    });
    this.root = element("div", { className: "card swap" }, element("h4", {}, "Cue conflict"),
      element("p", { className: "note" }, why), select, this.text);
  }

  draw(plain) {
    const { tokens, selected, model, config } = this.panel, { other } = this, name = (token) => this.panel.name(token);
    const token = tokens[selected], relation = this.panel.truth[selected];
    const seen = config.causal ? tokens.slice(0, selected + 1) : tokens;
    const known = seen.filter((each) => each === other).length, inventory = known + 1; // the swapped position is one more
    const after = model.run(tokens, { position: selected, token: other }).counts[selected];
    let whom = "neither of them";
    if (relation === inventory) whom = "either: both mechanisms would say so, choose another pair";
    else if (after === relation) whom = `${name(token)}, which attention compared (as relation-based counting does)`;
    else if (after === inventory) {
      whom = `${name(other)}, the token patched in, this position included (as inventory-based counting does)`;
    }
    this.text.textContent = `Position ${selected + 1} holds ${name(token)} (${times(relation)}), said ${plain.counts[selected]}. ` +
      `Given ${name(other)} (${times(known)}), it says ${after}: it counts ${whom}.`;
  }
}
