/* Products of matrices on processors with AVX-512, with the bits of a BLAS that adds in this order: see kernels.h.

   The depth is cut into parts. In each of them a number of the result is a chain of fused multiplications and additions,
   begun with 0, in the order of the depth; what the parts give is added in their order, to the bias if there is one. MKL
   2024 does so in single precision. Nothing here depends on it: whoever wants these bits compares them first.

   The result is made in tiles of HIGH rows and two vectors of columns whose sums stay in registers. What is multiplied
   from the right is copied beforehand into panels as wide as a tile; a part of one stays in the first cache while a band
   of rows from the left passes by.

   Of rows from the left with many zeros, as those a ReLU lets through, only what is not 0 is multiplied, row by row and
   as wide as there are registers for the sums. A chain is the same without them; but they do not see what they meet, be
   it infinite. Half the multiplications cost three quarters of the time: each of them reads a vector of its own. */

#include "kernels.h"

enum { ZMM = 64, MANY = ZMM / sizeof(real), PANEL = 2 * MANY, PART = 192 };
enum { WORD = 64, WORDS = PART / WORD, GROUP = 5, WIDE = GROUP * PANEL }; /* of rows with zeros: bits, panels, columns */
enum { BYTES = 256 << 10 };            /* of a band, which stays in the second cache */
enum { BANDS = 8 };                    /* for each thread */
enum { SPEED = 100000, COPIED = 4000 }; /* multiplications, and copied numbers, in a microsecond, roughly */

#ifdef __AVX512F__
enum { HIGH = 14 };
#else
enum { HIGH = 1 }; /* never run there, and quickly compiled */
#endif

typedef real broad __attribute__((vector_size(ZMM), aligned(sizeof(real)), may_alias));

/* A product, and its factor from the right in panels, part by part. a[i][k] is at a[i * row + k * step], b[k][c] at
   b[k * down + c * column]. A slot of `room`, `size` numbers, is for a band of rows of which a row is not contiguous or
   has zeros. */
typedef struct {
    real *out, *panels, *room;
    const real *a, *b, *bias;
    int64_t out_stride, row, step, down, column, rows, depth, columns, padded, band, size;
} Chains;

/* Whether these loops were seen to be faster than a BLAS on a processor like this one: with vectors of 64 bytes. */
int chains_pay(void) {
#ifdef __AVX512F__
    return sizeof(real) == sizeof(float);
#else
    return 0;
#endif
}

/* Where the part that begins at `from` ends: two halves and what is left of an odd number, or PART and PART and so on. */
static int64_t part_end(int64_t from, int64_t depth) {
    const int64_t deep = depth > PART && depth < 2 * PART ? depth / 2 : PART;
    return smaller(from + deep, depth);
}

/* out[i][c] = begin[c] + sum over k of a[i][k] b[k][c] for `tall` rows, or without `begin` that sum alone; `more` adds it
   to `out`. Columns beyond the last one are computed and thrown away. */
static inline __attribute__((always_inline)) void tile(real *restrict out, const real *restrict a,
                                                       const real *restrict b, const real *restrict begin,
                                                       int64_t out_stride, int64_t row, int64_t step, int64_t depth,
                                                       int64_t columns, int more, const int tall, const int vectors) {
    broad sum[HIGH][2];
    for (int i = 0; i < tall; i++)
        for (int v = 0; v < vectors; v++) {
            sum[i][v] = (broad){0};
            __builtin_prefetch(out + i * out_stride + v * MANY, 1);
        }
    for (int64_t k = 0; k < depth; k++) {
        broad right[2];
        for (int v = 0; v < vectors; v++) right[v] = *(const broad *)(b + k * PANEL + v * MANY);
        for (int i = 0; i < tall; i++) {
            const real factor = a[i * row + k * step];
            for (int v = 0; v < vectors; v++) sum[i][v] += factor * right[v];
        }
    }
    real edge[HIGH * PANEL];
    const int whole = columns >= vectors * MANY;
    real *to = whole ? out : edge;
    const int64_t apart = whole ? out_stride : PANEL;
    for (int i = 0; !whole && more && i < tall; i++)
        memcpy(edge + i * PANEL, out + i * out_stride, columns * sizeof(real));
    for (int i = 0; i < tall; i++)
        for (int v = 0; v < vectors; v++) {
            broad *at = (broad *)(to + i * apart + v * MANY);
            if (more) *at += sum[i][v];
            else if (begin) *at = *(const broad *)(begin + v * MANY) + sum[i][v];
            else *at = sum[i][v];
        }
    for (int i = 0; !whole && i < tall; i++) memcpy(out + i * out_stride, edge + i * PANEL, columns * sizeof(real));
}

/* The last rows, fewer than a tile has. The compiler has to know how many they are to keep their sums in registers. */
static void low_tile(real *out, const real *a, const real *b, const real *begin, int64_t out_stride, int64_t row,
                     int64_t step, int64_t depth, int64_t columns, int more, int64_t rows) {
    switch (rows) {
#define CASE(tall)                                                                                                    \
    case tall:                                                                                                        \
        tile(out, a, b, begin, out_stride, row, step, depth, columns, more, tall < HIGH ? tall : HIGH, 2);            \
        break;
        CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12) CASE(13)
#undef CASE
    }
}

/* A part of a panel with a band of rows. They were packed, so that `step` is HIGH, or else they are contiguous. */
static void strip(real *out, const real *a, const real *b, const real *begin, const Chains *c, int64_t rows,
                  int64_t deep, int64_t columns, int more) {
    const int packed = c->step != 1;
    for (; rows >= HIGH; rows -= HIGH, out += HIGH * c->out_stride) {
        if (packed && columns > MANY) tile(out, a, b, begin, c->out_stride, 1, HIGH, deep, columns, more, HIGH, 2);
        else if (packed) tile(out, a, b, begin, c->out_stride, 1, HIGH, deep, columns, more, HIGH, 1);
        else if (columns > MANY) tile(out, a, b, begin, c->out_stride, c->row, 1, deep, columns, more, HIGH, 2);
        else tile(out, a, b, begin, c->out_stride, c->row, 1, deep, columns, more, HIGH, 1);
        a += HIGH * (packed ? deep : c->row);
    }
    low_tile(out, a, b, begin, c->out_stride, packed ? 1 : c->row, packed ? HIGH : 1, deep, columns, more, rows);
}

/* Copy what is multiplied from the right: a panel of one part, with zeros beyond the last column. */
static void fill_part(real *restrict to, const Chains *c, int64_t from, int64_t deep, int64_t p) {
    const real *restrict b = c->b + from * c->down + p * c->column;
    const int64_t some = smaller(PANEL, c->columns - p);
    if (some < PANEL) memset(to, 0, deep * PANEL * sizeof(real));
    if (c->column == 1 && some == PANEL)
        for (int64_t k = 0; k < deep; k++) memcpy(to + k * PANEL, b + k * c->down, PANEL * sizeof(real));
    else if (c->column == 1)
        for (int64_t k = 0; k < deep; k++) memcpy(to + k * PANEL, b + k * c->down, some * sizeof(real));
    else
        for (int64_t k = 0; k < deep; k++)
            for (int64_t i = 0; i < some; i++) to[k * PANEL + i] = b[k * c->down + i * c->column];
}

static void fill(void *about, int64_t piece, int64_t slot) {
    const Chains *c = about;
    (void)slot;
    for (int64_t from = 0, to; from < c->depth; from = to) {
        to = part_end(from, c->depth);
        fill_part(c->panels + from * c->padded + piece * PANEL * (to - from), c, from, to - from, piece * PANEL);
    }
}

/* Copy a band of rows from the left, those of a tile side by side. */
static void pack(real *restrict to, const real *restrict a, const Chains *c, int64_t rows, int64_t deep) {
    for (int64_t i = 0; i < rows; i += HIGH, to += HIGH * deep, a += HIGH * c->row) {
        const int64_t some = smaller(HIGH, rows - i);
        if (c->row == 1 && some == HIGH)
            for (int64_t k = 0; k < deep; k++) memcpy(to + k * HIGH, a + k * c->step, HIGH * sizeof(real));
        else
            for (int64_t k = 0; k < deep; k++)
                for (int64_t r = 0; r < some; r++) to[k * HIGH + r] = a[r * c->row + k * c->step];
    }
}

/* A word for each of so many rows: what is not 0 in its next `deep` columns. */
static void find(uint64_t *restrict words, const real *restrict a, const Chains *c, int64_t rows, int64_t deep) {
    memset(words, 0, rows * sizeof(uint64_t));
    if (c->row == 1)
        for (int64_t k = 0; k < deep; k++)
            for (int64_t i = 0; i < rows; i++) words[i] |= (uint64_t)(a[i + k * c->step] != 0) << k;
    else
        for (int64_t i = 0; i < rows; i++) {
            uint64_t word = 0;
            for (int64_t k = 0; k < deep; k++) word |= (uint64_t)(a[i * c->row + k * c->step] != 0) << k;
            words[i] = word;
        }
}

/* sums[i][c] += sum over k in the word of row i of a[i][k] b[k][c], in so many vectors; `fresh` sums begin with 0. */
static inline __attribute__((always_inline)) void lines(real *restrict sums, const real *restrict a,
                                                        const real *restrict b, const uint64_t *restrict words,
                                                        const Chains *c, int64_t rows, int64_t deep, int fresh,
                                                        const int vectors) {
    for (int64_t i = 0; i < rows; i++, a += c->row, sums += WIDE) {
        broad sum[2 * GROUP], *at = (broad *)sums;
        for (int v = 0; v < vectors; v++)
            if (fresh) sum[v] = (broad){0};
            else sum[v] = at[v];
        for (uint64_t left = words[i]; left; left &= left - 1) {
            const int64_t k = __builtin_ctzll(left);
            const real factor = a[k * c->step], *right = b + k * PANEL;
            for (int v = 0; v < vectors; v++)
                sum[v] += factor * *(const broad *)(right + v / 2 * deep * PANEL + v % 2 * MANY);
        }
        for (int v = 0; v < vectors; v++) at[v] = sum[v];
    }
}

/* A part of some panels with a band of rows, a word of which is not 0; adds it as `tile` does. */
static void sparse_strip(real *restrict out, const real *a, const real *b, const real *restrict begin, const Chains *c,
                         real *restrict sums, const uint64_t *words, int64_t rows, int64_t deep, int64_t columns,
                       int more) {
    for (int64_t k = 0; k < deep; k += WORD, a += WORD * c->step, b += WORD * PANEL, words += c->band)
        switch ((smaller(columns, WIDE) + MANY - 1) / MANY) {
#define CASE(vectors)                                                                                                 \
    case vectors:                                                                                                     \
        lines(sums, a, b, words, c, rows, deep, k == 0, vectors);                                                     \
        break;
            CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10)
#undef CASE
        }
    for (int64_t i = 0, wide = smaller(columns, WIDE); i < rows; i++, out += c->out_stride, sums += WIDE)
        for (int64_t j = 0; j < wide; j++) out[j] = (more ? out[j] : begin ? begin[j] : 0) + sums[j];
}

static void multiply_sparse_band(void *about, int64_t piece, int64_t slot) {
    const Chains *c = about;
    const int64_t first = piece * c->band, rows = smaller(c->band, c->rows - first);
    real *out = c->out + first * c->out_stride, *sums = c->room + slot * c->size;
    uint64_t *words = (uint64_t *)(sums + c->band * WIDE);
    for (int64_t from = 0, to; from < c->depth; from = to) {
        to = part_end(from, c->depth);
        const real *a = c->a + first * c->row + from * c->step;
        for (int64_t k = 0; k < to - from; k += WORD)
            find(words + k / WORD * c->band, a + k * c->step, c, rows, smaller(WORD, to - from - k));
        for (int64_t p = 0; p < c->padded; p += WIDE)
            sparse_strip(out + p, a, c->panels + from * c->padded + p * (to - from), c->bias ? c->bias + p : 0, c, sums,
                         words, rows, to - from, c->columns - p, from > 0);
    }
}

static void multiply_band(void *about, int64_t piece, int64_t slot) {
    const Chains *c = about;
    const int64_t first = piece * c->band, rows = smaller(c->band, c->rows - first);
    real *out = c->out + first * c->out_stride, *room = c->room + slot * c->size;
    for (int64_t from = 0, to; from < c->depth; from = to) {
        to = part_end(from, c->depth);
        const real *a = c->a + first * c->row + from * c->step;
        if (c->step != 1) pack(room, a, c, rows, to - from);
        for (int64_t p = 0; p < c->padded; p += PANEL)
            strip(out + p, c->step == 1 ? a : room, c->panels + from * c->padded + p * (to - from),
                  c->bias ? c->bias + p : 0, c, rows, to - from, c->columns - p, from > 0);
    }
}

/* Rows of a band: whole tiles that fit the second cache, and bands enough for all threads to end at about the same time. */
static int64_t band_for(int64_t rows, int64_t numbers, int64_t threads) {
    const int64_t fitting = BYTES / (int64_t)sizeof(real) / numbers;
    const int64_t fair = threads == 1 ? rows : rows / (BANDS * threads);
    const int64_t tiles = (smaller(fitting, fair) + HIGH - 1) / HIGH;
    return tiles > 1 ? tiles * HIGH : HIGH;
}

/* out = a b + bias: (rows, depth) (depth, columns), where a[i][k] is at a[i * row + k * step] and b[k][c] at
   b[k * down + c * column]. With `zeros` those of a are left out. Returns -1 without memory. */
int chained_product(real *restrict out, const real *restrict a, const real *restrict b, const real *restrict bias,
                    int64_t out_stride, int64_t row, int64_t step, int64_t down, int64_t column, int64_t rows,
                    int64_t depth, int64_t columns, int64_t zeros) {
    const int64_t padded = (columns + PANEL - 1) / PANEL * PANEL;
    const int64_t work = rows * depth * columns / SPEED, threads = work < LITTLE ? 1 : sharing_threads();
    const int64_t numbers = zeros ? WIDE : smaller(depth, PART) + columns;
    const int64_t band = band_for(rows, numbers, zeros ? 2 * threads : threads); /* zeros are not spread evenly */
    const int64_t words = (WORDS * band * sizeof(uint64_t) / ZMM + 1) * MANY;
    const int64_t size = zeros ? band * WIDE + words : step == 1 ? 0 : (band + HIGH) * PART;
    real *begin = new_numbers(padded + depth * padded + sharing_threads() * size);
    if (!begin) return -1;
    Chains c = {out, begin + padded, begin + padded + depth * padded, a, b, bias ? begin : 0, out_stride, row, step,
                down, column, rows, depth, columns, padded, band, size};
    const Task multiply = zeros ? multiply_sparse_band : multiply_band;
    if (bias) memcpy(begin, bias, columns * sizeof(real));
    share(fill, &c, padded / PANEL, depth * padded / COPIED);
    share(multiply, &c, (rows + band - 1) / band, work);
    free(begin);
    return 0;
}
