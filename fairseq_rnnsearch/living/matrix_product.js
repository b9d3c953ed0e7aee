"use strict";
/*
 * Products of a matrix with several vectors at once: y = W x, in float32.
 *
 * Nearly all of the time of a translation is spent here. All hypotheses of a beam are multiplied
 * together, so that a weight is read once for up to AT_ONCE of them. The inner loop is a small
 * WebAssembly module, four numbers at a time, which `kernel` assembles below: browsers run it some
 * ten times as fast as the same loop in JavaScript. Where there is no WebAssembly or it has no
 * such instructions, the loop in JavaScript runs.
 */
const AT_ONCE = 6; // vectors; two rows of each are in registers, of which processors have sixteen
const PAGE = 65536; // bytes, the unit in which WebAssembly counts memory

// --- the inner loop, assembled -------------------------------------------------------------------

const number = (value) => { // LEB128, signed, as WebAssembly writes its constants
  const bytes = [];
  for (;;) {
    const low = value & 127;
    value >>= 7;
    const ends = (value === 0 && !(low & 64)) || (value === -1 && low & 64);
    bytes.push(ends ? low : low | 128);
    if (ends) return bytes;
  }
};
const count = (value) => (value < 128 ? [value] : [(value & 127) | 128, ...count(value >> 7)]);
const list = (items) => [...count(items.length), ...items.flat()];
const section = (id, items) => {
  const body = list(items);
  return [id, ...count(body.length), ...body];
};

const I32 = 0x7f, V128 = 0x7b;
const get = (local) => [0x20, ...count(local)];
const set = (local) => [0x21, ...count(local)];
const constant = (value) => [0x41, ...number(value)];
const add = [0x6a], subtract = [0x6b], lessThan = [0x49]; // of i32
const loop = (body) => [0x03, 0x40, ...body, 0x0b];
const again = [0x0d, 0]; // go on with the innermost loop if the value on the stack is not zero
const loadFour = [0xfd, 0x00, 2, 0], storeOne = (offset) => [0x38, 2, ...count(offset)];
const zeros = [0xfd, 0x0c, ...new Array(16).fill(0)];
const timesFour = [0xfd, ...count(0xe6)], plusFour = [0xfd, ...count(0xe4)];
const lane = (k) => [0xfd, 0x1f, k], plusOne = [0x92]; // of f32

/**
 * Return the code that multiplies a matrix with `vectors` vectors, two rows at a time.
 *
 * Its parameters are addresses in bytes of W, x and y, the bytes of a row of W (of all vectors x as
 * well), the bytes between two vectors of y, and the number of rows, which is even.
 */
function kernel(vectors) {
  const [w, x, y, row, stride, rows] = [0, 1, 2, 3, 4, 5];
  const [k, next, out] = [6, 7, 8]; // bytes of the row that are done, the second row, a place in y
  const input = (v) => 9 + v; // where each vector begins
  const first = 9 + vectors, sum = (r, v) => first + 2 + r * vectors + v; // first + r: the weights
  const each = (body) => Array.from({ length: vectors }, (_, v) => body(v)).flat();
  const move = (local, by) => [...get(local), ...by, ...add, ...set(local)];
  const fourColumns = [
    ...[w, next].flatMap((row, r) =>
      [...get(row), ...get(k), ...add, ...loadFour, ...set(first + r)]),
    ...each((v) => [
      ...get(input(v)), ...get(k), ...add, ...loadFour, ...set(first + 2 + 2 * vectors),
      ...[0, 1].flatMap((r) => [
        ...get(sum(r, v)), ...get(first + r), ...get(first + 2 + 2 * vectors), ...timesFour,
        ...plusFour, ...set(sum(r, v)),
      ]),
    ]),
    ...move(k, constant(16)), ...get(k), ...get(row), ...lessThan, ...again,
  ];
  const total = (local) => [
    ...[0, 1, 2, 3].flatMap((part) => [...get(local), ...lane(part), ...(part ? plusOne : [])]),
  ];
  const twoRows = [
    ...get(w), ...get(row), ...add, ...set(next),
    ...each((v) => [...zeros, ...set(sum(0, v)), ...zeros, ...set(sum(1, v))]),
    ...constant(0), ...set(k), ...loop(fourColumns),
    ...get(y), ...set(out),
    ...each((v) => [
      ...[0, 1].flatMap((r) => [...get(out), ...total(sum(r, v)), ...storeOne(4 * r)]),
      ...move(out, get(stride)),
    ]),
    ...get(next), ...get(row), ...add, ...set(w), ...move(y, constant(8)),
    ...get(rows), ...constant(2), ...subtract, ...set(rows), ...get(rows), ...again,
  ];
  const starts = each((v) => (v ? [...get(input(v - 1)), ...get(row), ...add, ...set(input(v))]
    : [...get(x), ...set(input(0))]));
  const locals = list([[...count(3 + vectors), I32], [...count(3 + 2 * vectors), V128]]);
  const body = [...locals, ...starts, ...loop(twoRows), 0x0b];
  return [...count(body.length), ...body];
}

/** Return the module with one function for each number of vectors: f1, f2, ... */
function assembled() {
  const several = Array.from({ length: AT_ONCE }, (_, n) => n + 1);
  const text = (name) => list([...name].map((letter) => [letter.charCodeAt(0)]));
  return new Uint8Array([
    0, 0x61, 0x73, 0x6d, 1, 0, 0, 0,
    ...section(1, [[0x60, ...list(new Array(6).fill([I32])), 0]]),
    ...section(2, [[...text("m"), ...text("m"), 2, 0, 1]]),
    ...section(3, several.map(() => [0])),
    ...section(7, several.map((n) => [...text(`f${n}`), 0, n - 1])),
    ...section(10, several.map(kernel)),
  ]);
}

/** Return the compiled module, or null where a browser does not have it or allow it. */
function compile() {
  try {
    return new WebAssembly.Module(assembled());
  } catch {
    return null;
  }
}

// --- matrices ------------------------------------------------------------------------------------

const upTo = (value, multiple) => Math.ceil(value / multiple) * multiple;

/** Memory that matrices and the vectors of one product share. */
class Products {
  /** `plain` takes the loop in JavaScript, also where WebAssembly would run. */
  constructor(plain = false) {
    this.used = 0;
    const compiled = plain ? null : compile();
    if (compiled) {
      this.memory = new WebAssembly.Memory({ initial: 1 });
      this.kernels = new WebAssembly.Instance(compiled, { m: { m: this.memory } }).exports;
    } else {
      this.memory = { buffer: new ArrayBuffer(PAGE) };
    }
  }

  /** Return the byte where so many numbers have room from now on. */
  reserve(numbers) {
    const start = this.used;
    this.used = upTo(start + 4 * numbers, 16);
    const missing = this.used - this.memory.buffer.byteLength;
    if (missing > 0) {
      if (this.kernels) this.memory.grow(Math.ceil(missing / PAGE));
      else {
        const larger = new Float32Array(upTo(2 * this.used, PAGE) / 4);
        larger.set(new Float32Array(this.memory.buffer));
        this.memory = { buffer: larger.buffer };
      }
    }
    return start;
  }

  numbers(start, length) {
    return new Float32Array(this.memory.buffer, start, length);
  }

  /** Keep a matrix, given as its rows one after the other. */
  matrix(rows, columns, values) {
    const wide = upTo(columns, 4), high = upTo(rows, 2), start = this.reserve(high * wide);
    const kept = this.numbers(start, high * wide).fill(0);
    for (let r = 0; r < rows; r++) {
      kept.set(values.subarray(r * columns, (r + 1) * columns), r * wide);
    }
    return { rows, columns, wide, high, start };
  }

  /** Return W x for each of the vectors that stand one after the other in x. */
  multiply(W, x) {
    const { rows, columns, wide, high } = W, vectors = x.length / columns;
    const y = new Float32Array(vectors * rows);
    if (!this.room || this.room < AT_ONCE * (wide + high)) {
      this.room = AT_ONCE * (wide + high);
      this.scratch = this.reserve(this.room);
    }
    const outputs = this.scratch + 4 * AT_ONCE * wide;
    for (let begin = 0; begin < vectors; begin += AT_ONCE) {
      const some = Math.min(AT_ONCE, vectors - begin);
      const inputs = this.numbers(this.scratch, some * wide).fill(0);
      for (let v = 0; v < some; v++) {
        inputs.set(x.subarray((begin + v) * columns, (begin + v + 1) * columns), v * wide);
      }
      if (this.kernels) {
        this.kernels[`f${some}`](W.start, this.scratch, outputs, 4 * wide, 4 * high, high);
      } else this.plain(W, inputs, this.numbers(outputs, some * high), some);
      const results = this.numbers(outputs, some * high);
      for (let v = 0; v < some; v++) {
        y.set(results.subarray(v * high, v * high + rows), (begin + v) * rows);
      }
    }
    return y;
  }

  plain({ start, rows, wide, high }, x, y, vectors) {
    const W = this.numbers(start, rows * wide);
    for (let r = 0; r < rows; r++) {
      for (let v = 0; v < vectors; v++) {
        let sum = 0;
        for (let k = 0; k < wide; k++) sum += W[r * wide + k] * x[v * wide + k];
        y[v * high + r] = sum;
      }
    }
  }
}
