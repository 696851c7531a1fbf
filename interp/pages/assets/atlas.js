"use strict";
/* The atlas: maps, the chosen cell, and the address that keeps them. */

/* The address keeps the state, so that a view can be sent to a colleague: #model=bos+sftm&d=45&p=2, and `view` and
 * `setting` where they are not what the page begins with. A plus is a plus, other than in forms. */

function readAddress(hash) {
  const state = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const at = part.indexOf("=");
    if (at < 1) continue;
    try {
      state[part.slice(0, at)] = decodeURIComponent(part.slice(at + 1));
    } catch {
      continue; // half an escape, as mail programs leave them
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

  /* What the page begins with: the first thing that this setting knows. */
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

  /* Show what an address says; what it does not say, or says wrongly, is as at the beginning. */
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
    this.maps.mark(cell, this.maps.root.contains(document.activeElement)); // focus goes along, also backwards
    if (cell) this.view.show(cell, this.maps);
    else if (model && d && p) this.view.empty(`${model}, d = ${d}, p = ${p}: no run.`, this.maps);
    else this.openFirst();
  }

  /* Nothing was asked for: a cell that runs here, as an example; else the one with the most runs. The address stays. */
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
    const parts = ["Each square is a size of network: click one to see how it counts, and run it where a corner is marked.",
      `${setting.runs.toLocaleString("en")} runs in ${setting.cells.length.toLocaleString("en")} cells of ` +
      `${this.data.source}: ${setting.label}. ${setting.classified.toLocaleString("en")} are classified, ` +
      `${setting.verified.toLocaleString("en")} were put to the proof.`];
    parts.push(live ? `${live} models run in this page, their weights rounded to half precision.` : this.data.live ?
      `None of these models runs in this page; ${this.data.live} of other settings do.` :
      "No model runs in this page: it was made without checkpoints.");
    parts.push("Empty cells have no run; nothing is interpolated. Dashed lines: d = T and p = T.");
    document.getElementById("about").textContent = parts.join(" ");
  }
}

window.atlas = new Atlas(JSON.parse(document.getElementById("atlas").textContent));
