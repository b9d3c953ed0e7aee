"use strict";
/*
 * A checkpoint's parameters as living_page.py writes them: matrices in 8 bits with one scale per
 * row, or in float32; vectors in float32. All are base64, little-endian.
 */

/** Return the bytes of a base64 text. */
function bytesOf(base64) {
  const text = atob(base64), bytes = new Uint8Array(text.length);
  for (let k = 0; k < bytes.length; k++) bytes[k] = text.charCodeAt(k);
  return bytes;
}

const floatsOf = (base64) => new Float32Array(bytesOf(base64).buffer);

/** Looks up parameters by name, after a prefix. */
class Parameters {
  constructor(tensors, products, prefix = "") {
    this.tensors = tensors;
    this.products = products;
    this.prefix = prefix;
    this.multiply = (W, x) => products.multiply(W, x);
  }

  of(prefix) {
    return new Parameters(this.tensors, this.products, this.prefix + prefix);
  }

  vector(name) {
    return floatsOf(this.tensors[this.prefix + name].values);
  }

  /** Return a matrix for products, or null if the model has none of this name. */
  matrix(name) {
    const tensor = this.tensors[this.prefix + name];
    if (!tensor) return null;
    const [rows, columns] = tensor.shape, row = this.rows(name);
    const all = new Float32Array(rows * columns);
    for (let r = 0; r < rows; r++) all.set(row(r), r * columns);
    return this.products.matrix(rows, columns, all);
  }

  /** Return a function that gives a row of a matrix by its number. */
  rows(name) {
    const { shape: [, columns], values, scales } = this.tensors[this.prefix + name];
    if (!scales) {
      const all = floatsOf(values);
      return (row) => all.subarray(row * columns, (row + 1) * columns);
    }
    const all = new Int8Array(bytesOf(values).buffer), scale = floatsOf(scales);
    return (row) => {
      const numbers = new Float32Array(columns), start = row * columns;
      for (let k = 0; k < columns; k++) numbers[k] = all[start + k] * scale[row];
      return numbers;
    };
  }
}
