/* The best words of a step; candidates.py compiles this file. */

#include <math.h>
#include <stdint.h>

#ifdef DOUBLE
typedef double real;
#else
typedef float real;
#endif

enum { RUN = 64 };

/* For each sentence, the k best words of its `width` hypotheses. NaN counts as minus infinity. */
void best_words(int64_t threads, int64_t sentences, int64_t width, int64_t words, int64_t k,
                const real *lprobs, const real *scores, real *best_value, int64_t *best_word,
                int64_t *best_hypothesis)
{
#pragma omp parallel for num_threads(threads) if (sentences > 1)
    for (int64_t i = 0; i < sentences; i++) {
        real *value = best_value + i * k;
        int64_t *word = best_word + i * k, *hypothesis = best_hypothesis + i * k, found = 0;
        for (int64_t h = 0; h < width; h++)
            for (int64_t begin = 0; begin < words; begin += RUN) {
                const int64_t size = words - begin < RUN ? words - begin : RUN;
                const real *x = lprobs + (i * width + h) * words + begin;
                const real score = scores[i * width + h];
                real most = -INFINITY;
#pragma omp simd reduction(max : most)
                for (int64_t j = 0; j < size; j++)
                    most = x[j] > most ? x[j] : most;
                if (found == k && !(most + score > value[k - 1]))
                    continue; /* as nearly every run */
                for (int64_t j = 0; j < size; j++) {
                    const real total = x[j] + score, own = total == total ? total : -INFINITY;
                    if (found == k && !(own > value[k - 1]))
                        continue;
                    int64_t place = found < k ? found++ : k - 1;
                    for (; place > 0 && own > value[place - 1]; place--) {
                        value[place] = value[place - 1];
                        word[place] = word[place - 1];
                        hypothesis[place] = hypothesis[place - 1];
                    }
                    value[place] = own;
                    word[place] = begin + j;
                    hypothesis[place] = h;
                }
            }
    }
}
