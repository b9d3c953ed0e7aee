;; y = W x for one vector x or for five, two rows of W and four columns at a time, in float32.
;;
;; matrix_product.wasm holds the same as bytes, which `wat2wasm` of the Python package wasmtime
;; makes of this text; tests/test_living.py compares them.
;;
;;   w, x, y   where W begins, the vectors and their products, in bytes
;;   row       bytes of a row of W, and of a vector x: four columns are 16
;;   stride    bytes from one vector y to the next
;;   rows      of W, an even number
;;
;; `a0` to `a4` collect the upper one of two rows times each vector, `b0` to `b4` the lower one.
(module
  (import "m" "memory" (memory 1))

  (func $sum (param $four v128) (result f32)
    (f32.add
      (f32.add
        (f32.add (f32x4.extract_lane 0 (local.get $four)) (f32x4.extract_lane 1 (local.get $four)))
        (f32x4.extract_lane 2 (local.get $four)))
      (f32x4.extract_lane 3 (local.get $four))))

  (func (export "times1") (param $w i32) (param $x i32) (param $y i32)
    (param $row i32) (param $stride i32) (param $rows i32)
    (local $next i32) (local $k i32) (local $out i32)
    (local $upper v128) (local $lower v128) (local $four v128)
    (local $x0 i32) (local $a0 v128) (local $b0 v128)
    (local.set $x0 (local.get $x))
    (loop $two_rows
      (local.set $next (i32.add (local.get $w) (local.get $row)))
      (local.set $a0 (v128.const i32x4 0 0 0 0)) (local.set $b0 (v128.const i32x4 0 0 0 0))
      (local.set $k (i32.const 0))
      (loop $four_columns
        (local.set $upper (v128.load (i32.add (local.get $w) (local.get $k))))
        (local.set $lower (v128.load (i32.add (local.get $next) (local.get $k))))
        (local.set $four (v128.load (i32.add (local.get $x0) (local.get $k))))
        (local.set $a0 (f32x4.add (local.get $a0) (f32x4.mul (local.get $upper) (local.get $four))))
        (local.set $b0 (f32x4.add (local.get $b0) (f32x4.mul (local.get $lower) (local.get $four))))
        (local.set $k (i32.add (local.get $k) (i32.const 16)))
        (br_if $four_columns (i32.lt_u (local.get $k) (local.get $row))))
      (local.set $out (local.get $y))
      (f32.store (local.get $out) (call $sum (local.get $a0)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $b0)))
      (local.set $w (i32.add (local.get $next) (local.get $row)))
      (local.set $y (i32.add (local.get $y) (i32.const 8)))
      (local.set $rows (i32.sub (local.get $rows) (i32.const 2)))
      (br_if $two_rows (local.get $rows))))

  (func (export "times5") (param $w i32) (param $x i32) (param $y i32)
    (param $row i32) (param $stride i32) (param $rows i32)
    (local $next i32) (local $k i32) (local $out i32)
    (local $upper v128) (local $lower v128) (local $four v128)
    (local $x0 i32) (local $a0 v128) (local $b0 v128)
    (local $x1 i32) (local $a1 v128) (local $b1 v128)
    (local $x2 i32) (local $a2 v128) (local $b2 v128)
    (local $x3 i32) (local $a3 v128) (local $b3 v128)
    (local $x4 i32) (local $a4 v128) (local $b4 v128)
    (local.set $x0 (local.get $x))
    (local.set $x1 (i32.add (local.get $x0) (local.get $row)))
    (local.set $x2 (i32.add (local.get $x1) (local.get $row)))
    (local.set $x3 (i32.add (local.get $x2) (local.get $row)))
    (local.set $x4 (i32.add (local.get $x3) (local.get $row)))
    (loop $two_rows
      (local.set $next (i32.add (local.get $w) (local.get $row)))
      (local.set $a0 (v128.const i32x4 0 0 0 0)) (local.set $b0 (v128.const i32x4 0 0 0 0))
      (local.set $a1 (v128.const i32x4 0 0 0 0)) (local.set $b1 (v128.const i32x4 0 0 0 0))
      (local.set $a2 (v128.const i32x4 0 0 0 0)) (local.set $b2 (v128.const i32x4 0 0 0 0))
      (local.set $a3 (v128.const i32x4 0 0 0 0)) (local.set $b3 (v128.const i32x4 0 0 0 0))
      (local.set $a4 (v128.const i32x4 0 0 0 0)) (local.set $b4 (v128.const i32x4 0 0 0 0))
      (local.set $k (i32.const 0))
      (loop $four_columns
        (local.set $upper (v128.load (i32.add (local.get $w) (local.get $k))))
        (local.set $lower (v128.load (i32.add (local.get $next) (local.get $k))))
        (local.set $four (v128.load (i32.add (local.get $x0) (local.get $k))))
        (local.set $a0 (f32x4.add (local.get $a0) (f32x4.mul (local.get $upper) (local.get $four))))
        (local.set $b0 (f32x4.add (local.get $b0) (f32x4.mul (local.get $lower) (local.get $four))))
        (local.set $four (v128.load (i32.add (local.get $x1) (local.get $k))))
        (local.set $a1 (f32x4.add (local.get $a1) (f32x4.mul (local.get $upper) (local.get $four))))
        (local.set $b1 (f32x4.add (local.get $b1) (f32x4.mul (local.get $lower) (local.get $four))))
        (local.set $four (v128.load (i32.add (local.get $x2) (local.get $k))))
        (local.set $a2 (f32x4.add (local.get $a2) (f32x4.mul (local.get $upper) (local.get $four))))
        (local.set $b2 (f32x4.add (local.get $b2) (f32x4.mul (local.get $lower) (local.get $four))))
        (local.set $four (v128.load (i32.add (local.get $x3) (local.get $k))))
        (local.set $a3 (f32x4.add (local.get $a3) (f32x4.mul (local.get $upper) (local.get $four))))
        (local.set $b3 (f32x4.add (local.get $b3) (f32x4.mul (local.get $lower) (local.get $four))))
        (local.set $four (v128.load (i32.add (local.get $x4) (local.get $k))))
        (local.set $a4 (f32x4.add (local.get $a4) (f32x4.mul (local.get $upper) (local.get $four))))
        (local.set $b4 (f32x4.add (local.get $b4) (f32x4.mul (local.get $lower) (local.get $four))))
        (local.set $k (i32.add (local.get $k) (i32.const 16)))
        (br_if $four_columns (i32.lt_u (local.get $k) (local.get $row))))
      (local.set $out (local.get $y))
      (f32.store (local.get $out) (call $sum (local.get $a0)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $b0)))
      (local.set $out (i32.add (local.get $out) (local.get $stride)))
      (f32.store (local.get $out) (call $sum (local.get $a1)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $b1)))
      (local.set $out (i32.add (local.get $out) (local.get $stride)))
      (f32.store (local.get $out) (call $sum (local.get $a2)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $b2)))
      (local.set $out (i32.add (local.get $out) (local.get $stride)))
      (f32.store (local.get $out) (call $sum (local.get $a3)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $b3)))
      (local.set $out (i32.add (local.get $out) (local.get $stride)))
      (f32.store (local.get $out) (call $sum (local.get $a4)))
      (f32.store offset=4 (local.get $out) (call $sum (local.get $b4)))
      (local.set $w (i32.add (local.get $next) (local.get $row)))
      (local.set $y (i32.add (local.get $y) (i32.const 8)))
      (local.set $rows (i32.sub (local.get $rows) (i32.const 2)))
      (br_if $two_rows (local.get $rows)))))
