/* RNNsearch's encoder and one step of its search; native.py compiles this file and describes its
   structs. Matrices are float, or int8 with a scale for each row; with `PAIRS`, what they multiply
   is rounded to 8 bits too and sums are integers. All else is float. C trusts its pointers. */

#include <math.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* A vector as wide as the processor's: a wider one would live in memory. ROWS x VECTORS sums,
   VECTORS weights and one number of x fill the registers, of which AVX-512 has 32. */
#if defined(__AVX512F__)
enum { LANES = 16, VECTORS = 4 };
#elif defined(__AVX__)
enum { LANES = 8, VECTORS = 2 };
#else
enum { LANES = 4, VECTORS = 2 };
#endif
#if defined(__AVX512VNNI__)
enum { GROUP = 4 }; /* numbers of x that one instruction multiplies for each lane */
#else
enum { GROUP = 2 };
#endif
enum { ROWS = 5, PANEL = LANES * VECTORS, DEPTH = 256, RUN = 64, BLOCK = 8 * RUN, SMALL = 1 << 18 };
enum { FLOATS, BYTES, PAIRS }; /* kinds of matrices */
enum { PROGRAM, APPENDIX, SECTION3 }; /* orders of a step */
#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t wholes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

/* W, (n, k), in panels of PANEL rows: (panels, k, PANEL), or of PAIRS (panels, k / GROUP, PANEL,
   GROUP), k filled up with zeros. Each panel has its scales, and for PAIRS 128 times its sums. */
typedef struct {
    int64_t n, k, kind;
    const void *panels;
    const float *scale;
    const int32_t *sums;
} matrix;

typedef struct {
    const void *rows; /* float, or with a scale int8 */
    const float *scale, *bias;
} embedding;

typedef struct {
    matrix inputs, gates, proposed;
    const float *bias;
} unit;

/* n, d: units of the encoder and decoder; m: of both embeddings; l: maxout units; keys: n', or 0
   for RNNencdec. notes = [C; C_o; U_a] read the annotations, word = [W; V_o] the previous word,
   query = [W_a; U_o] the state; inner is the first of a pair of output matrices, or has n = 0. */
typedef struct {
    int64_t n, d, source_m, m, l, keys, order, pad, eos, unk;
    embedding source, target;
    unit forward, backward; /* RNNencdec: no backward one, n = 0 */
    matrix initial, notes, word, gates, proposed, query, inner, output;
    const float *initial_bias, *word_bias, *energy, *output_bias;
} network;

int64_t panel_rows(void) { return PANEL; }
int64_t group_size(void) { return GROUP; }

/* --- functions of numbers --- */

INLINE float clamped(float x, float least, float most)
{
    return x < least ? least : x > most ? most : x; /* NaN stays */
}

/* e^x as 2^k and, in `rest`, e^r - 1, with x = k ln(2) + r and |r| <= ln(2) / 2, by the polynomial
   of Cephes' expf. Below -87.7, 2^k is 0, above 88.4 infinite; x lies between -88 and 89.
   -fassociative-math would make it wrong. */
INLINE float power_of_two(float x, float *rest)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23 */
    float shifted = x * 1.44269504f + shift, k = shifted - shift;
    float r = x - k * 0.693359375f + k * 2.12194440e-4f;
    float y = 1.9875691500e-4f;
    y = y * r + 1.3981999507e-3f;
    y = y * r + 8.3334519073e-3f;
    y = y * r + 4.1665795894e-2f;
    y = y * r + 1.6666665459e-1f;
    y = y * r + 5.0000001201e-1f;
    *rest = y * r * r + r;
    uint32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23; /* the lowest bits of `shifted` are k */
    float power;
    memcpy(&power, &bits, sizeof power);
    return power;
}

INLINE float exponential(float x)
{
    float rest, power = power_of_two(clamped(x, -88, 89), &rest);
    return (rest + 1) * power;
}

INLINE float sigmoid(float x) { return 1 / (1 + exponential(-x)); }

/* From e^2x - 1, whose relative error stays small for small x. */
INLINE float hyperbolic_tangent(float x)
{
    float rest, power = power_of_two(clamped(2 * x, -40, 40), &rest);
    float less_one = rest * power + (power - 1);
    return less_one / (less_one + 2);
}

/* --- products: out = x W^T --- */

INLINE lanes loaded(const int kind, const void *w, int64_t at)
{
    if (kind == FLOATS)
        return *(const lanes *)((const float *)w + at);
    const int8_t *from = (const int8_t *)w + at;
#if defined(__AVX512F__) /* gcc would convert one number at a time */
    return (lanes)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from)));
#elif defined(__AVX2__)
    return (lanes)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from)));
#else
    return __builtin_convertvector(__builtin_convertvector(*(const bytes *)from, wholes), lanes);
#endif
}

/* What a tile does with its sums: `more` adds them to out, `scale` multiplies them first; only
   `size` columns are there. */
INLINE void stored(const int rows, lanes sum[ROWS][VECTORS], const float *scale, int more,
                   int64_t size, float *out, int64_t out_row)
{
    for (int i = 0; i < rows; i++, out += out_row) {
        lanes result[VECTORS]; /* with the address of `sum`, it would not stay in registers */
        for (int v = 0; v < VECTORS; v++)
            if (scale)
                result[v] = sum[i][v] * *(const lanes *)(scale + v * LANES);
            else
                result[v] = sum[i][v];
        if (size == PANEL)
            for (int v = 0; v < VECTORS; v++) {
                lanes *o = (lanes *)(out + v * LANES);
                if (more)
                    result[v] += *o;
                *o = result[v];
            }
        else
            for (int64_t c = 0; c < size; c++)
                out[c] = (more ? out[c] : 0) + ((const float *)result)[c];
    }
}

/* A tile of `rows` rows and one panel; w_row numbers lie between two rows of w. One row or two
   have several sums for each number, as an addition waits for the one before. */
INLINE void tile(const int rows, const int kind, int64_t k, const float *x, int64_t x_row,
                 const void *w, int64_t w_row, const float *scale, int more, int64_t size,
                 float *out, int64_t out_row)
{
    const int ways = rows == 1 ? 4 : rows == 2 ? 2 : 1;
    lanes sum[ROWS][VECTORS] = {{{0}}};
    int64_t c = 0;
    for (; c + ways <= k; c += ways)
        for (int way = 0; way < ways; way++) {
            lanes columns[VECTORS];
            for (int v = 0; v < VECTORS; v++)
                columns[v] = loaded(kind, w, (c + way) * w_row + v * LANES);
            for (int i = 0; i < rows; i++)
                for (int v = 0; v < VECTORS; v++)
                    sum[i + way * rows][v] += x[i * x_row + c + way] * columns[v];
        }
    for (; c < k; c++)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < VECTORS; v++)
                sum[i][v] += x[i * x_row + c] * loaded(kind, w, c * w_row + v * LANES);
    for (int way = 1; way < ways; way++)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < VECTORS; v++)
                sum[i][v] += sum[i + way * rows][v];
    stored(rows, sum, scale, more, size, out, out_row);
}

/* The same for PAIRS: x is (k / GROUP, ROWS) words of GROUP numbers. */
INLINE void tile_of_pairs(const int rows, int64_t k, const uint32_t *x, const float *x_scale,
                          const int8_t *w, const float *scale, const int32_t *sums, int64_t size,
                          float *out, int64_t out_row)
{
    wholes sum[ROWS][VECTORS] = {{{0}}};
    for (int64_t c = 0; c < k / GROUP; c++, x += ROWS, w += PANEL * GROUP)
        for (int v = 0; v < VECTORS; v++) {
            const int8_t *from = w + v * LANES * GROUP;
            for (int i = 0; i < rows; i++) {
#if defined(__AVX512VNNI__)
                const __m512i columns = _mm512_loadu_si512(from);
                sum[i][v] = (wholes)_mm512_dpbusd_epi32((__m512i)sum[i][v],
                                                        _mm512_set1_epi32(x[i]), columns);
#elif defined(__AVX512BW__)
                const __m512i columns =
                    _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)from));
                sum[i][v] += (wholes)_mm512_madd_epi16(_mm512_set1_epi32(x[i]), columns);
#elif defined(__AVX2__) && !defined(__AVX512F__)
                const __m256i columns = _mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)from));
                sum[i][v] += (wholes)_mm256_madd_epi16(_mm256_set1_epi32(x[i]), columns);
#else
                int16_t pair[2];
                memcpy(pair, x + i, sizeof pair);
                for (int lane = 0; lane < LANES; lane++)
                    sum[i][v][lane] += pair[0] * from[2 * lane] + pair[1] * from[2 * lane + 1];
#endif
            }
        }
    for (int i = 0; i < rows; i++, out += out_row) {
        lanes result[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            const wholes less = sum[i][v] - *(const wholes *)(sums + v * LANES);
            result[v] = __builtin_convertvector(less, lanes) * x_scale[i] *
                        *(const lanes *)(scale + v * LANES);
        }
        memcpy(out, result, size * sizeof *out);
    }
}

/* Each number of rows has code of its own. */
#define BY_ROWS(call)                                                                              \
    for (int64_t r = 0; r < rows; r += ROWS)                                                       \
        switch (rows - r) {                                                                        \
        case 1: call(1); break;                                                                    \
        case 2: call(2); break;                                                                    \
        case 3: call(3); break;                                                                    \
        case 4: call(4); break;                                                                    \
        default: call(ROWS);                                                                       \
        }

static void tiles_of_floats(int64_t rows, int64_t k, const float *x, int64_t x_row, const float *w,
                            int64_t w_row, const float *scale, int more, int64_t size, float *out,
                            int64_t out_row)
{
#define TILE(count)                                                                                \
    tile(count, FLOATS, k, x + r * x_row, x_row, w, w_row, scale, more, size, out + r * out_row,   \
         out_row)
    BY_ROWS(TILE)
#undef TILE
}

static void tiles_of_bytes(int64_t rows, int64_t k, const float *x, int64_t x_row, const int8_t *w,
                           const float *scale, int more, int64_t size, float *out, int64_t out_row)
{
#define TILE(count)                                                                                \
    tile(count, BYTES, k, x + r * x_row, x_row, w, PANEL, scale, more, size, out + r * out_row,    \
         out_row)
    BY_ROWS(TILE)
#undef TILE
}

static void tiles_of_pairs(int64_t rows, int64_t k, const uint32_t *x, const float *x_scale,
                           const int8_t *w, const float *scale, const int32_t *sums, int64_t size,
                           float *out, int64_t out_row)
{
#define TILE(count)                                                                                \
    tile_of_pairs(count, k, x + r * (k / GROUP), x_scale + r, w, scale, sums, size,                \
                  out + r * out_row, out_row)
    BY_ROWS(TILE)
#undef TILE
}

static int64_t filled_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

/* Numbers of scratch that `rounded` fills for rows of k numbers. */
static int64_t rounded_size(int64_t rows, int64_t k)
{
    return rows + filled_up(rows, ROWS) * filled_up(k, 64) / GROUP;
}

/* Round rows to 8 bits: the scales, then (rows / ROWS, k / GROUP, ROWS) words of GROUP numbers,
   as int16, or for VNNI as bytes + 128. */
static void rounded(int64_t rows, int64_t k, const float *x, int64_t x_row, float *scratch)
{
    const int64_t wide = filled_up(k, GROUP), groups = wide / GROUP;
    uint32_t *words = (uint32_t *)(scratch + rows);
    for (int64_t i = 0; i < rows; i++, x += x_row) {
        uint32_t *own = words + i / ROWS * ROWS * groups + i % ROWS;
        float most = 0;
#pragma omp simd reduction(max : most)
        for (int64_t c = 0; c < k; c++) {
            const float size = fabsf(x[c]);
            most = size > most ? size : most;
        }
        const float inverse = most > 0 ? 127 / most : 0;
        scratch[i] = most / 127;
        for (int64_t g = 0; g < groups; g++) {
            uint32_t word = 0;
            for (int j = 0; j < GROUP; j++) {
                const int64_t c = g * GROUP + j;
                const int32_t whole = c < k ? (int32_t)rintf(x[c] * inverse) : 0;
                word |= GROUP == 4 ? (uint32_t)(whole + 128) << 8 * j
                                   : (uint32_t)(uint16_t)whole << 16 * j;
            }
            own[g * ROWS] = word;
        }
    }
}

/* Columns of panels begin to end - 1 of out = x W^T; out's first column is that of `begin`.
   `x` of PAIRS is what `rounded` made. */
static void panels_product(int64_t rows, const matrix *W, int64_t begin, int64_t end,
                           const float *x, int64_t x_row, float *out, int64_t out_row)
{
    const int64_t k = W->k, wide = filled_up(k, GROUP);
    float wider[DEPTH * PANEL]; /* a part of a panel as floats, for many rows */
    for (int64_t p = begin; p < end; p++) {
        float *o = out + (p - begin) * PANEL;
        const float *scale = W->kind == FLOATS ? 0 : W->scale + p * PANEL;
        const int64_t size = W->n - p * PANEL < PANEL ? W->n - p * PANEL : PANEL;
        if (W->kind == PAIRS) {
            tiles_of_pairs(rows, wide, (const uint32_t *)(x + rows), x,
                           (const int8_t *)W->panels + p * wide * PANEL, scale,
                           W->sums + p * PANEL, size, o, out_row);
            continue;
        }
        for (int64_t c = 0; c < k; c += DEPTH) {
            const int64_t deep = k - c < DEPTH ? k - c : DEPTH, at = (p * k + c) * PANEL;
            if (W->kind == FLOATS) {
                tiles_of_floats(rows, deep, x + c, x_row, (const float *)W->panels + at, PANEL, 0,
                                c > 0, size, o, out_row);
                continue;
            }
            const int8_t *w = (const int8_t *)W->panels + at;
            if (rows <= ROWS) {
                tiles_of_bytes(rows, deep, x + c, x_row, w, scale, c > 0, size, o, out_row);
                continue;
            }
            for (int64_t j = 0; j < deep * PANEL; j += LANES)
                *(lanes *)(wider + j) = loaded(BYTES, w, j);
            tiles_of_floats(rows, deep, x + c, x_row, wider, PANEL, scale, c > 0, size, o, out_row);
        }
    }
}

static int64_t panels_of(const matrix *W) { return (W->n + PANEL - 1) / PANEL; }

/* out = x W^T; `scratch` has the room of `rounded_size`. */
static void product(int64_t threads, int64_t rows, const matrix *W, const float *x, int64_t x_row,
                    float *out, int64_t out_row, float *scratch)
{
    const int64_t count = panels_of(W), parts = threads < count ? threads : count;
    if (W->kind == PAIRS) {
        rounded(rows, W->k, x, x_row, scratch);
        x = scratch;
    }
#pragma omp parallel for num_threads(parts) if (parts > 1 && rows * W->n * W->k > SMALL)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t begin = part * count / parts, end = (part + 1) * count / parts;
        panels_product(rows, W, begin, end, x, x_row, out + begin * PANEL, out_row);
    }
}

/* Add alpha h to `width` rows of out: the hypotheses of a sentence with `length` annotations. */
static void add_context(int64_t width, int64_t length, int64_t columns, const float *alpha,
                        int64_t alpha_row, const float *h, int64_t h_row, float *out,
                        int64_t out_row)
{
    for (int64_t c = 0; c < columns; c += PANEL) {
        const int64_t size = columns - c < PANEL ? columns - c : PANEL;
        if (size == PANEL) {
            tiles_of_floats(width, length, alpha, alpha_row, h + c, h_row, 0, 1, PANEL, out + c,
                            out_row);
            continue;
        }
        for (int64_t i = 0; i < width; i++)
            for (int64_t j = 0; j < length; j++)
                for (int64_t b = c; b < columns; b++)
                    out[i * out_row + b] += alpha[i * alpha_row + j] * h[j * h_row + b];
    }
}

/* --- the parts --- */

static void embed(const embedding *E, int64_t m, int64_t word, float *y)
{
    if (E->scale)
        for (int64_t c = 0; c < m; c++)
            y[c] = ((const int8_t *)E->rows)[word * m + c] * E->scale[word] + E->bias[c];
    else
        for (int64_t c = 0; c < m; c++)
            y[c] = ((const float *)E->rows)[word * m + c] + E->bias[c];
}

static int64_t unit_size(int64_t rows, int64_t n)
{
    return 3 * rows * n + rounded_size(rows, n);
}

/* From h to `after`; inputs[i] has x, x_z and x_r of row i. */
static void unit_step(int64_t threads, int64_t rows, int64_t n, const matrix *gates,
                      const matrix *proposed, float *const *inputs, const float *h, float *after,
                      float *scratch)
{
    float *zr = scratch, *reset_h = zr + 2 * rows * n, *more = reset_h + rows * n;
    product(threads, rows, gates, h, n, zr, 2 * n, more);
#pragma omp parallel for num_threads(threads) if (threads > 1 && rows * n > SMALL / 16)
    for (int64_t i = 0; i < rows; i++) {
        const float *x = inputs[i] + n;
        float *own = zr + i * 2 * n;
        for (int64_t c = 0; c < 2 * n; c++)
            own[c] = sigmoid(own[c] + x[c]);
        for (int64_t c = 0; c < n; c++)
            reset_h[i * n + c] = own[n + c] * h[i * n + c];
    }
    product(threads, rows, proposed, reset_h, n, after, n, more);
#pragma omp parallel for num_threads(threads) if (threads > 1 && rows * n > SMALL / 16)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            const float before = h[i * n + c];
            const float tilde = hyperbolic_tangent(after[i * n + c] + inputs[i][c]);
            after[i * n + c] = before + zr[i * 2 * n + c] * (tilde - before);
        }
}

/* Places in scratch, in numbers from its beginning. */
typedef struct {
    int64_t embedded, inputs, states, h, after, pointers, more, end;
} encoder_room;

static encoder_room room_of_encoder(const network *N, int64_t sentences, int64_t positions)
{
    const int64_t n = N->n, deep = N->notes.k > N->source_m ? N->notes.k : N->source_m;
    encoder_room r = {0};
    r.inputs = r.embedded + positions * N->source_m;
    r.states = r.inputs + positions * 3 * n;
    r.h = r.states + positions * 2 * n;
    r.after = r.h + sentences * n;
    r.pointers = filled_up(r.after + sentences * n, 2);
    r.more = r.pointers + 2 * sentences;
    const int64_t of_unit = unit_size(sentences, n), of_all = rounded_size(positions, deep);
    r.end = r.more + (of_unit > of_all ? of_unit : of_all);
    return r;
}

int64_t encode_scratch(const network *N, int64_t sentences, int64_t positions)
{
    return room_of_encoder(N, sentences, positions).end;
}

/* Encode sentences, one after the other without padding, longest first. `notes` has a row for each
   position, or for RNNencdec for each sentence; s_0 a row for each sentence. */
void encode(const network *N, int64_t threads, int64_t sentences, const int32_t *length, const int32_t *first,
            const int32_t *words, int64_t positions, float *notes, float *s_0, float *scratch)
{
    const encoder_room at = room_of_encoder(N, sentences, positions);
    const int64_t n = N->n, m = N->source_m, both = N->backward.gates.n ? 2 : 1;
    float *y = scratch + at.embedded, *x = scratch + at.inputs, *states = scratch + at.states;
    float *h = scratch + at.h, *after = scratch + at.after, *more = scratch + at.more;
    float **inputs = (float **)(scratch + at.pointers);
    for (int64_t i = 0; i < positions; i++)
        embed(&N->source, m, words[i], y + i * m);
    for (int64_t half = 0; half < both; half++) {
        const unit *f = half ? &N->backward : &N->forward;
        product(threads, positions, &f->inputs, y, m, x, 3 * n, more);
        for (int64_t i = 0; i < positions; i++)
            for (int64_t c = 0; c < n; c++)
                x[i * 3 * n + c] += f->bias[c];
        memset(h, 0, sentences * n * sizeof *h);
        for (int64_t j = 0; j < length[0]; j++) {
            const int64_t t = half ? length[0] - 1 - j : j;
            int64_t alive = sentences; /* those that have a word here */
            while (length[alive - 1] <= t)
                alive--;
            for (int64_t i = 0; i < alive; i++)
                inputs[i] = x + (first[i] + t) * 3 * n;
            unit_step(threads, alive, n, &f->gates, &f->proposed, inputs, h, after, more);
            memcpy(h, after, alive * n * sizeof *h);
            for (int64_t i = 0; i < alive; i++)
                memcpy(states + (first[i] + t) * both * n + half * n, h + i * n, n * sizeof *h);
        }
    }
    product(threads, sentences, &N->initial, h, n, s_0, N->d, more);
    for (int64_t i = 0; i < sentences; i++)
        for (int64_t c = 0; c < N->d; c++)
            s_0[i * N->d + c] = hyperbolic_tangent(s_0[i * N->d + c] + N->initial_bias[c]);
    product(threads, N->keys ? positions : sentences, &N->notes, N->keys ? states : h,
            N->notes.k, notes, N->notes.n, more);
}

/* --- a step of the search ---

   There are `width` adjacent rows, the hypotheses, for each sentence. */

typedef struct {
    int64_t threads, sentences, width, source, k, is_first;
    const int32_t *length, *first; /* of each sentence's notes */
    const float *notes;
    const int32_t *previous, *parents; /* of each row; previous words not in the first step */
    const float *scores;               /* of each row */
    const int32_t *only;               /* of each sentence: the one word allowed, or -1 */
    const uint8_t *no_end;             /* of each sentence */
    const int32_t *forbidden, *forbidden_end; /* words, and where those of each row end; or null */
    const float *alpha_before, *s_before;
    float *alpha, *s_after;
    const float *read_alpha; /* weights to read the context with, if given; then so is alpha */
    float *value;            /* (sentences, k), best first */
    int32_t *word, *hypothesis;
    float *log_p; /* (rows, words) of all words; then nothing is chosen */
    float *scratch;
    double unk_penalty, temperature;
} search;

typedef struct {
    int64_t inputs, s, query, t, inner, y, before, logits, most, sum, count, best, chosen;
    int64_t pointers, more, end;
    int64_t kept; /* words of each row in each part */
} step_room;

static step_room room_of_step(const network *N, int64_t parts, int64_t rows, int64_t source,
                              int64_t k)
{
    const int64_t d = N->d, l = N->l;
    const int64_t deepest = d > N->m ? d : N->m, deep = deepest > l ? deepest : l;
    step_room r = {0};
    r.kept = k < N->output.n ? k : N->output.n;
    r.s = r.inputs + rows * (3 * d + 2 * l);
    r.query = r.s + rows * d;
    r.t = r.query + rows * (N->keys + 2 * l);
    r.inner = r.t + rows * l;
    r.y = r.inner + rows * N->inner.n;
    r.before = r.y + rows * N->m;
    r.logits = r.before + rows * source;
    r.most = r.logits + parts * rows * BLOCK;
    r.sum = r.most + parts * rows;
    r.count = r.sum + parts * rows;
    r.best = r.count + parts * rows;
    r.chosen = r.best + 3 * parts * rows * r.kept;
    r.pointers = filled_up(r.chosen + 3 * k, 2);
    r.more = r.pointers + 2 * rows;
    const int64_t of_unit = unit_size(rows, d), of_all = rounded_size(rows, deep);
    r.end = r.more + (of_unit > of_all ? of_unit : of_all);
    return r;
}

int64_t step_scratch(const network *N, int64_t threads, int64_t rows, int64_t source, int64_t k)
{
    return room_of_step(N, threads, rows, source, k).end;
}

/* Weights of all rows, from W_a s in `query`. */
static void align(const network *N, const search *q, const float *query)
{
    const int64_t columns = N->notes.n, key = columns - N->keys, row = N->keys + 2 * N->l;
    const int64_t rows = q->sentences * q->width, work = rows * q->source * N->keys;
#pragma omp parallel for num_threads(q->threads) if (q->threads > 1 && work > SMALL / 16)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t T = q->length[i / q->width];
        const float *keys = q->notes + q->first[i / q->width] * columns + key;
        const float *own = query + i * row;
        float *e = q->alpha + i * q->source, most = -INFINITY, sum = 0;
        for (int64_t j = 0; j < T; j++, keys += columns) {
            float energy = 0;
#pragma omp simd reduction(+ : energy)
            for (int64_t c = 0; c < N->keys; c++)
                energy += N->energy[c] * hyperbolic_tangent(own[c] + keys[c]);
            e[j] = energy;
            most = energy <= most ? most : energy;
        }
        for (int64_t j = 0; j < T; j++)
            sum += e[j] = exponential(e[j] - most);
        for (int64_t j = 0; j < q->source; j++)
            e[j] = j < T ? e[j] / sum : 0;
    }
}

typedef struct {
    float value;
    int32_t word, hypothesis;
} candidate;

/* Insert into the k best, of which there are `count`; NaN counts as minus infinity. */
INLINE int64_t inserted(int64_t count, int64_t k, candidate own, candidate *best)
{
    if (own.value != own.value)
        own.value = -INFINITY;
    if (count == k && !(own.value > best[k - 1].value))
        return count;
    int64_t place = count < k ? count++ : k - 1;
    for (; place > 0 && own.value > best[place - 1].value; place--)
        best[place] = best[place - 1];
    best[place] = own;
    return count;
}

/* A part of the dictionary: of each row the largest logit, the sum of e^(logit - largest), and
   the best words that are allowed. */
static void words_of_part(const network *N, const search *q, const step_room *at, const float *t,
                          int64_t t_row, int64_t part)
{
    const int64_t rows = q->sentences * q->width, symbols = N->output.n;
    const int64_t panels = panels_of(&N->output), parts = q->threads, kept = at->kept;
    const int64_t from = part * panels / parts, to = (part + 1) * panels / parts;
    float *logits = q->scratch + at->logits + part * rows * BLOCK;
    float *most = q->scratch + at->most + part * rows, *sum = q->scratch + at->sum + part * rows;
    int32_t *count = (int32_t *)(q->scratch + at->count) + part * rows;
    candidate *of_rows = (candidate *)(q->scratch + at->best) + part * rows * kept;
    const float warmth = 1 / q->temperature;
    for (int64_t i = 0; i < rows; i++)
        most[i] = -INFINITY, sum[i] = 0, count[i] = 0;
    for (int64_t p = from; p < to; p += BLOCK / PANEL) {
        const int64_t stop = p + BLOCK / PANEL < to ? p + BLOCK / PANEL : to, first = p * PANEL;
        const int64_t size = (stop * PANEL < symbols ? stop * PANEL : symbols) - first;
        panels_product(rows, &N->output, p, stop, t, t_row, logits, BLOCK);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t sentence = i / q->width, given = q->only[sentence];
            candidate *best = of_rows + i * kept;
            float *x = logits + i * BLOCK, of_run[BLOCK / RUN], largest = most[i], added = 0;
            for (int64_t b = 0; b < size; b += RUN) {
                const int64_t end = b + RUN < size ? b + RUN : size;
                float of_this = -INFINITY;
#pragma omp simd reduction(max : of_this)
                for (int64_t c = b; c < end; c++) {
                    const float value = (x[c] + N->output_bias[first + c]) * warmth;
                    x[c] = value;
                    of_this = value > of_this ? value : of_this;
                }
                of_run[b / RUN] = of_this;
                largest = of_this > largest ? of_this : largest;
            }
#pragma omp simd reduction(+ : added)
            for (int64_t c = 0; c < size; c++)
                added += exponential(x[c] - largest);
            sum[i] = sum[i] * (most[i] == largest ? 1 : exponential(most[i] - largest)) + added;
            most[i] = largest;
            if (q->log_p) {
                memcpy(q->log_p + i * symbols + first, x, size * sizeof *x);
                continue;
            }
            if (given >= 0) {
                if (given >= first && given < first + size)
                    best[count[i]++] = (candidate){
                        x[given - first] - (given == N->unk ? q->unk_penalty : 0), given, 0};
                continue;
            }
#define FORBID(w, by)                                                                              \
    if ((w) >= first && (w) < first + size)                                                        \
    x[(w) - first] -= (by)
            FORBID(N->pad, INFINITY);
            FORBID(N->unk, q->unk_penalty);
            if (q->no_end[sentence])
                FORBID(N->eos, INFINITY);
            if (q->forbidden)
                for (int64_t f = i ? q->forbidden_end[i - 1] : 0; f < q->forbidden_end[i]; f++)
                    FORBID(q->forbidden[f], INFINITY);
#undef FORBID
            for (int64_t b = 0; b < size; b += RUN) {
                if (count[i] == kept && !(of_run[b / RUN] > best[kept - 1].value))
                    continue; /* as nearly every run */
                for (int64_t c = b; c < (b + RUN < size ? b + RUN : size); c++)
                    count[i] = inserted(count[i], kept, (candidate){x[c], first + c, 0}, best);
            }
        }
    }
}

/* The k best words of each sentence's hypotheses, from those of all parts; or log p of all words. */
static void choose(const network *N, const search *q, const step_room *at)
{
    const int64_t rows = q->sentences * q->width, symbols = N->output.n, kept = at->kept;
    const float *most = q->scratch + at->most, *sum = q->scratch + at->sum;
    const candidate *of_rows = (const candidate *)(q->scratch + at->best);
    const int32_t *count = (const int32_t *)(q->scratch + at->count);
    candidate *best = (candidate *)(q->scratch + at->chosen);
    for (int64_t sentence = 0; sentence < q->sentences; sentence++) {
        int64_t found = 0;
        for (int64_t h = 0; h < q->width; h++) {
            const int64_t i = sentence * q->width + h;
            float largest = -INFINITY, total = 0;
            for (int64_t row = i; row < q->threads * rows; row += rows)
                largest = most[row] > largest ? most[row] : largest;
            for (int64_t row = i; row < q->threads * rows; row += rows)
                total += sum[row] * exponential(most[row] - largest);
            const float less = largest + logf(total);
            if (q->log_p) {
                for (int64_t c = 0; c < symbols; c++)
                    q->log_p[i * symbols + c] -= less;
                continue;
            }
            for (int64_t row = i; row < q->threads * rows; row += rows)
                for (int64_t c = 0; c < count[row]; c++) {
                    const candidate own = of_rows[row * kept + c];
                    const float value = own.value - less + q->scores[i];
                    found = inserted(found, q->k, (candidate){value, own.word, h}, best);
                }
        }
        for (int64_t c = 0; c < q->k && !q->log_p; c++) {
            const int is_there = c < found; /* with one word allowed, there are no others */
            q->value[sentence * q->k + c] = is_there ? best[c].value : -INFINITY;
            q->word[sentence * q->k + c] = is_there ? best[c].word : N->pad;
            q->hypothesis[sentence * q->k + c] = is_there ? best[c].hypothesis : 0;
        }
    }
}

/* Take one step: read the previous words, attend, and choose words. */
void step(const network *N, const search *q)
{
    const int64_t rows = q->sentences * q->width, threads = q->threads, d = N->d, l = N->l;
    const int64_t columns = 3 * d + 2 * l, note = N->notes.n, row = N->keys + 2 * l;
    const step_room at = room_of_step(N, q->threads, rows, q->source, q->k);
    float *x = q->scratch + at.inputs, *s = q->scratch + at.s, *query = q->scratch + at.query;
    float *t = q->scratch + at.t, *y = q->scratch + at.y, *before = q->scratch + at.before;
    float *more = q->scratch + at.more, **inputs = (float **)(q->scratch + at.pointers);
    const int attends = !q->read_alpha && N->keys, is_program = N->order == PROGRAM;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t parent = q->parents ? q->parents[i] : i;
        inputs[i] = x + i * columns;
        memcpy(s + i * d, q->s_before + parent * d, d * sizeof *s);
        if (q->is_first) /* e(y_0) is zero, without the bias */
            continue;
        embed(&N->target, N->m, q->previous[i], y + i * N->m);
        if (is_program)
            memcpy(before + i * q->source, q->alpha_before + parent * q->source,
                   q->source * sizeof *before);
    }
    if (!q->is_first)
        product(threads, rows, &N->word, y, N->m, x, columns, more);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c++)
            inputs[i][c] = (q->is_first ? 0 : inputs[i][c]) + N->word_bias[c];
    if (!N->keys && !q->read_alpha)
        for (int64_t i = 0; i < rows; i++)
            q->alpha[i] = 1;
    if (is_program && q->is_first)
        memcpy(q->s_after, s, rows * d * sizeof *s);
    if (!is_program) {
        product(threads, rows, &N->query, s, d, query, row, more);
        if (attends)
            align(N, q, query);
    }
    if (!is_program || !q->is_first) {
        const float *alpha = is_program ? before : q->alpha;
        for (int64_t i = 0; i < q->sentences; i++)
            add_context(q->width, q->length[i], 3 * d, alpha + i * q->width * q->source,
                        q->source, q->notes + q->first[i] * note, note,
                        x + i * q->width * columns, columns);
        unit_step(threads, rows, d, &N->gates, &N->proposed, inputs, s, q->s_after,
                  more);
    }
    if (N->order != APPENDIX) {
        product(threads, rows, &N->query, q->s_after, d, query, row, more);
        if (is_program && attends)
            align(N, q, query);
    }
    const float *alpha = q->read_alpha ? q->read_alpha : q->alpha;
    for (int64_t i = 0; i < q->sentences; i++)
        add_context(q->width, q->length[i], 2 * l, alpha + i * q->width * q->source, q->source,
                    q->notes + q->first[i] * note + 3 * d, note,
                    x + i * q->width * columns + 3 * d, columns);
    for (int64_t i = 0; i < rows; i++) {
        const float *of_state = query + i * row + N->keys, *of_rest = x + i * columns + 3 * d;
        for (int64_t c = 0; c < l; c++) {
            const float one = of_rest[2 * c] + of_state[2 * c];
            const float other = of_rest[2 * c + 1] + of_state[2 * c + 1];
            t[i * l + c] = one > other || one != one ? one : other; /* NaN stays */
        }
    }
    int64_t deep = l;
    if (N->inner.n) {
        deep = N->inner.n;
        product(threads, rows, &N->inner, t, l, q->scratch + at.inner, deep, more);
        t = q->scratch + at.inner;
    }
    if (N->output.kind == PAIRS) {
        rounded(rows, deep, t, deep, more);
        t = more;
    }
#pragma omp parallel for num_threads(threads) if (threads > 1 && rows * N->output.n * deep > SMALL)
    for (int64_t part = 0; part < threads; part++)
        words_of_part(N, q, &at, t, deep, part);
    choose(N, q, &at);
}
