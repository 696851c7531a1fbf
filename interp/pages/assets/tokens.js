"use strict";
/* Tokens as people write them: A is 0, B is 1, ..., as in models/letters.py. */

const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

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

function writeTokens(tokens, { T }) {
  return T <= LETTERS.length ? tokens.map((token) => label(token, T)).join("") : tokens.join(" ");
}

function exampleTokens({ L, T }) {
  if (L === 10 && T >= 5) return [1, 1, 2, 1, 1, 1, 3, 4, 4, 4];
  const tokens = [];
  for (let kind = 1; tokens.length < L; kind++) {
    const block = Math.ceil((L - tokens.length) / 2);
    for (let i = 0; i < block; i++) tokens.push(kind % T);
  }
  return tokens;
}

/* Of few or of many different tokens, so that all counts occur. */
function randomTokens({ L, T }) {
  const below = (n) => Math.floor(Math.random() * n);
  const kinds = Array.from({ length: 1 + below(Math.min(L, T)) }, () => below(T));
  return Array.from({ length: L }, () => kinds[below(kinds.length)]);
}

/* How often the token at a position occurs; for causal models, up to there. */
function trueCounts(tokens, { causal }) {
  return tokens.map((token, i) => (causal ? tokens.slice(0, i + 1) : tokens).filter((other) => other === token).length);
}
