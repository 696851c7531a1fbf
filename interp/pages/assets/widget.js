"use strict";
/* The live model in a notebook: an anywidget. `sequence` and `position` are synchronised with Python; results are not. */

/* Light or dark, by the first visible background behind the widget. An element outside a page has none. */
function themeOf(node) {
  for (let at = node; at; at = at.parentElement || (at.getRootNode().host ?? null)) {
    const colour = getComputedStyle(at).backgroundColor.match(/[\d.]+/g) || [0, 0, 0, 0];
    const [r, g, b, opacity = 1] = colour.map(Number);
    if (opacity > 0.5) return 0.299 * r + 0.587 * g + 0.114 * b < 128 ? "dark" : "light";
  }
  return window.matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

export default {
  render({ model, el }) {
    const home = element("div", { className: "counting-live" }), payload = model.get("payload");
    home.dataset.lmSuppressShortcuts = "true"; // else Jupyter reads a D typed on a tile as half of "delete this cell"
    el.append(home);
    const setTheme = () => { home.dataset.theme = themeOf(el); };
    const placed = new ResizeObserver(setTheme), switched = new MutationObserver(setTheme);
    setTheme();
    placed.observe(home); // Jupyter attaches it to the page after this function
    for (const node of [document.documentElement, document.body]) switched.observe(node, { attributes: true });
    const panel = new LivePanel(home, new CountingModel(payload), {
      tokens: parseTokens(model.get("sequence"), payload.config),
      selected: model.get("position"),
      changed: ({ tokens, selected }) => {
        model.set("sequence", writeTokens(tokens, payload.config));
        model.set("position", selected);
        model.save_changes();
      },
    });
    const follow = () => {
      const text = model.get("sequence");
      if (text !== writeTokens(panel.tokens, payload.config)) panel.setTokens(parseTokens(text, payload.config));
      if (model.get("position") !== panel.selected) panel.select(model.get("position"));
    };
    model.on("change:sequence", follow);
    model.on("change:position", follow);
    home.panel = panel;
    return () => {
      placed.disconnect();
      switched.disconnect();
      model.off("change:sequence", follow);
      model.off("change:position", follow);
    };
  },
};
