/* The nearest of many fingerprints by Tanimoto similarity |a and b| / |a or b|: see kernels.h.

   References are taken in panels, whose bits are transposed: plane b has bit b of every reference of the panel. The
   bits that a row has in common with all of them are then counted at once, by adding the planes of its own bits into
   counters that are spread over words: bit r of level k is the k-th binary digit of the count of reference r. */

#include "kernels.h"

enum { WIDE = 8, PANEL = 64 * WIDE, LEVELS = 24 };

typedef uint64_t Level[WIDE];

static uint64_t word(const unsigned char *bits, int64_t number) {
    uint64_t loaded; /* rows of a mapped file need not begin at a multiple of eight */
    memcpy(&loaded, bits + 8 * number, sizeof loaded);
    return loaded;
}

/* The numbers of the bits that a row has, and how many. */
static int64_t numbers_of(int64_t *restrict numbers, const unsigned char *row, int64_t words) {
    int64_t count = 0;
    for (int64_t w = 0; w < words; w++)
        for (uint64_t rest = word(row, w); rest; rest &= rest - 1) numbers[count++] = 64 * w + __builtin_ctzll(rest);
    return count;
}

/* Transpose references into planes, and count the bits of each; returns the smallest count. */
static int64_t lay_out(Level *restrict planes, int64_t *restrict sizes, int64_t *restrict numbers,
                       const unsigned char *references, int64_t panel, int64_t words) {
    int64_t least = INT64_MAX;
    memset(planes, 0, 64 * words * sizeof *planes);
    for (int64_t r = 0; r < panel; r++) {
        sizes[r] = numbers_of(numbers, references + r * 8 * words, words);
        least = smaller(least, sizes[r]);
        for (int64_t i = 0; i < sizes[r]; i++) planes[numbers[i]][r / 64] |= (uint64_t)1 << r % 64;
    }
    return least;
}

/* Add four planes to the counters. */
static void add(Level *restrict counters, int64_t levels, const uint64_t *a, const uint64_t *b, const uint64_t *c,
                const uint64_t *d) {
    Level carry;
    for (int64_t w = 0; w < WIDE; w++) {
        const uint64_t one = counters[0][w], half = one ^ a[w], sum = half ^ b[w], other = sum ^ c[w];
        const uint64_t first = (one & a[w]) | (half & b[w]), second = (sum & c[w]) | (other & d[w]);
        const uint64_t two = counters[1][w], mixed = two ^ first;
        counters[0][w] = other ^ d[w];
        counters[1][w] = mixed ^ second;
        carry[w] = (two & first) | (mixed & second);
    }
    for (int64_t k = 2; k < levels; k++)
        for (int64_t w = 0; w < WIDE; w++) {
            const uint64_t both = counters[k][w] & carry[w];
            counters[k][w] ^= carry[w];
            carry[w] = both;
        }
}

/* Bits that each reference of a panel has in common with the row whose `size` bits are given. */
static int64_t count_common(Level *restrict counters, const Level *planes, const int64_t *numbers, int64_t size) {
    static const Level none;
    int64_t levels = 2, i = 0;
    while (size >> levels) levels++;
    memset(counters, 0, levels * sizeof *counters);
    for (; i + 4 <= size; i += 4)
        add(counters, levels, planes[numbers[i]], planes[numbers[i + 1]], planes[numbers[i + 2]],
            planes[numbers[i + 3]]);
    if (i < size)
        add(counters, levels, planes[numbers[i]], i + 1 < size ? planes[numbers[i + 1]] : none,
            i + 2 < size ? planes[numbers[i + 2]] : none, none);
    return levels;
}

/* References whose count is at least this. */
static void reach(uint64_t *restrict reached, const Level *counters, int64_t levels, int64_t least) {
    for (int64_t w = 0; w < WIDE; w++) {
        uint64_t more = 0, equal = least >> levels ? 0 : ~(uint64_t)0;
        for (int64_t k = levels - 1; k >= 0; k--) {
            more |= least >> k & 1 ? 0 : equal & counters[k][w];
            equal &= least >> k & 1 ? counters[k][w] : ~counters[k][w];
        }
        reached[w] = more | equal;
    }
}

static int64_t count_of(const Level *counters, int64_t levels, int64_t r) {
    int64_t count = 0;
    for (int64_t k = 0; k < levels; k++) count |= (int64_t)(counters[k][r / 64] >> r % 64 & 1) << k;
    return count;
}

/* index[q] and best[q] of each of n rows of 8 * words bytes: the first of the m references with the largest similarity.

   A similarity above s needs more than s (|a| + |b|) / (1 + s) common bits, so with the smallest |b| of the panel most
   references are seen to be too far without a look at their counts. Rounding is allowed for; what decides is the
   quotient. Returns -2 without memory. */
int nearest(int64_t *restrict index, double *restrict best, const unsigned char *rows, const unsigned char *references,
            int64_t n, int64_t m, int64_t words) {
    int64_t sizes[PANEL], *numbers = malloc(64 * words * sizeof *numbers);
    Level counters[LEVELS], reached, *planes = aligned_alloc(LINE, 64 * words * sizeof *planes);
    const int failed = words >> (LEVELS - 8) || !numbers || !planes;
    for (int64_t q = 0; q < n; q++) index[q] = 0, best[q] = -1;
    for (int64_t first = 0; !failed && first < m; first += PANEL) {
        const int64_t panel = smaller(m - first, PANEL);
        const int64_t smallest = lay_out(planes, sizes, numbers, references + first * 8 * words, panel, words);
        for (int64_t q = 0; q < n; q++) {
            const int64_t size = numbers_of(numbers, rows + q * 8 * words, words);
            const int64_t levels = count_common(counters, planes, numbers, size);
            const double needed = best[q] > 0 ? best[q] / (1 + best[q]) * (double)(size + smallest) - 1e-6 : 0;
            reach(reached, counters, levels, (int64_t)ceil(needed));
            for (int64_t w = 0; 64 * w < panel; w++)
                for (uint64_t rest = reached[w]; rest; rest &= rest - 1) {
                    const int64_t r = 64 * w + __builtin_ctzll(rest);
                    if (r >= panel) break;
                    const int64_t common = count_of(counters, levels, r), either = size + sizes[r] - common;
                    const double similarity = (double)common / (double)(either > 1 ? either : 1);
                    if (similarity > best[q]) index[q] = first + r, best[q] = similarity;
                }
        }
    }
    free(numbers);
    free(planes);
    return failed ? -2 : 0;
}
