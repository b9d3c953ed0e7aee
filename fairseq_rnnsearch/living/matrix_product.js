"use strict";
/*
 * Products of a matrix with several vectors at once: y = W x, in float32.
 *
 * A translation spends nearly all its time here. All hypotheses of a beam are multiplied together:
 * each weight is read once for up to AT_ONCE of them. The inner loop is a small WebAssembly module,
 * matrix_product.wat, which computes four numbers at a time, some ten times as fast as a loop in
 * JavaScript. MATRIX_PRODUCT has the module's bytes in base64.
 */
const AT_ONCE = 5; // vectors: the default beam; two rows of each fit into sixteen registers
const PAGE = 65536; // bytes, the unit in which WebAssembly counts memory

const upTo = (value, multiple) => Math.ceil(value / multiple) * multiple;

/** Memory that matrices and the vectors of one product share. */
class Products {
  constructor() {
    this.used = 0;
    this.memory = new WebAssembly.Memory({ initial: 1 });
    const compiled = new WebAssembly.Module(bytesOf(MATRIX_PRODUCT));
    this.kernels = new WebAssembly.Instance(compiled, { m: { memory: this.memory } }).exports;
  }

  /** Reserve room for so many numbers, and return its first byte. */
  reserve(numbers) {
    const start = this.used;
    this.used = upTo(start + 4 * numbers, 16);
    const missing = this.used - this.memory.buffer.byteLength;
    if (missing > 0) this.memory.grow(Math.ceil(missing / PAGE));
    return start;
  }

  numbers(start, length) {
    return new Float32Array(this.memory.buffer, start, length);
  }

  /** Keep a matrix, given as its rows one after the other. */
  matrix(rows, columns, values) {
    const wide = upTo(columns, 4), high = upTo(rows, 2), start = this.reserve(high * wide);
    const stored = this.numbers(start, high * wide).fill(0);
    for (let r = 0; r < rows; r++) {
      stored.set(values.subarray(r * columns, (r + 1) * columns), r * wide);
    }
    return { rows, columns, wide, high, start };
  }

  /** Return W x for each of the vectors that stand one after the other in x. */
  multiply(W, x) {
    const { rows, columns, wide, high } = W, vectors = x.length / columns;
    const y = new Float32Array(vectors * rows);
    if (!this.capacity || this.capacity < AT_ONCE * (wide + high)) {
      this.capacity = AT_ONCE * (wide + high);
      this.scratch = this.reserve(this.capacity);
    }
    const outputs = this.scratch + 4 * AT_ONCE * wide;
    for (let begin = 0; begin < vectors; begin += AT_ONCE) {
      const some = Math.min(AT_ONCE, vectors - begin);
      const inputs = this.numbers(this.scratch, some * wide).fill(0);
      for (let v = 0; v < some; v++) {
        inputs.set(x.subarray((begin + v) * columns, (begin + v + 1) * columns), v * wide);
      }
      // with fewer than five, it also multiplies leftovers, and nobody reads the results
      const times = some === 1 ? this.kernels.times1 : this.kernels.times5;
      times(W.start, this.scratch, outputs, 4 * wide, 4 * high, high);
      const results = this.numbers(outputs, some * high);
      for (let v = 0; v < some; v++) {
        y.set(results.subarray(v * high, v * high + rows), (begin + v) * rows);
      }
    }
    return y;
  }
}
