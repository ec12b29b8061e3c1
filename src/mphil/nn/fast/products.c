/* Products of matrices as a GNN has them, thousands of rows and a few hundred columns: see kernels.h.

   The result is made in tiles of TALL rows and two vectors of columns whose sums stay in registers. What is multiplied
   from the right is copied beforehand into panels as wide as a tile, of which one stays in the first cache while BAND
   rows from the left pass by. Where a tile will go is asked for before it is computed, not waited for after. */

#include "kernels.h"

enum { VECTOR = 32, LANES = VECTOR / sizeof(real), WIDE = 2 * LANES, TALL = 6, BAND = 16 * TALL, DEEP = 640 };

typedef real vector __attribute__((vector_size(VECTOR), aligned(sizeof(real)), may_alias));

/* Whether these loops were seen to be faster than a BLAS on a processor like this one: with vectors of 32 bytes. */
int products_pay(void) {
#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
    return 1;
#else
    return 0;
#endif
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* out[i][c] = begin[c] + sum over k of a[i][k] b[k][c] for `tall` rows; without `begin` it is added to `out`. Columns
   beyond the last one of `out` are computed and thrown away. */
static inline __attribute__((always_inline)) void tile(real *restrict out, const real *restrict a,
                                                       const real *restrict b, const real *restrict begin,
                                                       int64_t out_stride, int64_t a_stride, int64_t depth,
                                                       int64_t columns, const int tall) {
    vector sum[TALL][2];
    for (int i = 0; i < tall; i++) {
        sum[i][0] = sum[i][1] = (vector){0};
        __builtin_prefetch(out + i * out_stride, 1);
        __builtin_prefetch(out + i * out_stride + WIDE - 1, 1);
    }
    for (int64_t k = 0; k < depth; k++) {
        const vector left = *(const vector *)(b + k * WIDE), right = *(const vector *)(b + k * WIDE + LANES);
        for (int i = 0; i < tall; i++) {
            const real factor = a[i * a_stride + k];
            sum[i][0] += factor * left;
            sum[i][1] += factor * right;
        }
    }
    real edge[TALL * WIDE], *to = columns < WIDE ? edge : out;
    const int64_t apart = columns < WIDE ? WIDE : out_stride;
    for (int i = 0; columns < WIDE && !begin && i < tall; i++)
        memcpy(edge + i * WIDE, out + i * out_stride, columns * sizeof(real));
    for (int i = 0; i < tall; i++) {
        const real *from = begin ? begin : to + i * apart;
        *(vector *)(to + i * apart) = *(const vector *)from + sum[i][0];
        *(vector *)(to + i * apart + LANES) = *(const vector *)(from + LANES) + sum[i][1];
    }
    for (int i = 0; columns < WIDE && i < tall; i++)
        memcpy(out + i * out_stride, edge + i * WIDE, columns * sizeof(real));
}

/* The tiles of a panel from top to bottom. The compiler has to know how many rows one has to keep its sums in
   registers. */
static void strip(real *restrict out, const real *restrict a, const real *restrict b, const real *restrict begin,
                  int64_t out_stride, int64_t a_stride, int64_t rows, int64_t depth, int64_t columns) {
    for (; rows >= TALL; rows -= TALL, out += TALL * out_stride, a += TALL * a_stride)
        tile(out, a, b, begin, out_stride, a_stride, depth, columns, TALL);
    for (; rows > 0; rows--, out += out_stride, a += a_stride)
        tile(out, a, b, begin, out_stride, a_stride, depth, columns, 1);
}

/* `depth` rows of WIDE numbers out of b[k][c], which is at b[k * step + c * column]; zeros beyond `columns`. */
static void panel(real *restrict to, const real *restrict b, int64_t step, int64_t column, int64_t depth,
                  int64_t columns) {
    const int64_t some = least(columns, WIDE);
    if (some < WIDE) memset(to, 0, depth * WIDE * sizeof(real));
    for (int64_t k = 0; some < WIDE && k < depth; k++)
        for (int64_t c = 0; c < some; c++) to[k * WIDE + c] = b[k * step + c * column];
    for (int64_t k = 0; some == WIDE && k < depth; k++)
        for (int c = 0; c < WIDE; c++) to[k * WIDE + c] = b[k * step + c * column];
}

/* to[k] += sum over rows of a[r][k], four vectors at a time. */
static void add_rows(real *restrict to, const real *restrict a, int64_t stride, int64_t rows, int64_t depth) {
    enum { VECTORS = 4 };
    int64_t k = 0;
    for (; k + VECTORS * LANES <= depth; k += VECTORS * LANES) {
        vector sum[VECTORS] = {{0}};
        for (int64_t r = 0; r < rows; r++)
            for (int v = 0; v < VECTORS; v++) sum[v] += *(const vector *)(a + r * stride + k + v * LANES);
        for (int v = 0; v < VECTORS; v++) *(vector *)(to + k + v * LANES) += sum[v];
    }
    for (; k < depth; k++) {
        real sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += a[r * stride + k];
        to[k] += sum;
    }
}

/* out = a b + bias: (rows, depth) (depth, columns), the rows of `out` and of `a` so many numbers apart. b[k][c] is at
   b[k * step + c * column]. The columns of `a`, which has to come into the cache anyway, are added to `sums` (depth) if
   there is one. Returns -1 without memory. */
int product(real *restrict out, const real *restrict a, const real *restrict b, const real *restrict bias,
            real *restrict sums, int64_t out_stride, int64_t a_stride, int64_t step, int64_t column, int64_t rows,
            int64_t depth, int64_t columns) {
    const int64_t parts = depth > DEEP ? (depth + DEEP - 1) / DEEP : 1, deep = (depth + parts - 1) / parts;
    const int64_t panels = (columns + WIDE - 1) / WIDE;
    real *room = malloc((deep + 1) * panels * WIDE * sizeof(real) + 1), *begin = room + deep * panels * WIDE;
    if (!room) return -1;
    memset(begin, 0, panels * WIDE * sizeof(real));
    if (bias) memcpy(begin, bias, columns * sizeof(real));
    for (int64_t number = 0; number < parts; number++) {
        const int64_t from = number * deep, here = least(deep, depth - from);
        for (int64_t p = 0; p < panels; p++)
            panel(room + p * WIDE * deep, b + from * step + p * WIDE * column, step, column, here, columns - p * WIDE);
        for (int64_t r = 0; r < rows; r += BAND) {
            const int64_t some = least(BAND, rows - r);
            if (sums) add_rows(sums + from, a + r * a_stride + from, a_stride, some, here);
            for (int64_t p = 0; p < panels; p++)
                strip(out + r * out_stride + p * WIDE, a + r * a_stride + from, room + p * WIDE * deep,
                      number ? 0 : begin + p * WIDE, out_stride, a_stride, some, here, columns - p * WIDE);
        }
    }
    free(room);
    return 0;
}
