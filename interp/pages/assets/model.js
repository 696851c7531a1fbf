"use strict";
/* The counting transformer in plain JavaScript: the same equations as models/blocks.py, tested equal to torch.
 *
 *   mixed_l = x_l + sum_h sum_m A^h_lm n(x_m) W_V^h W_O^h      A constant (lin), or queries and keys / sqrt(d_head)
 *   out_l   = activation(n(mixed_l) W_in + b_in) W_out + b_out
 *
 * In the paper's models there is one head, W_V W_O and n are the identity, and the activation is a ReLU.
 * Matrices are {rows, cols, data} with row-major data, one for each head where there are heads; vectors are plain
 * arrays. `$` is token T, added here. */

/* A list of matrices, one for each head or a single one; a vector is a matrix of one row. */
function decodeMatrices({ shape, base64, half }) {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const data = half ? fromHalves(new Uint16Array(bytes.buffer)) : new Float32Array(bytes.buffer);
  const [heads, rows, cols] = [1, 1, ...shape].slice(-3);
  return Array.from({ length: heads }, (_, head) =>
    ({ rows, cols, data: data.subarray(head * rows * cols, (head + 1) * rows * cols) }));
}

/* Decodes half precision: a sign, five bits of exponent, ten of fraction. All values are finite. */
function fromHalves(words) {
  return Float32Array.from(words, (word) => {
    const exponent = (word >> 10) & 31, fraction = (word & 1023) / 1024;
    const size = exponent === 0 ? fraction * 2 ** -14 : (1 + fraction) * 2 ** (exponent - 15);
    return word & 0x8000 ? -size : size;
  });
}

function rowOf(matrix, index) {
  return Array.from(matrix.data.subarray(index * matrix.cols, (index + 1) * matrix.cols));
}

function timesMatrix(vector, matrix) {
  const out = new Array(matrix.cols).fill(0);
  for (let i = 0; i < matrix.rows; i++) {
    const factor = vector[i];
    if (factor === 0) continue;
    const start = i * matrix.cols;
    for (let j = 0; j < matrix.cols; j++) out[j] += factor * matrix.data[start + j];
  }
  return out;
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function addScaled(a, factor, b) {
  return a.map((value, i) => value + factor * b[i]);
}

function softmax(row) {
  const largest = Math.max(...row);
  const exponentials = row.map((value) => Math.exp(value - largest));
  const total = exponentials.reduce((sum, value) => sum + value, 0);
  return exponentials.map((value) => value / total);
}

function argmax(values) {
  return values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}

/* LayerNorm: mean zero, variance one, then gain and bias; the identity if the block has no norm. */
function normalise(row, gain, bias) {
  if (!gain) return row;
  const mean = row.reduce((sum, value) => sum + value, 0) / row.length;
  const centred = row.map((value) => value - mean);
  const scale = Math.sqrt(dot(centred, centred) / row.length + 1e-5);
  return centred.map((value, i) => (value / scale) * gain[0].data[i] + bias[0].data[i]);
}

/* x times the normal distribution function, by Abramowitz and Stegun 7.1.26 (error below 1.5e-7). */
function gelu(x) {
  const z = Math.abs(x) / Math.SQRT2, t = 1 / (1 + 0.3275911 * z);
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const tail = (series * Math.exp(-z * z)) / 2;
  return x * (x < 0 ? tail : 1 - tail);
}

const ACTIVATIONS = { relu: (x) => Math.max(0, x), gelu };

class CountingModel {
  constructor(payload) {
    this.config = payload.config;
    this.hasBos = this.config.mixing === "bos";
    this.firstCount = this.config.n_classes === this.config.L ? 1 : 0;
    this.activation = ACTIVATIONS[this.config.activation];
    this.blocks = Array.from({ length: this.config.n_layers }, () => ({}));
    for (const [name, packed] of Object.entries(payload.weights)) {
      const parts = name.split("."), matrices = decodeMatrices(packed);
      if (parts[0] === "blocks") this.blocks[Number(parts[1])][parts.slice(2).join(".")] = matrices;
      else if (parts[1] === "W_E") this.embeddings = matrices[0];
      else this.positions = matrices[0];
    }
  }

  /* The embedding of a token, plus that of its position if there are any; `$` is position 0. */
  embedding(token, position = null) {
    const row = rowOf(this.embeddings, token);
    return this.positions && position !== null ? addScaled(row, 1, rowOf(this.positions, position)) : row;
  }

  /* The attention pattern [query][key] of each head of a block; `x` is the output of its norm. */
  patterns(block, x) {
    const { n_heads: heads, d, causal } = this.config;
    return Array.from({ length: heads }, (_, head) => {
      let scores;
      if (block["attn.A"]) {
        scores = x.map((_, query) => rowOf(block["attn.A"][head], query));
      } else {
        const scale = Math.sqrt(d / heads);
        const queries = x.map((row) => timesMatrix(row, block["attn.W_Q"][head]));
        const keys = x.map((row) => timesMatrix(row, block["attn.W_K"][head]));
        scores = queries.map((query) => keys.map((key) => dot(query, key) / scale));
      }
      const none = this.config.softmax ? -Infinity : 0;
      if (causal) scores = scores.map((row, query) => row.map((score, key) => (key > query ? none : score)));
      return this.config.softmax ? scores.map(softmax) : scores;
    });
  }

  setWeight(patterns, { head, query, key, weight }) {
    patterns.forEach((pattern, number) => {
      if (head !== null && head !== number) return;
      const rest = 1 - pattern[query][key];
      const factor = this.config.softmax && rest > 1e-12 ? (1 - weight) / rest : 1;
      pattern[query] = pattern[query].map((value, i) => (i === key ? weight : value * factor));
    });
  }

  /* The output of a head that attends to one position only, with weight 1. */
  written(block, head, x) {
    return block["attn.W_V"] ? timesMatrix(timesMatrix(x, block["attn.W_V"][head]), block["attn.W_O"][head]) : x;
  }

  feedForward(layer, mixed) {
    const block = this.blocks[layer];
    const read = normalise(mixed, block["ln2.w"], block["ln2.b"]);
    const pre = addScaled(timesMatrix(read, block["mlp.W_in"][0]), 1, rowOf(block["mlp.b_in"][0], 0));
    const hidden = pre.map(this.activation);
    const out = addScaled(timesMatrix(hidden, block["mlp.W_out"][0]), 1, rowOf(block["mlp.b_out"][0], 0));
    return { pre, hidden, out };
  }

  /* The predicted count. */
  count(logits) {
    return argmax(logits) + this.firstCount;
  }

  /* The two best counts, {count, share}, with their probabilities. */
  ranked(logits) {
    const shares = softmax(logits), best = argmax(logits);
    const second = argmax(logits.map((value, i) => (i === best ? -Infinity : value)));
    return [best, second].map((i) => ({ count: i + this.firstCount, share: shares[i] }));
  }

  /* Runs a sequence of L tokens.
   * `swap` = {position, token} patches another token into one position of the first block, after the attention pattern is
   * computed: into the residual stream, and into the position's own value in every head.
   * `edit` = {layer, head, query, key, weight} sets one weight of a pattern, in all heads if `head` is null. Under a
   * softmax the other weights of the row are rescaled, so that the row still adds up to one.
   * Each layer of the result has `patterns` by head, and their mean as `pattern`. */
  run(tokens, swap = null, edit = null) {
    const shift = this.hasBos ? 1 : 0;
    const sequence = this.hasBos ? [this.config.T, ...tokens] : [...tokens];
    let x = sequence.map((token, position) => this.embedding(token, position));
    const layers = [];
    for (let layer = 0; layer < this.blocks.length; layer++) {
      const block = this.blocks[layer];
      const norm = (row) => normalise(row, block["ln1.w"], block["ln1.b"]);
      const read = x.map(norm);
      const patterns = this.patterns(block, read);
      if (edit !== null && edit.layer === layer) this.setWeight(patterns, edit);
      const mixed = x.map((row) => [...row]);
      patterns.forEach((pattern, head) => {
        const values = read.map((row) => this.written(block, head, row));
        pattern.forEach((row, query) => row.forEach((weight, key) => {
          mixed[query] = addScaled(mixed[query], weight, values[key]);
        }));
      });
      if (swap !== null && layer === 0) {
        const here = swap.position + shift;
        const other = this.embedding(swap.token, here);
        const change = addScaled(norm(other), -1, read[here]);
        mixed[here] = addScaled(addScaled(mixed[here], 1, other), -1, x[here]);
        patterns.forEach((pattern, head) => {
          mixed[here] = addScaled(mixed[here], pattern[here][here], this.written(block, head, change));
        });
      }
      const results = mixed.map((row) => this.feedForward(layer, row));
      const pattern = patterns[0].map((row, query) =>
        row.map((_, key) => patterns.reduce((sum, ofHead) => sum + ofHead[query][key], 0) / patterns.length));
      const [pre, hidden] = [results.map((r) => r.pre), results.map((r) => r.hidden)];
      layers.push({ pattern, patterns, mixed, pre, hidden });
      x = results.map((r) => r.out);
    }
    const logits = x.slice(shift);
    return { layers, logits, counts: logits.map((row) => this.count(row)), shift };
  }

  /* Why `isolated` is not defined for this model; null if it is. */
  get whyNotIsolated() {
    const { n_layers, n_heads, values, layer_norm, positions } = this.config;
    if (n_layers > 1) return "Defined for one-layer models only: here a second block follows.";
    if (n_heads === 1 && !values && !layer_norm && !positions) return null;
    return "Defined for the paper's blocks only: here the feed-forward layer reads no mixture of embeddings.";
  }

  /* Logits of the feed-forward layer alone, on sum_i weights[i] * e_tokens[i]. */
  isolated(tokens, weights) {
    const block = this.blocks[0];
    this.read ||= new Map();
    let pre = rowOf(block["mlp.b_in"][0], 0);
    tokens.forEach((token, i) => {
      if (!this.read.has(token)) this.read.set(token, timesMatrix(this.embedding(token), block["mlp.W_in"][0]));
      pre = addScaled(pre, weights[i], this.read.get(token));
    });
    return addScaled(timesMatrix(pre.map(this.activation), block["mlp.W_out"][0]), 1, rowOf(block["mlp.b_out"][0], 0));
  }
}

if (typeof module !== "undefined") module.exports = { CountingModel };

/* Tokens as people write them: A is 0, B is 1, ..., as in models/task.py. */

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

/* `BBCBBBDEEE`, or numbers separated by commas or spaces. Throws an error whose message is for the reader. */
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

/* A random sequence, of few or of many different tokens, so that all counts occur. */
function randomTokens({ L, T }) {
  const below = (n) => Math.floor(Math.random() * n);
  const kinds = Array.from({ length: 1 + below(Math.min(L, T)) }, () => below(T));
  return Array.from({ length: L }, () => kinds[below(kinds.length)]);
}

/* How often the token at each position occurs; for causal models, up to that position. */
function trueCounts(tokens, { causal }) {
  return tokens.map((token, i) => (causal ? tokens.slice(0, i + 1) : tokens).filter((other) => other === token).length);
}
