/* The functions of operations.py, which describes them, each in one pass through memory. The file is
   compiled for one type of the products' operands. `..._row` is a matrix's row stride, in numbers. */

#include "numbers.h"

/* fewer numbers are not worth a second thread */
#define SMALL 16384

static inline stored store(real x)
{
#ifdef BFLOAT16
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16; /* to nearest, ties to even */
    return x == x ? rounded : 0x7fc0;
#else
    return x;
#endif
}

/* out = squash(inputs + recurrent + context), where `context` may be missing */
#define SQUASH_SUM(squash, out, inputs, recurrent, context, n)                                     \
    if (context) {                                                                                 \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++)                                        \
            (out)[k] = squash((inputs)[k] + load((recurrent)[k]) + load((context)[k]));            \
    } else {                                                                                       \
        _Pragma("omp simd") for (int64_t k = 0; k < n; k++)                                        \
            (out)[k] = squash((inputs)[k] + load((recurrent)[k]));                                 \
    }

void unit_gates(int64_t threads, int64_t rows, int64_t n, const real *inputs, int64_t inputs_row,
                const stored *recurrent, int64_t recurrent_row, const stored *context,
                int64_t context_row, const real *state, const real *present, real *unit,
                stored *reset_state)
{
#pragma omp parallel for num_threads(threads) if (rows * n > SMALL)
    for (int64_t i = 0; i < rows; i++) {
        const real *x = inputs + i * inputs_row, *h = state + i * n;
        const stored *Uh = recurrent + i * recurrent_row;
        const stored *Cc = context ? context + i * context_row : 0;
        real *z = unit + i * 3 * n + n, *r = z + n;
        const real here = present ? present[i] : 1;
        stored *out = reset_state + i * n;
        SQUASH_SUM(sigmoid, z, x, Uh, Cc, 2 * n)
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            z[k] *= here;
            out[k] = store(r[k] * h[k]);
        }
    }
}

void unit_state(int64_t threads, int64_t rows, int64_t n, const real *inputs, int64_t inputs_row,
                const stored *recurrent, int64_t recurrent_row, const stored *context,
                int64_t context_row, const real *state, real *unit, real *new_state)
{
#pragma omp parallel for num_threads(threads) if (rows * n > SMALL)
    for (int64_t i = 0; i < rows; i++) {
        const real *x = inputs + i * inputs_row, *h = state + i * n;
        const stored *Uq = recurrent + i * recurrent_row;
        const stored *Cc = context ? context + i * context_row : 0;
        real *proposed = unit + i * 3 * n, *z = proposed + n, *out = new_state + i * n;
        SQUASH_SUM(hyperbolic_tangent, proposed, x, Uq, Cc, n)
#pragma omp simd
        for (int64_t k = 0; k < n; k++)
            out[k] = h[k] + z[k] * (proposed[k] - h[k]);
    }
}

/* (1), (2) and the first term of (5) in recurrence.py */
void unit_backward(int64_t threads, int64_t rows, int64_t n, real *d_state, const stored *d_output,
                   int64_t d_output_row, const stored *d_from_product, int64_t d_from_product_row,
                   const real *unit, const real *state, stored *d_inputs, int64_t d_inputs_row)
{
#pragma omp parallel for num_threads(threads) if (rows * n > SMALL)
    for (int64_t i = 0; i < rows; i++) {
        const real *proposed = unit + i * 3 * n, *z = proposed + n, *h = state + i * n;
        const stored *from_output = d_output ? d_output + i * d_output_row : 0;
        const stored *from_product = d_from_product ? d_from_product + i * d_from_product_row : 0;
        real *d_h = d_state + i * n;
        stored *d_proposed = d_inputs + i * d_inputs_row, *d_z = d_proposed + n;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            real d = d_h[k] + (from_output ? load(from_output[k]) : 0) +
                     (from_product ? load(from_product[k]) : 0);
            real changed = d * z[k];
            d_z[k] = store(d * (proposed[k] - h[k]) * z[k] * (1 - z[k]));
            d_proposed[k] = store(changed * (1 - proposed[k] * proposed[k]));
            d_h[k] = d - changed;
        }
    }
}

/* (4) and the second term of (5) in recurrence.py */
void unit_backward_reset(int64_t threads, int64_t rows, int64_t n, real *d_state,
                         const stored *d_reset_state, const real *unit, const real *state,
                         stored *d_inputs, int64_t d_inputs_row)
{
#pragma omp parallel for num_threads(threads) if (rows * n > SMALL)
    for (int64_t i = 0; i < rows; i++) {
        const real *r = unit + i * 3 * n + 2 * n, *h = state + i * n;
        const stored *d_q = d_reset_state + i * n;
        real *d_h = d_state + i * n;
        stored *d_r = d_inputs + i * d_inputs_row + 2 * n;
#pragma omp simd
        for (int64_t k = 0; k < n; k++) {
            real d = load(d_q[k]);
            d_r[k] = store(d * h[k] * r[k] * (1 - r[k]));
            d_h[k] += d * r[k];
        }
    }
}

void align(int64_t threads, int64_t sentences, int64_t source, int64_t n, const real *keys,
           const stored *query, int64_t query_row, const real *v, const uint8_t *padding,
           real *alpha)
{
#pragma omp parallel for num_threads(threads) if (sentences * source * n > SMALL)
    for (int64_t i = 0; i < sentences; i++)
        attend(source, n, keys + i * source * n, n, query + i * query_row, v, padding + i * source,
               alpha + i * source);
}

/* (5) to (8) in decoder_loop.py; d_v and scratch have a row for each thread */
void align_backward(int64_t threads, int64_t sentences, int64_t source, int64_t n,
                    const real *keys, const stored *query, int64_t query_row, const real *v,
                    const real *alpha, const real *d_alpha, real *d_keys, real *d_v,
                    stored *d_query, int64_t d_query_row, real *scratch)
{
    const int64_t share = (sentences + threads - 1) / threads; /* of a thread */
    if (sentences == 0)
        return;
#pragma omp parallel for num_threads(threads) schedule(static, share)
    for (int64_t i = 0; i < sentences; i++) {
        const stored *qi = query + i * query_row;
        const real *ai = alpha + i * source, *di = d_alpha + i * source;
        real *own_d_v = d_v + i / share * n, *dq = scratch + i / share * n, mean = 0;
        memset(dq, 0, n * sizeof *dq);
        for (int64_t j = 0; j < source; j++)
            mean += ai[j] * di[j];
        for (int64_t j = 0; j < source; j++) {
            const real de = ai[j] * (di[j] - mean), *key = keys + (i * source + j) * n;
            real *dk = d_keys + (i * source + j) * n;
            if (de == 0)
                continue;
#pragma omp simd
            for (int64_t k = 0; k < n; k++) {
                real t = hyperbolic_tangent(key[k] + load(qi[k]));
                real back = de * v[k] * (1 - t * t);
                own_d_v[k] += de * t;
                dk[k] += back;
                dq[k] += back;
            }
        }
        for (int64_t k = 0; k < n; k++)
            d_query[i * d_query_row + k] = store(dq[k]);
    }
}

/* Return the largest x; e is e^(x - largest), and `sum` and `below` add up e and x - largest. */
static inline real exponentials(int64_t symbols, const stored *x, real *e, real *sum, real *below)
{
    real most = -INFINITY, of_e = 0, of_x = 0;
#pragma omp simd reduction(max : most)
    for (int64_t k = 0; k < symbols; k++) {
        real value = load(x[k]);
        most = value > most ? value : most;
    }
#pragma omp simd reduction(+ : of_e) reduction(+ : of_x)
    for (int64_t k = 0; k < symbols; k++) {
        real less = load(x[k]) - most;
        of_e += e[k] = exponential(less);
        of_x += less;
    }
    *sum = of_e;
    *below = of_x;
    return most;
}

/* d_bias and scratch have a row of `symbols` numbers for each thread; d_logits may be missing. */
void cost_of_words(int64_t threads, int64_t rows, int64_t symbols, const stored *logits,
                   const int64_t *words, double kept, double spread, real *nll, real *total,
                   stored *d_logits, real *d_bias, real *scratch)
{
    const int64_t share = (rows + threads - 1) / threads; /* of a thread */
    if (rows == 0)
        return;
#pragma omp parallel for num_threads(threads) schedule(static, share)
    for (int64_t i = 0; i < rows; i++) {
        const stored *x = logits + i * symbols;
        real *p = scratch + i / share * symbols, *own_d_bias = d_bias + i / share * symbols;
        real sum, all;
        const real most = exponentials(symbols, x, p, &sum, &all);
        /* subtract the largest first: beside it, the logarithm could vanish */
        const real log_sum = log(sum);
        nll[i] = log_sum - (load(x[words[i]]) - most);
        total[i] = symbols * log_sum - all;
        if (!d_logits)
            continue;
        stored *d_x = d_logits + i * symbols;
        const real scale = 1 / sum, less = spread;
        p[words[i]] -= (real)kept * sum;
#pragma omp simd
        for (int64_t k = 0; k < symbols; k++) {
            real d = p[k] * scale - less;
            own_d_bias[k] += d;
            d_x[k] = store(d);
        }
    }
}

/* The costs of kernels/rdrop.py: for each word the cost, the mean of -log p and the
   divergence. A sentence's readings are adjacent; scratch has two rows for each thread. */
void rdrop_cost(int64_t threads, int64_t sentences, int64_t target, int64_t symbols,
                const stored *logits, const int64_t *words, const uint8_t *present,
                double smoothing, double alpha, real *costs, stored *d_logits, real *scratch)
{
    const int64_t count = sentences * target, share = (count + threads - 1) / threads;
    const real spread = smoothing / (symbols - 1), right = 1 - smoothing - spread, pull = alpha / 4;
    if (count == 0)
        return;
#pragma omp parallel for num_threads(threads) schedule(static, share)
    for (int64_t i = 0; i < count; i++) {
        const int64_t first = (i / target * 2 * target + i % target) * symbols;
        const int64_t rows[2] = {first, first + target * symbols};
        real *e[2] = {scratch + i / share * 2 * symbols, scratch + (i / share * 2 + 1) * symbols};
        real most[2], scale[2], log_sum[2], of_word = 0, all = 0;
        if (!present[i]) {
            memset(d_logits + rows[0], 0, symbols * sizeof *d_logits);
            memset(d_logits + rows[1], 0, symbols * sizeof *d_logits);
            memset(costs + 3 * i, 0, 3 * sizeof *costs);
            continue;
        }
        for (int reading = 0; reading < 2; reading++) {
            const stored *x = logits + rows[reading];
            real sum, below;
            most[reading] = exponentials(symbols, x, e[reading], &sum, &below);
            scale[reading] = 1 / sum;
            log_sum[reading] = log(sum);
            of_word += load(x[words[i]]) - most[reading] - log_sum[reading];
            all += below - symbols * log_sum[reading];
        }
        const stored *x = logits + rows[0], *y = logits + rows[1];
        const real between = log_sum[1] - log_sum[0];
        real p_d = 0, q_d = 0;
#pragma omp simd reduction(+ : p_d) reduction(+ : q_d)
        for (int64_t k = 0; k < symbols; k++) {
            real d = (load(x[k]) - most[0]) - (load(y[k]) - most[1]) + between;
            p_d += (e[0][k] *= scale[0]) * d;
            q_d += (e[1][k] *= scale[1]) * d;
        }
        costs[3 * i] = pull * (p_d - q_d) - (right * of_word + spread * all) / 2;
        costs[3 * i + 1] = -of_word / 2;
        costs[3 * i + 2] = (p_d - q_d) / 2;
        stored *d_x = d_logits + rows[0], *d_y = d_logits + rows[1];
        const int64_t word = words[i];
#pragma omp simd
        for (int64_t k = 0; k < symbols; k++) {
            real d = (load(x[k]) - most[0]) - (load(y[k]) - most[1]) + between;
            real p = e[0][k], q = e[1][k], difference = p - q;
            real wanted = k == word ? right + spread : spread;
            d_x[k] = store(pull * (p * (d - p_d) + difference) + (p - wanted) / 2);
            d_y[k] = store((q - wanted) / 2 - pull * (q * (d - q_d) + difference));
        }
    }
}
