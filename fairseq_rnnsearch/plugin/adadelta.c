/* An update of Adadelta in one pass over memory; `adadelta.py` has the equations.

   `number` is the parameters' type. Threads share the numbers of one parameter. */

#include <math.h>
#include <stdint.h>

#ifdef DOUBLE
typedef double number;
#define ROOT sqrt
#else
typedef float number;
#define ROOT sqrtf
#endif

enum { FEW = 1 << 14, PIECES = 64 }; /* with fewer numbers, to start threads takes longer */

/* The number of threads changes neither the pieces of the sum nor its rounding. */
void sum_of_squares(int64_t threads, int64_t count, const number *x, double *sum)
{
    double sums[PIECES];
#pragma omp parallel for num_threads(threads) if (count > FEW) schedule(static)
    for (int64_t piece = 0; piece < PIECES; piece++) {
        double squares = 0;
        int64_t end = count * (piece + 1) / PIECES;
#pragma omp simd reduction(+ : squares)
        for (int64_t i = count * piece / PIECES; i < end; i++)
            squares += (double)x[i] * x[i];
        sums[piece] = squares;
    }
    *sum = 0;
    for (int64_t piece = 0; piece < PIECES; piece++)
        *sum += sums[piece];
}

void update(int64_t threads, int64_t count, number *parameter, const number *gradient,
            number *square_avg, number *acc_delta, double rho_, double eps_, double decay_,
            double step_, double factor_)
{
    const number rho = rho_, rest = 1 - rho_, eps = eps_, decay = decay_, step = step_;
    const number factor = factor_;
#pragma omp parallel for simd num_threads(threads) if (count > FEW) schedule(static)
    for (int64_t i = 0; i < count; i++) {
        number g = factor * gradient[i] + decay * parameter[i];
        number e_g = rho * square_avg[i] + rest * (g * g);
        number delta = ROOT(acc_delta[i] + eps) / ROOT(e_g + eps) * g;
        square_avg[i] = e_g;
        acc_delta[i] = rho * acc_delta[i] + rest * (delta * delta);
        parameter[i] -= step * delta;
    }
}
