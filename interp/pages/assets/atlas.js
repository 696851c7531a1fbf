"use strict";
/* The atlas: maps (maps.js), the chosen cell, and the URL that stores both. */

/* One cell: the verdict on a run with its evidence, all its runs, and the model itself where the page carries it. */

class CellView {
  /* `go(cell)` opens another cell. */
  constructor(root, atlas, go) {
    Object.assign(this, { root, atlas, go, tokens: null });
  }

  /* Without a cell: links to some live models of different mechanisms. */
  empty(text, maps) {
    const kinds = new Map(maps.setting.cells.filter((cell) => cell.live).map((cell) => [cell.main, cell]));
    const links = [...kinds.values()].map((cell) => this.link(cell, cellName(cell)));
    this.root.replaceChildren(element("p", { className: "card note" }, text),
      element("div", { className: "same" }, links.length ? "Models that run here:" : "", ...links));
  }

  link(cell, text) {
    const button = element("button", { type: "button" }, text);
    button.addEventListener("click", () => this.go(cell));
    return button;
  }

  show(cell, maps) {
    this.keepSequence();
    const shown = cell.runs.find((run) => cell.live && run.run === cell.live.run) ||
      cell.runs.find((run) => run.mechanism === cell.main) || cell.runs[0];
    this.verdict = element("div");
    this.live = element("div", { id: "live" });
    this.rows = [];
    this.root.replaceChildren(
      element("h2", {}, cellName(cell)),
      element("p", { className: "note" }, `${cell.parameters.toLocaleString("en")} trained weights. ` +
        "Arrow keys on a map move to the next cell."),
      this.neighbours(cell, maps), this.verdict, this.table(cell),
      element("h3", {}, "The model itself"), this.live);
    this.choose(shown);
    this.run(cell, maps);
  }

  /* Links to the same sizes in the other models. */
  neighbours(cell, maps) {
    const links = maps.setting.models.map((model) => [model, maps.find(model, cell.d, cell.p)]);
    return element("div", { className: "same" }, "Same d and p:", ...links.map(([model, other]) => {
      const button = this.link(other, model);
      button.disabled = !other;
      const shown = other && look(this.atlas, other, VIEWS.mechanism.there(other) ? "mechanism" : "accuracy");
      if (shown) button.style.borderColor = shown.colour;
      if (other === cell) button.setAttribute("aria-current", "true");
      return button;
    }));
  }

  choose(run) {
    for (const [other, row] of this.rows) row.toggleAttribute("data-chosen", other === run);
    if (run.mechanism === undefined) {
      const accuracy = `Run ${run.run} ends with ${sampled(run.final / 100)} of sampled positions right. `;
      this.verdict.replaceChildren(element("div", { className: "card" }, accuracy +
        "It was not classified: `interp sweep classify` says how it counts."));
      return;
    }
    const colour = colourOf(run.mechanism);
    const chip = element("span", { className: "chip" }, run.label);
    chip.style.background = colour;
    chip.style.color = inkOn(colour);
    const bars = (estimates) => element("div", { className: "answers" }, ...estimates.flatMap(([name, ...numbers]) => this.bar(name, numbers)));
    const answers = [bars(run.estimates.slice(0, 3))];
    if (run.estimates.length > 3) {
      answers.push(element("details", {}, element("summary", {}, "The four transplants"), bars(run.estimates.slice(3))));
    }
    const card = element("div", { className: "card verdict" },
      element("p", { className: "head" }, chip, element("span", { className: "name" }, `run ${run.run}`)),
      element("p", { className: "says" }, `${run.says[0].toUpperCase()}${run.says.slice(1)} ` +
        `It is right at ${sampled(run.final / 100)} of sampled positions.`),
      ...answers, this.lines(run.evidence), ...(run.against.length ? ["Against it:", this.lines(run.against)] : []));
    card.style.setProperty("--label", colour);
    this.verdict.replaceChildren(card);
  }

  lines(sentences) {
    return element("ul", { className: "evidence" }, ...sentences.map((line) => element("li", {}, line)));
  }

  bar(words, [value, low, high]) {
    const inner = element("i", { className: `share-${words}` });
    inner.style.width = `${100 * Math.min(Math.max(value, 0), 1)}%`;
    const number = `${fixed(value, 2)} (${fixed(low, 2)} to ${fixed(high, 2)})`;
    return [element("span", {}, words), element("span", { className: "bar" }, inner),
      element("span", { className: "number" }, number)];
  }

  table(cell) {
    const heads = ["run", "verdict", "accuracy", "best", "RC", "IC", "gated", "proved", "seed"];
    const share = (run, name) => {
      const estimate = (run.estimates || []).find(([known]) => known === name);
      return estimate ? fixed(estimate[1], 2) : "–";
    };
    const rows = cell.runs.map((run) => {
      const open = element("button", { type: "button" }, String(run.run));
      open.setAttribute("aria-label", `show the verdict on run ${run.run}`);
      open.addEventListener("click", () => this.choose(run));
      const texts = [run.mechanism || "–", sampled(run.final / 100), sampled(run.best / 100), share(run, "RC"), share(run, "IC"),
        share(run, "gated"), run.proved === undefined ? "–" : percent(run.proved), String(run.seed)];
      const row = element("tr", {}, element("td", {}, open), ...texts.map((text) => element("td", {}, text)));
      this.rows.push([run, row]);
      return row;
    });
    const head = element("tr", {}, ...heads.map((text) => element("th", {}, text)));
    return element("div", { className: "scroll" }, element("table", { className: "summary" }, head, ...rows));
  }

  keepSequence() {
    if (this.panel) this.tokens = { T: this.panel.config.T, L: this.panel.config.L, values: [...this.panel.tokens] };
    this.panel = null;
  }

  /* Runs the model on the sequence that was typed last. */
  run(cell, maps) {
    if (!cell.live) {
      this.live.replaceChildren(...this.whyNot(cell, maps));
      return;
    }
    const payload = JSON.parse(document.getElementById(cell.live.id).textContent);
    const home = element("div");
    const note = `This is ${cell.live.about}. Its weights are rounded to half precision in this page, so its ` +
      "answers may differ slightly from the run's. Type a sequence; it is kept when you choose another cell.";
    this.live.replaceChildren(element("p", { className: "note" }, note), home);
    const { T, L } = payload.config, kept = this.tokens && this.tokens.T === T && this.tokens.L === L;
    this.panel = new LivePanel(home, new CountingModel(payload), { tokens: kept ? this.tokens.values : null });
  }

  whyNot(cell, maps) {
    if (this.atlas.live === 0) {
      const text = "This atlas was made without checkpoints, so no model runs in it. `interp atlas DIR`, on the folder of a " +
        "sweep with checkpoints, makes one with live models.";
      return [element("p", { className: "note" }, text)];
    }
    const far = (other) => Math.abs(Math.log(other.d / cell.d)) + Math.abs(Math.log(other.p / cell.p));
    const near = maps.setting.cells.filter((other) => other.model === cell.model && other.live)
      .sort((a, b) => far(a) - far(b)).slice(0, 3);
    const links = near.map((other) => this.link(other, `d = ${other.d}, p = ${other.p}`));
    const text = "The page does not carry the weights of this cell." + (links.length ? " The nearest that run here:" : "");
    return [element("p", { className: "note" }, text), element("div", { className: "same" }, ...links)];
  }
}

/* The URL stores the state, so that a view can be shared: #model=bos+sftm&d=45&p=2, and `view` and `setting` if they are not
 * the defaults. A plus means a plus, not a space. */

function readAddress(hash) {
  const state = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at < 1) continue;
    try {
      state[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    } catch {
      continue; // a truncated escape, as some mail programs leave
    }
  }
  return state;
}

function writeAddress(state) {
  const parts = Object.entries(state).filter(([, value]) => value !== null && value !== undefined);
  return "#" + parts.map(([key, value]) => `${key}=${encodeURIComponent(value).replace(/%2B/g, "+")}`).join("&");
}

class Atlas {
  constructor(data) {
    this.data = data;
    this.maps = new Maps(document.getElementById("maps"), data, (cell, how) => this.open(cell, how));
    this.view = new CellView(document.getElementById("cell"), data, (cell) => this.open(cell, "click"));
    this.state = {};
    this.buildControls();
    window.addEventListener("popstate", () => this.follow(location.hash));
    document.addEventListener("keydown", (event) => {
      if (event.target === document.body) this.maps.walk(event, this.cell);
    });
    this.follow(location.hash);
  }

  get setting() {
    return this.data.settings.find((setting) => setting.name === this.state.setting) || this.data.settings[0];
  }

  /* The default view of a setting. */
  firstView(setting) {
    return setting.classified ? "mechanism" : "accuracy";
  }

  buildControls() {
    const select = document.querySelector("#settings select");
    select.append(...this.data.settings.map(({ name, label }) => element("option", { value: name }, label)));
    select.addEventListener("change", () => this.change({ setting: select.value }));
    document.getElementById("settings").hidden = this.data.settings.length === 1;
    this.views = Object.entries(VIEWS).map(([name, { title }]) => {
      const button = element("button", { type: "button" }, title);
      button.addEventListener("click", () => this.change({ view: name }));
      return [name, button];
    });
    document.getElementById("views").append(...this.views.map(([, button]) => button));
  }

  open(cell, how) {
    this.change({ model: cell.model, d: cell.d, p: cell.p }, how === "walk" ? "replace" : "push");
    this.maps.mark(cell, true);
    const narrow = window.matchMedia("(max-width: 1000px)").matches;
    if (narrow && how === "click") document.getElementById("cell").scrollIntoView();
  }

  change(changes, how = "push") {
    const state = { ...this.state, ...changes };
    if (state.setting === this.data.settings[0].name) delete state.setting;
    const setting = this.data.settings.find(({ name }) => name === state.setting) || this.data.settings[0];
    if (state.view === this.firstView(setting)) delete state.view;
    const { model, d, p, view, setting: name } = state;
    const address = writeAddress({ model, d, p, view, setting: name });
    if (address !== location.hash) history[`${how}State`](null, "", address);
    this.follow(address);
  }

  /* Shows the state in an address. What is missing or invalid there has its default. */
  follow(address) {
    const before = this.setting;
    this.state = readAddress(address);
    const setting = this.setting;
    const known = (view) => Object.hasOwn(VIEWS, view) && setting.cells.some((cell) => VIEWS[view].there(cell));
    const view = known(this.state.view) ? this.state.view : this.firstView(setting);
    if (!this.shown || before !== setting) {
      document.querySelector("#settings select").value = setting.name;
      this.tell(setting);
    }
    if (this.shown !== view || before !== setting) {
      const focused = this.maps.root.contains(document.activeElement);
      this.maps.show(setting, view);
      this.maps.mark(this.cell, focused);
      this.shown = view;
    }
    drawLegend(document.getElementById("legend"), view);
    for (const [name, button] of this.views) {
      button.setAttribute("aria-pressed", String(name === view));
      button.disabled = !known(name);
    }
    this.openCell();
  }

  openCell() {
    const { model, d, p } = this.state;
    const cell = this.maps.find(model, d, p);
    if (cell && cell === this.cell) return;
    this.cell = cell;
    this.maps.mark(cell, this.maps.root.contains(document.activeElement)); // focus follows, also when going back
    if (cell) this.view.show(cell, this.maps);
    else if (model && d && p) this.view.empty(`${model}, d = ${d}, p = ${p}: no run.`, this.maps);
    else this.openFirst();
  }

  /* Without a chosen cell: a live one as an example, else the one with the most runs. The address does not change. */
  openFirst() {
    const { cells } = this.maps.setting;
    const first = cells.find((cell) => cell.live && cell.main === "RC") || cells.find((cell) => cell.live) ||
      [...cells].sort((a, b) => b.runs.length - a.runs.length)[0];
    this.cell = first;
    this.maps.mark(first, false);
    this.view.show(first, this.maps);
  }

  tell(setting) {
    const live = setting.cells.filter((cell) => cell.live).length;
    const parts = ["Each square is a model size: click one to see how it counts. A marked corner means that the model runs here.",
      `${setting.runs.toLocaleString("en")} runs in ${setting.cells.length.toLocaleString("en")} cells of ` +
      `${this.data.source}: ${setting.label}. ${setting.classified.toLocaleString("en")} are classified, ` +
      `${setting.verified.toLocaleString("en")} have a proof attempt.`];
    parts.push(live ? `${live} models run in this page, their weights rounded to half precision.` : this.data.live ?
      `None of these models runs in this page; ${this.data.live} of other settings do.` :
      "No model runs in this page: it was made without checkpoints.");
    parts.push("Empty cells have no run; nothing is interpolated. Dashed lines: d = T and p = T.");
    document.getElementById("about").textContent = parts.join(" ");
  }
}

window.atlas = new Atlas(JSON.parse(document.getElementById("atlas").textContent));
