"use strict";
/* The live models of a report: a panel for each, one field for all with the same T and L, and the rows of tokens that are
 * clicked in the figure of the verdict. */

/* One field for all models with the T and L of the first; the others keep their own fields only. */
function shareSequence(home, panels) {
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
      for (const panel of same) panel.explain(error.message);
    }
  });
  const text = same.length === panels.length ? "Sequence for all models" : `Sequence for the models with T = ${T}, L = ${L}`;
  home.replaceChildren(element("label", { className: "field wide" }, text, input), problem);
}

/* A sequence for a row of tokens (t, s, q, ...) of the verdict's figure: three of t, two of s, and others. */
function sequenceOf([t, s, ...others], { T, L }) {
  const rest = [...others, ...Array.from({ length: T }, (_, token) => token)].filter((token) => token !== t && token !== s);
  return [t, t, s, t, s, ...rest].slice(0, L);
}

const panels = [...document.querySelectorAll("[data-live]")].map((root) => {
  const payload = JSON.parse(document.getElementById(root.dataset.live).textContent);
  return (root.panel = new LivePanel(root, new CountingModel(payload), { wrong: payload.wrong }));
});
window.addEventListener("pair", ({ detail }) => {
  for (const panel of panels) if (Math.max(...detail) < panel.config.T) panel.setTokens(sequenceOf(detail, panel.config));
  if (panels.length) panels[0].root.scrollIntoView({ behavior: "smooth" });
});
document.querySelectorAll("[data-shared]").forEach((home) => shareSequence(home, panels));
