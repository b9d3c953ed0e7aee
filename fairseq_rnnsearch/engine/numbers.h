/* Functions of numbers that vectorise, unlike the library's: for engine.c and operations.c. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef DOUBLE
typedef double real;
#else
typedef float real;
#endif

/* operands of products: float, double or (BFLOAT16) bfloat16, whose sums are in float */
#ifdef BFLOAT16
typedef uint16_t stored;
#else
typedef real stored;
#endif

static inline real load(stored x)
{
#ifdef BFLOAT16
    uint32_t bits = (uint32_t)x << 16;
    float y;
    memcpy(&y, &bits, sizeof y);
    return y;
#else
    return x;
#endif
}

static inline real clamped(real x, real least, real most)
{
    return x < least ? least : x > most ? most : x; /* NaN stays */
}

#ifndef DOUBLE
/* e^x as 2^k and, in `rest`, e^r - 1, with x = k ln(2) + r and |r| <= ln(2) / 2, by the polynomial
   of Cephes' expf. Below -87.7, 2^k is 0, above 88.4 infinite; x lies between -88 and 89. With
   -fassociative-math it would be wrong. */
static inline float power_of_two(float x, float *rest)
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
#endif

/* e^x to two units in the last place; 0 or infinity if that is not a normal float */
static inline real exponential(real x)
{
#ifdef DOUBLE
    return exp(x);
#else
    float rest, power = power_of_two(clamped(x, -88, 89), &rest);
    return (rest + 1) * power;
#endif
}

static inline real sigmoid(real x)
{
    return 1 / (1 + exponential(-x));
}

/* From e^2x - 1, whose relative error stays small for small x; e^2x itself, near 1, would lose the
   digits of x. */
static inline real hyperbolic_tangent(real x)
{
#ifdef DOUBLE
    return tanh(x);
#else
    float rest, power = power_of_two(clamped(2 * x, -40, 40), &rest);
    float less_one = rest * power + (power - 1);
    return less_one / (less_one + 2);
#endif
}

/* A row of alignment weights: the softmax of v . tanh(query + key), over the keys that are not
   `absent`, which may be missing. There are `key_row` numbers between two keys. */
static inline void attend(int64_t source, int64_t n, const real *key, int64_t key_row,
                          const stored *query, const real *v, const uint8_t *absent, real *alpha)
{
    real most = -INFINITY, sum = 0;
    for (int64_t j = 0; j < source; j++, key += key_row) {
        real energy = -INFINITY;
        if (!absent || !absent[j]) {
            energy = 0;
#pragma omp simd reduction(+ : energy)
            for (int64_t k = 0; k < n; k++)
                energy += v[k] * hyperbolic_tangent(key[k] + load(query[k]));
        }
        alpha[j] = energy;
        most = energy <= most ? most : energy;
    }
    for (int64_t j = 0; j < source; j++)
        sum += alpha[j] = absent && absent[j] ? 0 : exponential(alpha[j] - most);
    for (int64_t j = 0; j < source; j++)
        alpha[j] /= sum;
}
