/* Products of a matrix of which many numbers are 0, as those a ReLU lets through: see kernels.h.

   A word has a bit for each of MASK_BITS numbers, set where it is not 0; only those are multiplied, and what meets nothing
   but zeros, be it infinite, is not seen. A row of the result is made at once, as wide as there are registers for its
   sums, while a panel of the factor stays in the first cache. */

#include "kernels.h"

/* Room for a band of rows. They are an odd number of cache lines apart, so that the numbers of a column do not fall on
   each other in the cache; beyond the last one there is room to read the numbers of a whole word. */
int new_masked(Masked *m, int64_t band, int64_t width) {
    const int64_t numbers = LINE / sizeof(real);
    m->stride = ((width + numbers - 1) / numbers | 1) * numbers;
    m->rows = calloc(band * m->stride + MASK_BITS, sizeof(real));
    m->masks = malloc((band < width ? width : band) * sizeof(uint64_t) + 1);
    return m->rows && m->masks ? 0 : -1;
}

void free_masked(const Masked *m) {
    free(m->rows);
    free(m->masks);
}

/* A word for each of so many rows: what is not 0 in its next `deep` columns. */
static void mask_rows(uint64_t *restrict masks, const real *restrict a, int64_t stride, int64_t rows, int64_t deep) {
    enum { HALF = MASK_BITS / 2 };
    for (int64_t r = 0; r < rows; r++) {
        uint32_t low = 0, high = 0;
        for (int k = 0; k < HALF; k++) low |= (uint32_t)(a[r * stride + k] != 0) << k;
        for (int k = 0; k < HALF; k++) high |= (uint32_t)(a[r * stride + HALF + k] != 0) << k;
        masks[r] = (low | (uint64_t)high << HALF) & ~(uint64_t)0 >> (MASK_BITS - deep);
    }
}

/* A word for each of so many columns: what is not 0 in its next `deep` rows. */
static void mask_columns(uint64_t *restrict masks, const real *restrict a, int64_t stride, int64_t width,
                         int64_t deep) {
    enum { HALF = MASK_BITS / 2, SOME = 64 };
    for (int64_t first = 0; first < width; first += SOME) {
        uint32_t half[2][SOME] = {{0}};
        const int64_t some = smaller(SOME, width - first);
        for (int64_t k = 0; k < deep; k++)
            for (int64_t c = 0; c < some; c++)
                half[k / HALF][c] |= (uint32_t)(a[k * stride + first + c] != 0) << k % HALF;
        for (int64_t c = 0; c < some; c++) masks[first + c] = half[0][c] | (uint64_t)half[1][c] << HALF;
    }
}

/* out[r] = from[r] + sum over masked k of a[r][k] b[k], for rows of so many vectors; a[r][k] is at
   a[r * row + k * step]. */
static inline __attribute__((always_inline)) void lines(real *out, const real *from, const real *restrict a,
                                                        const uint64_t *restrict masks, const real *restrict b,
                                                        int64_t out_stride, int64_t from_stride, int64_t row,
                                                        int64_t step, int64_t rows, const int vectors) {
    for (int64_t r = 0; r < rows; r++, out += out_stride, from += from_stride, a += row) {
        vector sum[SUMS];
        for (int v = 0; v < vectors; v++) {
            sum[v] = (vector){0};
            __builtin_prefetch(from + v * LANES);
        }
        for (uint64_t left = masks[r]; left; left &= left - 1) {
            const int64_t k = __builtin_ctzll(left);
            const real factor = a[k * step], *at = b + k * vectors * LANES;
            __asm__("" : "+r"(at)); /* one address for all of the row, not one for each vector */
            for (int v = 0; v < vectors; v++) sum[v] += factor * *(const vector *)(at + v * LANES);
        }
        for (int v = 0; v < vectors; v++)
            *(vector *)(out + v * LANES) = *(const vector *)(from + v * LANES) + sum[v];
    }
}

/* A part of a factor, panel by panel. Rows begin with what is in `out`, or all of them with `begin`. */
static void part(real *out, const real *begin, const real *a, const uint64_t *masks, const real *b, const Factor *f,
                 int64_t out_stride, int64_t row, int64_t step, int64_t rows, int64_t deep) {
    for (int64_t p = 0; p < f->padded; p += f->wide, b += deep * f->wide) {
        const real *from = begin ? begin + p : out + p;
        const int64_t from_stride = begin ? 0 : out_stride;
        switch (smaller(f->wide, f->padded - p) / LANES) {
#define CASE(vectors) /* the compiler has to know how many there are to keep the sums in registers */                 \
    case vectors:                                                                                                     \
        lines(out + p, from, a, masks, b, out_stride, from_stride, row, step, rows, vectors);                         \
        break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7)
            CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13)
        }
    }
}

/* out = m f: a band of rows times a factor, plus its beginning. The rows of `out` have room for whole vectors. */
void multiply_masked(real *out, const Masked *m, const Factor *f, int64_t out_stride, int64_t rows) {
    for (int64_t from = 0; from < f->depth; from += f->deep) {
        const int64_t deep = smaller(f->deep, f->depth - from);
        mask_rows(m->masks, m->rows + from, m->stride, rows, deep);
        part(out, from ? 0 : f->begin, m->rows + from, m->masks, f->panels + from * f->padded, f, out_stride,
             m->stride, 1, rows, deep);
    }
}

/* out += m^T f: (rows, width)^T times a factor of as many rows. */
void add_masked_transposed(real *out, const Masked *m, const Factor *f, int64_t out_stride, int64_t width) {
    for (int64_t from = 0; from < f->depth; from += f->deep) {
        const int64_t deep = smaller(f->deep, f->depth - from);
        const real *a = m->rows + from * m->stride;
        mask_columns(m->masks, a, m->stride, width, deep);
        part(out, 0, a, m->masks, f->panels + from * f->padded, f, out_stride, 1, m->stride, width, deep);
    }
}

static void take_band(const Masked *m, const real *restrict x, int64_t stride, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++) memcpy(m->rows + r * m->stride, x + r * stride, width * sizeof(real));
}

/* out = x weight^T, for rows of x of which many numbers are 0: (rows, depth) (columns, depth)^T, the rows of `out` with
   room for whole vectors. Returns -1 without memory. */
int sparse_product(real *restrict out, const real *restrict x, const real *restrict weight, int64_t out_stride,
                 int64_t stride, int64_t rows, int64_t depth, int64_t columns) {
    const int64_t band = band_of(columns < depth ? depth : columns);
    Factor right = {0};
    Masked left = {0};
    const int failed = new_broad_factor(&right, depth, columns) || new_masked(&left, band, depth);
    if (!failed) fill_factor(&right, weight, 0, 1, depth);
    for (int64_t r = 0; !failed && r < rows; r += band) {
        const int64_t some = smaller(band, rows - r);
        take_band(&left, x + r * stride, stride, some, depth);
        multiply_masked(out + r * out_stride, &left, &right, out_stride, some);
    }
    free_factor(&right);
    free_masked(&left);
    return failed ? -1 : 0;
}

static inline real sum_of(vector all) {
    typedef real half __attribute__((vector_size(VECTOR / 2), may_alias));
    const half two = ((half *)&all)[0] + ((half *)&all)[1];
    real total = 0;
    for (int v = 0; v < LANES / 2; v++) total += two[v];
    return total;
}

/* out[r][k] = <a[r], b[k]> where k is masked in row r, 0 elsewhere: so many rows, `deep` columns. */
static void masked_dots(real *restrict out, const real *restrict a, const real *restrict b,
                        const uint64_t *restrict masks, int64_t out_stride, int64_t stride, int64_t rows, int64_t deep,
                        int64_t width) {
    enum { FEW = 6 }; /* at once, so that none of them waits for its own sum */
    const int64_t whole = width - width % LANES;
    for (int64_t r = 0; r < rows; r++, out += out_stride, a += stride) {
        memset(out, 0, deep * sizeof(real));
        for (uint64_t left = masks[r]; left;) {
            vector sum[FEW];
            const real *at[FEW];
            int64_t k[FEW];
            for (int i = 0; i < FEW; i++, left &= left - 1) {
                sum[i] = (vector){0};
                k[i] = left ? __builtin_ctzll(left) : k[i - 1]; /* the last one again, if there are no more */
                at[i] = b + k[i] * width;
            }
            for (int64_t c = 0; c < whole; c += LANES)
                for (int i = 0; i < FEW; i++) sum[i] += *(const vector *)(a + c) * *(const vector *)(at[i] + c);
            for (int i = 0; i < FEW; i++) {
                real total = sum_of(sum[i]);
                for (int64_t c = whole; c < width; c++) total += a[c] * at[i][c];
                out[k[i]] = total;
            }
        }
    }
}

/* The gradients of x, where it is not 0, and of `weight` given that of `out` above. Returns -1 without memory. */
int sparse_backward(real *restrict grad_x, real *restrict grad_weight, const real *restrict grad, const real *restrict x,
                  const real *restrict weight, int64_t grad_x_stride, int64_t grad_stride, int64_t stride,
                  int64_t rows, int64_t depth, int64_t columns) {
    const int64_t band = band_of(columns < depth ? depth : columns), whole = (columns + LANES - 1) / LANES * LANES;
    Factor given = {0};
    Masked left = {0};
    real *transposed = new_numbers(depth * columns), *sums = calloc(depth * whole, sizeof(real));
    const int failed =
        new_broad_factor(&given, band, columns) || new_masked(&left, band, depth) || !transposed || !sums;
    if (!failed) transpose(transposed, weight, depth, depth, columns);
    for (int64_t r = 0; !failed && r < rows; r += band) {
        const real *back = grad + r * grad_stride;
        given.depth = smaller(band, rows - r);
        take_band(&left, x + r * stride, stride, given.depth, depth);
        fill_factor(&given, back, 0, grad_stride, 1);
        add_masked_transposed(sums, &left, &given, whole, depth);
        for (int64_t from = 0; from < depth; from += MASK_BITS) {
            const int64_t deep = smaller(MASK_BITS, depth - from);
            mask_rows(left.masks, left.rows + from, left.stride, given.depth, deep);
            masked_dots(grad_x + r * grad_x_stride + from, back, transposed + from * columns, left.masks, grad_x_stride,
                        grad_stride, given.depth, deep, columns);
        }
    }
    if (!failed) transpose(grad_weight, sums, whole, columns, depth);
    free_factor(&given);
    free_masked(&left);
    free(transposed);
    free(sums);
    return failed ? -1 : 0;
}
