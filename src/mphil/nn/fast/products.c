/* Products of matrices as a GNN has them, thousands of rows and a few hundred columns: see kernels.h.

   The result is made in tiles of TALL rows and two vectors of columns whose sums stay in registers. What is multiplied
   from the right is copied beforehand into panels as wide as a tile, of which one stays in the first cache while a band
   of rows from the left, which stays in the second, passes by. Where a tile will go is asked for before it is computed,
   not waited for after. */

#include "kernels.h"

enum { WIDE = 2 * LANES, DEEP = 640, BAND = 160 << 10 };

/* Whether these loops were seen to be faster than a BLAS on a processor like this one: with vectors of 32 bytes. */
int products_pay(void) {
#if defined(__AVX2__) && defined(__FMA__) && !defined(__AVX512F__)
    return 1;
#else
    return 0;
#endif
}

/* out[i][c] = begin[c] + sum over k of a[i][k] b[k][c] for `tall` rows, where a[i][k] is at a[i * row + k * step];
   without `begin` it is added to `out`. Columns beyond the last one of `out` are computed and thrown away. */
static inline __attribute__((always_inline)) void tile(real *restrict out, const real *restrict a,
                                                       const real *restrict b, const real *restrict begin,
                                                       int64_t out_stride, int64_t row, int64_t step, int64_t depth,
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
            const real factor = a[i * row + k * step];
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

/* The tiles of a panel from top to bottom; with `ahead` the rows of the next one, which are new to the cache, are asked
   for in time. The compiler has to know how many rows a tile has to keep its sums in registers. */
static inline __attribute__((always_inline)) void strip(real *restrict out, const real *restrict a,
                                                        const real *restrict b, const real *restrict begin,
                                                        int64_t out_stride, int64_t row, int64_t step, int64_t rows,
                                                        int64_t depth, int64_t columns, int ahead) {
    for (; rows >= TALL; rows -= TALL, out += TALL * out_stride, a += TALL * row) {
        for (int i = TALL; ahead && i < 2 * TALL; i++)
            for (int64_t k = 0; k < depth; k += WIDE) __builtin_prefetch(a + i * row + k);
        tile(out, a, b, begin, out_stride, row, step, depth, columns, TALL);
    }
    if (rows & 4) tile(out, a, b, begin, out_stride, row, step, depth, columns, 4);
    out += (rows & 4) * out_stride, a += (rows & 4) * row;
    if (rows & 2) tile(out, a, b, begin, out_stride, row, step, depth, columns, 2);
    out += (rows & 2) * out_stride, a += (rows & 2) * row;
    if (rows & 1) tile(out, a, b, begin, out_stride, row, step, depth, columns, 1);
}

static int64_t pieces(int64_t n, int64_t most) { return n > most ? (n + most - 1) / most : 1; }

/* Room for a factor (depth, columns) in panels of so many columns, the last one perhaps narrower but still of whole
   units, cut into parts of equal depth. */
static int new_panels(Factor *f, int64_t depth, int64_t columns, int64_t wide, int64_t unit, int64_t most) {
    f->depth = depth;
    f->columns = columns;
    f->padded = (columns + unit - 1) / unit * unit;
    f->wide = wide;
    f->deep = (depth + pieces(depth, most) - 1) / pieces(depth, most);
    f->panels = new_numbers((depth + 1) * f->padded);
    f->begin = f->panels + depth * f->padded;
    return f->panels ? 0 : -1;
}

/* Room for what `multiply` and `add_transposed` take; the first cache can hold a panel. */
int new_factor(Factor *f, int64_t depth, int64_t columns) { return new_panels(f, depth, columns, WIDE, WIDE, DEEP); }

/* Room for what `multiply_masked` and `add_masked_transposed` take: panels of about equal width, in parts of so many rows
   that a word has a bit for each. */
int new_broad_factor(Factor *f, int64_t depth, int64_t columns) {
    const int64_t vectors = (columns + LANES - 1) / LANES, panels = pieces(vectors, SUMS);
    return new_panels(f, depth, columns, (vectors + panels - 1) / panels * LANES, LANES, MASK_BITS);
}

void free_factor(const Factor *f) { free(f->panels); }

/* Inlined three times: knowing `column`, or the width as well, the compiler copies whole vectors. */
static inline __attribute__((always_inline)) void fill_panel(real *restrict to, const real *restrict b, int64_t wide,
                                                             int64_t step, int64_t column, int64_t deep, int64_t some) {
    for (int64_t k = 0; k < deep; k++)
        for (int64_t c = 0; c < some; c++) to[k * wide + c] = b[k * step + c * column];
}

/* The numbers of a factor: b[k][c] is at b[k * step + c * column]. Panels lie part by part, panel by panel; what is
   beyond the last column is 0. */
void fill_factor(const Factor *f, const real *restrict b, const real *restrict bias, int64_t step, int64_t column) {
    memset(f->begin, 0, f->padded * sizeof(real));
    if (bias) memcpy(f->begin, bias, f->columns * sizeof(real));
    for (int64_t from = 0; from < f->depth; from += f->deep)
        for (int64_t p = 0; p < f->padded; p += f->wide) {
            const int64_t deep = smaller(f->deep, f->depth - from);
            const int64_t wide = smaller(f->wide, f->padded - p), some = smaller(wide, f->columns - p);
            real *restrict to = f->panels + from * f->padded + p * deep;
            const real *restrict at = b + from * step + p * column;
            if (some < wide) memset(to, 0, deep * wide * sizeof(real));
            if (column != 1) fill_panel(to, at, wide, step, column, deep, some);
            else if (some == WIDE) fill_panel(to, at, wide, step, 1, deep, WIDE);
            else fill_panel(to, at, wide, step, 1, deep, some);
        }
}

/* How many rows of so many numbers are one band: whole words of masks or, where those are too many, whole tiles. */
int64_t band_of(int64_t width) {
    const int64_t rows = smaller(BAND / (int64_t)sizeof(real) / (width + 1), DEEP);
    return rows < MASK_BITS ? rows - rows % TALL + TALL : rows - rows % MASK_BITS;
}

/* out = a f: a band of rows times a factor, plus its beginning. */
void multiply(real *restrict out, const real *restrict a, const Factor *f, int64_t out_stride, int64_t a_stride,
              int64_t rows) {
    for (int64_t from = 0; from < f->depth || !from; from += f->deep + !f->deep) {
        const int64_t deep = smaller(f->deep, f->depth - from);
        for (int64_t p = 0; p < f->padded; p += WIDE)
            strip(out + p, a + from, f->panels + from * f->padded + p * deep, from ? 0 : f->begin + p, out_stride,
                  a_stride, 1, rows, deep, f->columns - p, p == 0);
    }
}

/* out += a^T f: (rows, width)^T times a factor of as many rows, at most DEEP. `room` (rows, width + TALL) gets the
   columns of `a`, those of a tile side by side: as they lie, they would fall on each other in the cache. */
void add_transposed(real *restrict out, const real *restrict a, const Factor *f, real *restrict room,
                    int64_t out_stride, int64_t a_stride, int64_t width) {
    for (int64_t i = 0; i < width; i += TALL) {
        const int64_t some = smaller(TALL, width - i);
        real *to = room + i * f->depth;
        for (int64_t k = 0; some == TALL && k < f->depth; k++)
            memcpy(to + k * TALL, a + k * a_stride + i, TALL * sizeof(real));
        for (int64_t k = 0; some < TALL && k < f->depth; k++)
            memcpy(to + k * TALL, a + k * a_stride + i, some * sizeof(real));
    }
    for (int64_t p = 0; p < f->padded; p += WIDE)
        for (int64_t i = 0; i < width; i += TALL)
            strip(out + i * out_stride + p, room + i * f->depth, f->panels + p * f->depth, 0, out_stride, 1, TALL,
                  smaller(TALL, width - i), f->depth, f->columns - p, 0);
}

/* to[c] += sum over rows of a[r][c], four vectors at a time. */
void add_rows(real *restrict to, const real *restrict a, int64_t stride, int64_t rows, int64_t width) {
    enum { VECTORS = 4 };
    int64_t c = 0;
    for (; c + VECTORS * LANES <= width; c += VECTORS * LANES) {
        vector sum[VECTORS] = {{0}};
        for (int64_t r = 0; r < rows; r++)
            for (int v = 0; v < VECTORS; v++) sum[v] += *(const vector *)(a + r * stride + c + v * LANES);
        for (int v = 0; v < VECTORS; v++) *(vector *)(to + c + v * LANES) += sum[v];
    }
    for (; c < width; c++) {
        real sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += a[r * stride + c];
        to[c] += sum;
    }
}

/* to[r][c] = from[c][r]: so many rows and columns of `to`, which is contiguous. */
void transpose(real *restrict to, const real *restrict from, int64_t stride, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < columns; c++) to[r * columns + c] = from[c * stride + r];
}

/* out = a b + bias: (rows, depth) (depth, columns), the rows of `out` and of `a` so many numbers apart. b[k][c] is at
   b[k * step + c * column]. The columns of `a`, which has to come into the cache anyway, are added to `sums` (depth) if
   there is one. Returns -1 without memory. */
int product(real *restrict out, const real *restrict a, const real *restrict b, const real *restrict bias,
            real *restrict sums, int64_t out_stride, int64_t a_stride, int64_t step, int64_t column, int64_t rows,
            int64_t depth, int64_t columns) {
    Factor right;
    if (new_factor(&right, depth, columns)) return -1;
    fill_factor(&right, b, bias, step, column);
    const int64_t band = band_of(depth);
    for (int64_t r = 0; r < rows; r += band) {
        const int64_t some = smaller(band, rows - r);
        if (sums) add_rows(sums, a + r * a_stride, a_stride, some, depth);
        multiply(out + r * out_stride, a + r * a_stride, &right, out_stride, a_stride, some);
    }
    free_factor(&right);
    return 0;
}
