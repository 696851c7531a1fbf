"use strict";
/* The counting transformer in plain JavaScript: the same equations as models/blocks.py, tested equal to torch.
 *
 *   mixed_l = x_l + sum_m A_lm x_m          A constant (lin), or x W_Q W_K^T x^T / sqrt(d) (dot, bos), softmax or not
 *   out_l   = ReLU(mixed_l W_in + b_in) W_out + b_out
 *
 * Matrices are {rows, cols, data} with row-major data; vectors are plain arrays. `$` is token T, added here. */

function decodeMatrix({ shape, base64 }) {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const data = new Float32Array(bytes.buffer);
  const [rows, cols] = shape.length === 2 ? shape : [1, shape[0]];
  return { rows, cols, data };
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

class CountingModel {
  constructor(payload) {
    this.config = payload.config;
    this.embeddings = decodeMatrix(payload.weights["embed.W_E"]);
    this.hasBos = this.config.mixing === "bos";
    this.firstCount = this.config.n_classes === this.config.L ? 1 : 0;
    this.blocks = [];
    for (let layer = 0; layer < this.config.n_layers; layer++) {
      const block = {};
      for (const name of ["attn.A", "attn.W_Q", "attn.W_K", "mlp.W_in", "mlp.b_in", "mlp.W_out", "mlp.b_out"]) {
        const packed = payload.weights[`blocks.${layer}.${name}`];
        if (packed) block[name.split(".")[1]] = decodeMatrix(packed);
      }
      this.blocks.push(block);
    }
  }

  embedding(token) {
    return rowOf(this.embeddings, token);
  }

  /* The pattern [query][key] with which positions mix in one block. */
  pattern(block, x) {
    let scores;
    if (block.A) {
      scores = x.map((_, query) => rowOf(block.A, query));
    } else {
      const scale = Math.sqrt(this.config.d);
      const queries = x.map((row) => timesMatrix(row, block.W_Q));
      const keys = x.map((row) => timesMatrix(row, block.W_K));
      scores = queries.map((query) => keys.map((key) => dot(query, key) / scale));
    }
    return this.config.softmax ? scores.map(softmax) : scores;
  }

  feedForward(layer, mixed) {
    const block = this.blocks[layer];
    const pre = addScaled(timesMatrix(mixed, block.W_in), 1, rowOf(block.b_in, 0));
    const hidden = pre.map((value) => Math.max(0, value));
    const out = addScaled(timesMatrix(hidden, block.W_out), 1, rowOf(block.b_out, 0));
    return { pre, hidden, out };
  }

  /* The count that a vector of logits stands for. */
  count(logits) {
    return argmax(logits) + this.firstCount;
  }

  /* Run a sequence of L tokens. `swap` = {position, token} tells the feed-forward layer of the first block, at that
   * position, that it holds another token: mixed += (1 + A_ll)(e_other - e_own). Attention has compared already. */
  run(tokens, swap = null) {
    const shift = this.hasBos ? 1 : 0;
    const sequence = this.hasBos ? [this.config.T, ...tokens] : [...tokens];
    let x = sequence.map((token) => this.embedding(token));
    const layers = [];
    for (let layer = 0; layer < this.blocks.length; layer++) {
      const pattern = this.pattern(this.blocks[layer], x);
      const mixed = pattern.map((row, query) =>
        row.reduce((sum, weight, key) => addScaled(sum, weight, x[key]), [...x[query]]));
      if (swap !== null && layer === 0) {
        const here = swap.position + shift;
        const difference = addScaled(this.embedding(swap.token), -1, x[here]);
        mixed[here] = addScaled(mixed[here], 1 + pattern[here][here], difference);
      }
      const results = mixed.map((row) => this.feedForward(layer, row));
      layers.push({ pattern, mixed, pre: results.map((r) => r.pre), hidden: results.map((r) => r.hidden) });
      x = results.map((r) => r.out);
    }
    const logits = x.slice(shift);
    return { layers, logits, counts: logits.map((row) => this.count(row)), shift };
  }

  /* The first feed-forward layer alone, on sum_i weights[i] * e_tokens[i]. Only for one-layer models. */
  isolated(tokens, weights) {
    let mixed = new Array(this.config.d).fill(0);
    tokens.forEach((token, i) => { mixed = addScaled(mixed, weights[i], this.embedding(token)); });
    return this.count(this.feedForward(0, mixed).out);
  }
}

if (typeof module !== "undefined") module.exports = { CountingModel };
