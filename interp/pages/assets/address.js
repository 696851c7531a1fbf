"use strict";
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

if (typeof module !== "undefined") module.exports = { readAddress, writeAddress };
