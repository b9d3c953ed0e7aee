/* RNNsearch's encoder and one step of its search; native.py compiles this file and describes its
   structs. Matrices are float, or int8 with a scale for each row; in EIGHTS what they multiply is
   rounded to 8 bits too, and sums are integers; in HALVES both are bfloat16. All else is float. C
   trusts its pointers. */

#include "numbers.h"
#include <stdlib.h>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

/* A vector as wide as the processor's: a wider one would live in memory. ROWS x VECTORS sums,
   VECTORS weights and one number of x fill the registers. GROUP numbers of x make a word of 32
   bits in EIGHTS: bytes for VNNI, or else 16 bits wide; in HALVES two do. */
#if defined(__AVX512F__)
enum { LANES = 16, VECTORS = 4 };
#elif defined(__AVX__)
enum { LANES = 8, VECTORS = 2 };
#else
enum { LANES = 4, VECTORS = 2 };
#endif
#if defined(__AVX512VNNI__)
enum { GROUP = 4 };
#else
enum { GROUP = 2 };
#endif
enum { ROWS = 5, PANEL = LANES * VECTORS, DEPTH = 256, RUN = 64, BLOCK = 8 * RUN };
enum { LARGE = 1 << 18 };             /* multiplications that a thread is worth */
enum { FLOATS, BYTES, EIGHTS, HALVES }; /* kinds of matrices */
enum { PROGRAM, APPENDIX, SECTION3 }; /* orders of a step */
#define INLINE static inline __attribute__((always_inline))

typedef float lanes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t wholes __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int8_t bytes __attribute__((vector_size(LANES), aligned(1), may_alias));

/* W, (n, k), in panels of PANEL rows: (panels, k, PANEL), or where x is in words (panels, words,
   PANEL, numbers of a word), filled up with zeros. EIGHTS have `sums`: 128 times those of W's rows,
   or zeros without VNNI. */
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

/* n, d: units of the encoder and decoder; source_m, m: sizes of the embeddings; l: maxout units;
   keys: n', or 0 for RNNencdec. notes = [C; C_o; U_a] read the annotations, word = [W; V_o] the
   previous word, query = [W_a; U_o] the state. `backward` and `inner` may have n = 0. Products with
   the first `kept` words are kept once they are known, as words come again. */
typedef struct {
    int64_t n, d, source_m, m, l, keys, order, pad, eos, unk;
    embedding source, target;
    unit forward, backward;
    matrix initial, notes, word, gates, proposed, query, inner, output;
    const float *initial_bias, *word_bias, *energy, *output_bias;
    int64_t kept;
    float *of_words;
    uint8_t *is_known;
} network;

int64_t panel_rows(void) { return PANEL; }
int64_t numbers_of_word(int64_t kind) { return kind == EIGHTS ? GROUP : kind == HALVES ? 2 : 1; }
int64_t has_bfloat16(void)
{
#if defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}

/* --- memory of one call --- */

typedef struct {
    void *blocks[16];
    int count, failed;
} memory;

static void *need(memory *M, int64_t numbers)
{
    void *block = malloc((numbers + !numbers) * sizeof(float));
    M->failed |= !block;
    return M->blocks[M->count++] = block;
}

static int release(memory *M)
{
    while (M->count)
        free(M->blocks[--M->count]);
    return M->failed;
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

/* Copy a row of a panel. Called for each row, the library's function would be slow. */
INLINE void columns_copied(void *to, const void *from, int64_t size)
{
    if (size == PANEL)
        memcpy(to, from, PANEL * sizeof(float));
    else
        memcpy(to, from, size * sizeof(float));
}

/* `rows` rows and one panel, of which `size` columns are there; w_row numbers lie between two rows
   of w. `more` adds to out, `scale` may be missing. One row or two have several sums for each
   number, as an addition waits for the one before. */
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
    for (int i = 0; i < rows; i++, out += out_row) {
        /* with the address of `sum`, it would not stay in registers */
        lanes result[VECTORS], old[VECTORS] = {{0}};
        if (more)
            columns_copied(old, out, size);
        for (int v = 0; v < VECTORS; v++) {
            result[v] = sum[i][v];
            for (int way = 1; way < ways; way++)
                result[v] += sum[i + way * rows][v];
            if (scale)
                result[v] *= *(const lanes *)(scale + v * LANES);
            result[v] += old[v];
        }
        columns_copied(out, result, size);
    }
}

/* Add the products of LANES words of w with one of x; sums of EIGHTS are integers. */
INLINE lanes added(const int kind, lanes sum, uint32_t x, const void *w)
{
    if (kind == HALVES) {
#if defined(__AVX512BF16__)
        const __m512bh both = (__m512bh)_mm512_set1_epi32(x), from = (__m512bh)_mm512_loadu_si512(w);
        return (lanes)_mm512_dpbf16_ps((__m512)sum, both, from);
#else
        const wholes both = *(const wholes *)w, of_x = (wholes){0} + (int32_t)x;
        const int32_t high = (int32_t)0xffff0000;
        sum += (lanes)(both << 16) * (lanes)(of_x << 16);
        return sum + (lanes)(both & high) * (lanes)(of_x & high);
#endif
    }
    wholes whole = (wholes)sum;
#if defined(__AVX512VNNI__)
    const __m512i from = _mm512_loadu_si512(w);
    whole = (wholes)_mm512_dpbusd_epi32((__m512i)whole, _mm512_set1_epi32(x), from);
#elif defined(__AVX512BW__)
    const __m512i wide = _mm512_cvtepi8_epi16(_mm256_loadu_si256(w));
    whole += (wholes)_mm512_madd_epi16(_mm512_set1_epi32(x), wide);
#elif defined(__AVX2__) && !defined(__AVX512F__)
    const __m256i wide = _mm256_cvtepi8_epi16(_mm_loadu_si128(w));
    whole += (wholes)_mm256_madd_epi16(_mm256_set1_epi32(x), wide);
#else
    const int8_t *from = w;
    for (int lane = 0; lane < LANES; lane++)
        whole[lane] += (int16_t)x * from[2 * lane] + (int16_t)(x >> 16) * from[2 * lane + 1];
#endif
    return (lanes)whole;
}

/* The same as `tile` where x is (words, ROWS) words; x_scale, scale and sums are those of EIGHTS. */
INLINE void tile_of_words(const int rows, const int kind, int64_t words, const uint32_t *x,
                          const float *x_scale, const int8_t *w, const float *scale,
                          const int32_t *sums, int64_t size, float *out, int64_t out_row)
{
    const int bytes = kind == EIGHTS ? GROUP : 4; /* of w, for each word */
    lanes sum[ROWS][VECTORS] = {{{0}}};
    for (int64_t c = 0; c < words; c++, x += ROWS, w += PANEL * bytes)
        for (int i = 0; i < rows; i++)
            for (int v = 0; v < VECTORS; v++)
                sum[i][v] = added(kind, sum[i][v], x[i], w + v * LANES * bytes);
    for (int i = 0; i < rows; i++, out += out_row) {
        lanes result[VECTORS];
        for (int v = 0; v < VECTORS; v++) {
            result[v] = sum[i][v];
            if (kind == EIGHTS)
                result[v] = __builtin_convertvector((wholes)sum[i][v] -
                                                        *(const wholes *)(sums + v * LANES),
                                                    lanes) *
                            (x_scale[i] * *(const lanes *)(scale + v * LANES));
        }
        columns_copied(out, result, size);
    }
}

static int64_t filled_up(int64_t count, int64_t by) { return (count + by - 1) / by * by; }

/* Rows of a tile: 11 rows make 4, 4 and 3, which is faster than 5, 5 and 1. */
static int64_t height(int64_t rows)
{
    const int64_t tiles = filled_up(rows, ROWS) / ROWS;
    return filled_up(rows, tiles) / tiles;
}

/* Each height has code of its own. */
#define BY_ROWS(tile, ...)                                                                         \
    for (int64_t r = 0, high = height(rows); r < rows; r += high)                                  \
        switch (rows - r < high ? rows - r : high) {                                               \
        case 1: tile(1, __VA_ARGS__); break;                                                       \
        case 2: tile(2, __VA_ARGS__); break;                                                       \
        case 3: tile(3, __VA_ARGS__); break;                                                       \
        case 4: tile(4, __VA_ARGS__); break;                                                       \
        default: tile(ROWS, __VA_ARGS__);                                                          \
        }

static int64_t words_of(const matrix *W)
{
    const int64_t numbers = numbers_of_word(W->kind);
    return filled_up(W->k, numbers) / numbers;
}

/* Numbers that `rounded` makes of rows of k at most. */
static int64_t rounded_size(int64_t rows, int64_t k)
{
    return rows + filled_up(rows, ROWS) * (k + 1) / 2;
}

/* Make words of x's rows: a scale for each row, then (tiles, words, ROWS). */
static const float *rounded(int64_t rows, const matrix *W, const float *x, float *made)
{
    const int64_t k = W->k, words = words_of(W), numbers = numbers_of_word(W->kind);
    const int64_t high = height(rows);
    for (int64_t i = 0; i < rows; i++, x += k) {
        uint32_t *own = (uint32_t *)(made + rows) + i / high * ROWS * words + i % high;
        float most = 0;
#pragma omp simd reduction(max : most)
        for (int64_t c = 0; c < k; c++)
            most = fabsf(x[c]) > most ? fabsf(x[c]) : most;
        const float inverse = most > 0 ? 127 / most : 0;
        made[i] = most / 127;
        for (int64_t at = 0; at < words; at++) {
            uint32_t word = 0;
            for (int64_t j = 0, c = at * numbers; j < numbers && c < k; j++, c++) {
                uint32_t bits;
                memcpy(&bits, x + c, sizeof bits);
                bits = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* to nearest, ties to even */
                if (W->kind == EIGHTS)
                    bits = (int32_t)rintf(x[c] * inverse) + (GROUP == 4 ? 128 : 0);
                word |= (GROUP == 4 && W->kind == EIGHTS ? bits & 0xff : bits & 0xffff)
                        << 32 / numbers * j;
            }
            own[at * ROWS] = word;
        }
    }
    return made;
}

/* Panels begin to end - 1 of x W^T; out's first column is that of `begin`. Where x is in words, it
   is what `rounded` made. */
static void panels_product(int64_t rows, const matrix *W, int64_t begin, int64_t end,
                           const float *x, float *out, int64_t out_row)
{
    const int64_t k = W->k, words = words_of(W), bytes = W->kind == EIGHTS ? GROUP : 4;
    const uint32_t *x_words = (const uint32_t *)(x + rows);
    float wider[DEPTH * PANEL]; /* a part of a panel as floats, for many rows */
    for (int64_t p = begin; p < end; p++, out += PANEL) {
        const float *scale = W->scale ? W->scale + p * PANEL : 0;
        const int8_t *of_words = (const int8_t *)W->panels + p * words * bytes * PANEL;
        const int64_t size = W->n - p * PANEL < PANEL ? W->n - p * PANEL : PANEL;
        if (W->kind == EIGHTS)
            BY_ROWS(tile_of_words, EIGHTS, words, x_words + r / high * ROWS * words, x + r,
                    of_words, scale, W->sums + p * PANEL, size, out + r * out_row, out_row)
        if (W->kind == HALVES)
            BY_ROWS(tile_of_words, HALVES, words, x_words + r / high * ROWS * words, x, of_words,
                    0, 0, size, out + r * out_row, out_row)
        for (int64_t c = 0; c < k && W->kind < EIGHTS; c += DEPTH) {
            const int64_t deep = k - c < DEPTH ? k - c : DEPTH, at = (p * k + c) * PANEL;
            const float *w = (const float *)W->panels + at;
            if (W->kind == BYTES && rows <= ROWS) {
                const int8_t *narrow = (const int8_t *)W->panels + at;
                BY_ROWS(tile, BYTES, deep, x + c, k, narrow, PANEL, scale, c > 0, size, out,
                        out_row)
                continue;
            }
            for (int64_t j = 0; j < deep * PANEL && W->kind == BYTES; j += LANES)
                *(lanes *)(wider + j) = loaded(BYTES, W->panels, at + j);
            BY_ROWS(tile, FLOATS, deep, x + r * k + c, k, W->kind == BYTES ? wider : w, PANEL,
                    scale, c > 0, size, out + r * out_row, out_row)
        }
    }
}

static int64_t threads_for(int64_t multiplications, int64_t most)
{
    const int64_t count = multiplications / LARGE;
    return count < 1 ? 1 : count < most ? count : most;
}

static int64_t panels_of(const matrix *W) { return filled_up(W->n, PANEL) / PANEL; }

/* out, (rows, n), = x W^T; `more` has room for what `rounded` makes. */
static void product(int64_t threads, int64_t rows, const matrix *W, const float *x, float *out,
                    float *more)
{
    const int64_t count = panels_of(W), parts = threads_for(rows * W->n * W->k, threads);
    if (W->kind >= EIGHTS)
        x = rounded(rows, W, x, more);
#pragma omp parallel for num_threads(parts) if (parts > 1)
    for (int64_t part = 0; part < parts; part++) {
        const int64_t begin = part * count / parts, end = (part + 1) * count / parts;
        panels_product(rows, W, begin, end, x, out + begin * PANEL, W->n);
    }
}

/* Add alpha h to the `rows` hypotheses of a sentence with `length` annotations. */
static void add_context(int64_t rows, int64_t length, int64_t columns, const float *alpha,
                        int64_t alpha_row, const float *h, int64_t h_row, float *out,
                        int64_t out_row)
{
    int64_t c = 0;
    for (; c + PANEL <= columns; c += PANEL)
        BY_ROWS(tile, FLOATS, length, alpha + r * alpha_row, alpha_row, h + c, h_row, 0, 1, PANEL,
                out + r * out_row + c, out_row)
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < length; j++)
            for (int64_t b = c; b < columns; b++)
                out[i * out_row + b] += alpha[i * alpha_row + j] * h[j * h_row + b];
}

/* --- the parts --- */

static void embed(const embedding *E, int64_t m, int64_t word, float *y)
{
    const float *row = (const float *)E->rows + word * m;
    const int8_t *steps = (const int8_t *)E->rows + word * m;
    for (int64_t c = 0; c < m; c++)
        y[c] = (E->scale ? steps[c] * E->scale[word] : row[c]) + E->bias[c];
}

/* From h to `after`, given x, x_z and x_r; `zr` has room for 3n numbers of each row. */
static void unit_step(int64_t threads, int64_t rows, int64_t n, const matrix *gates,
                      const matrix *proposed, const float *x, int64_t x_row, const float *h,
                      float *after, float *zr, float *more)
{
    float *reset_h = zr + 2 * rows * n;
    product(threads, rows, gates, h, zr, more);
    for (int64_t i = 0; i < rows; i++) {
        float *own = zr + i * 2 * n;
        for (int64_t c = 0; c < 2 * n; c++)
            own[c] = sigmoid(own[c] + x[i * x_row + n + c]);
        for (int64_t c = 0; c < n; c++)
            reset_h[i * n + c] = own[n + c] * h[i * n + c];
    }
    product(threads, rows, proposed, reset_h, after, more);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < n; c++) {
            const float tilde = hyperbolic_tangent(after[i * n + c] + x[i * x_row + c]);
            after[i * n + c] = h[i * n + c] + zr[i * 2 * n + c] * (tilde - h[i * n + c]);
        }
}

/* Encode sentences, one after the other without padding, longest first. `notes` has a row for each
   position, or for RNNencdec for each sentence; s_0 a row for each sentence. Return whether there
   was too little memory. */
int64_t encode(const network *N, int64_t threads, int64_t sentences, const int32_t *length,
               const int32_t *first, const int32_t *words, int64_t positions, float *notes,
               float *s_0)
{
    const int64_t n = N->n, m = N->source_m, both = N->backward.gates.n ? 2 : 1;
    const int64_t deep = m > both * n ? m : both * n;
    memory M = {0};
    float *y = need(&M, positions * m), *inputs = need(&M, positions * 3 * n);
    float *states = need(&M, positions * both * n), *x = need(&M, sentences * 3 * n);
    float *h = need(&M, sentences * n), *after = need(&M, sentences * n);
    float *zr = need(&M, sentences * 3 * n);
    float *more = need(&M, rounded_size(positions, deep));
    for (int64_t i = 0; i < positions && !M.failed; i++)
        embed(&N->source, m, words[i], y + i * m);
    for (int64_t half = 0; half < both && !M.failed; half++) {
        const unit *f = half ? &N->backward : &N->forward;
        product(threads, positions, &f->inputs, y, inputs, more);
        memset(h, 0, sentences * n * sizeof *h);
        for (int64_t j = 0; j < length[0]; j++) {
            const int64_t t = half ? length[0] - 1 - j : j;
            int64_t alive = sentences; /* those that have a word here */
            while (length[alive - 1] <= t)
                alive--;
            for (int64_t i = 0; i < alive; i++)
                for (int64_t c = 0; c < 3 * n; c++)
                    x[i * 3 * n + c] = inputs[(first[i] + t) * 3 * n + c] + f->bias[c];
            unit_step(threads, alive, n, &f->gates, &f->proposed, x, 3 * n, h, after, zr, more);
            memcpy(h, after, alive * n * sizeof *h);
            for (int64_t i = 0; i < alive; i++)
                memcpy(states + ((first[i] + t) * both + half) * n, h + i * n, n * sizeof *h);
        }
    }
    if (!M.failed) {
        product(threads, sentences, &N->initial, h, s_0, more);
        for (int64_t i = 0; i < sentences; i++)
            for (int64_t c = 0; c < N->d; c++)
                s_0[i * N->d + c] = hyperbolic_tangent(s_0[i * N->d + c] + N->initial_bias[c]);
        if (N->keys)
            product(threads, positions, &N->notes, states, notes, more);
        else
            product(threads, sentences, &N->notes, h, notes, more);
    }
    return release(&M);
}

/* --- a step of the search: there are `width` adjacent rows, the hypotheses, for each sentence --- */

typedef struct {
    int64_t threads, sentences, width, source, k, is_first, has_alpha; /* the last: it is given */
    const int32_t *length, *first; /* of each sentence's notes */
    const float *notes;
    const int32_t *previous, *parents; /* of each row; previous words not in the first step */
    const float *scores;               /* of each row */
    const int32_t *only;               /* of each sentence: the one word allowed, or -1 */
    const uint8_t *no_end;             /* of each sentence */
    const int32_t *forbidden, *forbidden_end; /* words, and where those of each row end; or null */
    const float *alpha_before, *s_before;
    float *alpha, *s_after;
    float *rest;  /* (rows, 2 l): what maxout takes besides the context */
    float *value; /* (sentences, k), best first */
    int32_t *word, *hypothesis;
    float *log_p; /* (rows, words) of all words; then none is chosen */
    double unk_penalty, temperature;
} search;

/* Weights of all rows, from W_a s in `query`. */
static void align(const network *N, const search *q, const float *query)
{
    const int64_t columns = N->notes.n, row = N->query.n, rows = q->sentences * q->width;
    const int64_t parts = threads_for(16 * rows * q->source * N->keys, q->threads);
#pragma omp parallel for num_threads(parts) if (parts > 1)
    for (int64_t i = 0; i < rows; i++) {
        const int64_t sentence = i / q->width, T = q->length[sentence];
        const float *key = q->notes + (q->first[sentence] + 1) * columns - N->keys;
        float *alpha = q->alpha + i * q->source;
        attend(T, N->keys, key, columns, query + i * row, N->energy, 0, alpha);
        memset(alpha + T, 0, (q->source - T) * sizeof *alpha);
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

/* What a part of the dictionary gives a row: the largest logit, the sum of e^(logit - largest), and
   how many of its best words there are. */
typedef struct {
    float most, sum;
    int64_t count;
} found;

static void words_of_part(const network *N, const search *q, const float *t, int64_t part,
                          int64_t parts, int64_t kept, float *logits, found *of_rows,
                          candidate *best_of_rows)
{
    const int64_t rows = q->sentences * q->width, symbols = N->output.n, at_once = BLOCK / PANEL;
    const int64_t panels = panels_of(&N->output), to = (part + 1) * panels / parts;
    const float warmth = 1 / q->temperature;
    for (int64_t i = 0; i < rows; i++)
        of_rows[i] = (found){-INFINITY, 0, 0};
    for (int64_t p = part * panels / parts; p < to; p += at_once) {
        const int64_t end = p + at_once < to ? p + at_once : to, first = p * PANEL;
        const int64_t size = (end * PANEL < symbols ? end * PANEL : symbols) - first;
        panels_product(rows, &N->output, p, end, t, logits, BLOCK);
        for (int64_t i = 0; i < rows; i++) {
            const int64_t sentence = i / q->width, given = q->only[sentence];
            candidate *best = best_of_rows + i * kept;
            float *x = logits + i * BLOCK, of_run[BLOCK / RUN], largest = of_rows[i].most, sum = 0;
            for (int64_t b = 0; b < size; b += RUN) {
                float most = -INFINITY;
#pragma omp simd reduction(max : most)
                for (int64_t c = b; c < (b + RUN < size ? b + RUN : size); c++) {
                    x[c] = (x[c] + N->output_bias[first + c]) * warmth;
                    most = x[c] > most ? x[c] : most;
                }
                of_run[b / RUN] = most;
                largest = most > largest ? most : largest;
            }
#pragma omp simd reduction(+ : sum)
            for (int64_t c = 0; c < size; c++)
                sum += exponential(x[c] - largest);
            if (of_rows[i].most != largest)
                of_rows[i].sum *= exponential(of_rows[i].most - largest);
            of_rows[i].sum += sum;
            of_rows[i].most = largest;
            if (q->log_p) {
                memcpy(q->log_p + i * symbols + first, x, size * sizeof *x);
                continue;
            }
#define AT(word) if ((word) >= first && (word) < first + size) x[(word) - first]
            AT(N->unk) -= q->unk_penalty;
            if (given >= 0) {
                if (given >= first && given < first + size)
                    best[of_rows[i].count++] = (candidate){x[given - first], given, 0};
                continue;
            }
            AT(N->pad) = -INFINITY;
            AT(q->no_end[sentence] ? N->eos : -1) = -INFINITY;
            if (q->forbidden)
                for (int64_t f = i ? q->forbidden_end[i - 1] : 0; f < q->forbidden_end[i]; f++)
                    AT(q->forbidden[f]) = -INFINITY;
#undef AT
            int64_t count = of_rows[i].count;
            for (int64_t b = 0; b < size; b += RUN) {
                if (count == kept && !(of_run[b / RUN] > best[kept - 1].value))
                    continue; /* as nearly every run */
                for (int64_t c = b; c < (b + RUN < size ? b + RUN : size); c++)
                    count = inserted(count, kept, (candidate){x[c], first + c, 0}, best);
            }
            of_rows[i].count = count;
        }
    }
}

/* The k best words of a sentence's hypotheses, from those of all parts; or log p of all words. */
static void choose(const network *N, const search *q, int64_t sentence, int64_t parts, int64_t kept,
                   const found *of_rows, const candidate *best_of_rows, candidate *best)
{
    const int64_t rows = q->sentences * q->width, all = parts * rows;
    int64_t count = 0;
    for (int64_t h = 0, i = sentence * q->width; h < q->width; h++, i++) {
        float most = -INFINITY, sum = 0;
        for (int64_t row = i; row < all; row += rows)
            most = of_rows[row].most > most ? of_rows[row].most : most;
        for (int64_t row = i; row < all; row += rows)
            sum += of_rows[row].sum * exponential(of_rows[row].most - most);
        const float less = most + logf(sum);
        for (int64_t c = 0; c < N->output.n && q->log_p; c++)
            q->log_p[i * N->output.n + c] -= less;
        for (int64_t row = i; row < all; row += rows)
            for (int64_t c = 0; c < of_rows[row].count; c++) {
                const candidate own = best_of_rows[row * kept + c];
                const float value = own.value - less + q->scores[i];
                count = inserted(count, q->k, (candidate){value, own.word, h}, best);
            }
    }
    for (int64_t c = 0, at = sentence * q->k; c < q->k && !q->log_p; c++, at++) {
        /* with one word allowed, there are no others */
        const candidate own = c < count ? best[c] : (candidate){-INFINITY, N->pad, 0};
        q->value[at] = own.value, q->word[at] = own.word, q->hypothesis[at] = own.hypothesis;
    }
}

/* Make x's rows, [W e(y) + b, V_o e(y) + b] with the biases of all, of the previous words. Another
   thread may make the same row of `of_words`, of the same numbers. */
static void read_words(const network *N, const search *q, float *x, float *y, float *made,
                       int32_t *anew, float *more)
{
    const int64_t columns = N->word.n;
    int64_t count = 0;
    for (int64_t i = 0; i < q->sentences * q->width; i++) {
        const int64_t word = q->previous[i];
        if (word < N->kept && __atomic_load_n(N->is_known + word, __ATOMIC_ACQUIRE)) {
            memcpy(x + i * columns, N->of_words + word * columns, columns * sizeof *x);
            continue;
        }
        embed(&N->target, N->m, word, y + count * N->m);
        anew[count++] = i;
    }
    if (count)
        product(q->threads, count, &N->word, y, made, more);
    for (int64_t j = 0; j < count; j++) {
        const int64_t word = q->previous[anew[j]];
        float *own = x + anew[j] * columns;
        for (int64_t c = 0; c < columns; c++)
            own[c] = made[j * columns + c] + N->word_bias[c];
        if (word < N->kept) {
            memcpy(N->of_words + word * columns, own, columns * sizeof *own);
            __atomic_store_n(N->is_known + word, 1, __ATOMIC_RELEASE);
        }
    }
}

static void maxout(int64_t l, const float *x, float *t)
{
    for (int64_t c = 0; c < l; c++) {
        const float one = x[2 * c], other = x[2 * c + 1];
        t[c] = one > other || one != one ? one : other; /* NaN stays */
    }
}

/* Choose words, given t of each row. Return whether there was too little memory. */
static int64_t read_out(const network *N, const search *q, const float *t)
{
    const int64_t rows = q->sentences * q->width, threads = q->threads, inner = N->inner.n;
    const int64_t kept = q->k < N->output.n ? q->k : N->output.n;
    memory M = {0};
    float *logits = need(&M, threads * rows * BLOCK), *made_t = need(&M, rows * inner);
    float *more = need(&M, rounded_size(rows, N->output.k > N->l ? N->output.k : N->l));
    found *of_rows = need(&M, threads * rows * sizeof(found) / sizeof(float));
    candidate *best = need(&M, 3 * (threads * rows * kept + q->sentences * q->k));
    if (M.failed)
        return release(&M);
    if (inner) {
        product(threads, rows, &N->inner, t, made_t, more);
        t = made_t;
    }
    const float *read = N->output.kind < EIGHTS ? t : rounded(rows, &N->output, t, more);
    const int64_t parts = threads_for(rows * N->output.n * N->output.k, threads);
#pragma omp parallel for num_threads(parts) if (parts > 1)
    for (int64_t part = 0; part < parts; part++)
        words_of_part(N, q, read, part, parts, kept, logits + part * rows * BLOCK,
                      of_rows + part * rows, best + part * rows * kept);
    candidate *chosen = best + parts * rows * kept;
    for (int64_t i = 0; i < q->sentences; i++)
        choose(N, q, i, parts, kept, of_rows, best, chosen + i * q->k);
    return release(&M);
}

/* Take one step: read the previous words, attend, and choose words. Return whether there was too
   little memory. */
int64_t step(const network *N, const search *q)
{
    const int64_t rows = q->sentences * q->width, threads = q->threads, d = N->d, l = N->l;
    const int64_t columns = 3 * d + 2 * l, note = N->notes.n, row = N->query.n, T = q->source;
    const int attends = N->keys && !q->has_alpha, is_program = N->order == PROGRAM;
    memory M = {0};
    float *x = need(&M, rows * columns), *s = need(&M, rows * d), *y = need(&M, rows * N->m);
    float *zr = need(&M, rows * 3 * d), *query = need(&M, rows * row), *t = need(&M, rows * l);
    float *before = need(&M, rows * T), *made_x = need(&M, rows * columns);
    int32_t *anew = need(&M, rows);
    float *more = need(&M, rounded_size(rows, d > N->m ? d : N->m));
    if (M.failed)
        return release(&M);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t parent = q->parents ? q->parents[i] : i;
        memcpy(s + i * d, q->s_before + parent * d, d * sizeof *s);
        if (q->is_first) /* e(y_0) is zero, without the bias */
            memcpy(x + i * columns, N->word_bias, columns * sizeof *x);
        else
            memcpy(before + i * T, q->alpha_before + parent * T, T * sizeof *before);
    }
    if (!q->is_first)
        read_words(N, q, x, y, made_x, anew, more);
    for (int64_t i = 0; i < rows && !N->keys; i++)
        q->alpha[i] = 1;
    if (!is_program) {
        product(threads, rows, &N->query, s, query, more);
        if (attends)
            align(N, q, query);
    }
    if (is_program && q->is_first)
        memcpy(q->s_after, s, rows * d * sizeof *s);
    else {
        const float *alpha = is_program ? before : q->alpha;
        for (int64_t i = 0, at = 0; i < q->sentences; i++, at += q->width)
            add_context(q->width, q->length[i], 3 * d, alpha + at * T, T,
                        q->notes + q->first[i] * note, note, x + at * columns, columns);
        unit_step(threads, rows, d, &N->gates, &N->proposed, x, columns, s, q->s_after, zr, more);
    }
    if (N->order != APPENDIX) {
        product(threads, rows, &N->query, q->s_after, query, more);
        if (is_program && attends)
            align(N, q, query);
    }
    for (int64_t i = 0; i < rows; i++) {
        float *rest = x + i * columns + 3 * d;
        for (int64_t c = 0; c < 2 * l; c++)
            rest[c] += query[i * row + N->keys + c];
        memcpy(q->rest + i * 2 * l, rest, 2 * l * sizeof *rest);
    }
    for (int64_t i = 0, at = 0; i < q->sentences; i++, at += q->width)
        add_context(q->width, q->length[i], 2 * l, q->alpha + at * T, T,
                    q->notes + q->first[i] * note + 3 * d, note, x + at * columns + 3 * d, columns);
    for (int64_t i = 0; i < rows; i++)
        maxout(l, x + i * columns + 3 * d, t + i * l);
    const int64_t failed = read_out(N, q, t);
    return release(&M) || failed;
}

/* log p of each sentence's one allowed word at the step just taken, had the context been one
   annotation alone: a number for each annotation of each sentence. As many rows as the nearest cache
   has room for are read out together. Return whether there was too little memory. */
int64_t each_alone(const network *N, const search *q, float *value)
{
    enum { TOGETHER = 24 * ROWS };
    const int64_t l = N->l;
    int32_t only[TOGETHER], unread[2 * TOGETHER];
    float scores[TOGETHER] = {0};
    search own = *q;
    memory M = {0};
    float *t = need(&M, TOGETHER * l), *x = need(&M, 2 * l);
    own.only = only, own.scores = scores, own.word = unread, own.hypothesis = unread + TOGETHER;
    own.sentences = 0;
    for (int64_t i = 0; i < q->sentences; i++)
        for (int64_t j = 0; j < q->length[i] && !M.failed; j++) {
            const float *rest = q->rest + i * 2 * l;
            const float *note = q->notes + (q->first[i] + j) * N->notes.n + 3 * N->d;
            for (int64_t c = 0; c < 2 * l; c++)
                x[c] = rest[c] + note[c];
            maxout(l, x, t + own.sentences * l);
            only[own.sentences++] = q->only[i];
            if (own.sentences == TOGETHER || (i + 1 == q->sentences && j + 1 == q->length[i])) {
                own.value = value;
                M.failed |= read_out(N, &own, t);
                value += own.sentences;
                own.sentences = 0;
            }
        }
    return release(&M);
}
