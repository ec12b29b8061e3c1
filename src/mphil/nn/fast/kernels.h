/* The loops of the fast path, in one precision: compile with -DREAL=float or -DREAL=double.

   Matrices are row-major; rows are contiguous and, where a `stride` is given, that many numbers apart. Indices are
   int64, a null pointer means "not given". Nothing is allocated that is not freed, and nothing but threads is kept
   between calls.
   Functions that take indices check them first and return 0, or -1 when one of them is out of range.

   The order of every sum is fixed: it depends on the sizes alone, never on the number of threads. A loop that uses
   several threads divides what it writes, rows or columns, among them, and never a sum.

   This file has what several of them need. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef REAL real;

static inline int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int within(const int64_t *index, int64_t n, int64_t end) {
    int64_t bad = 0;
    for (int64_t i = 0; index && i < n; i++) bad |= index[i] < 0 || index[i] >= end;
    return !bad;
}

enum { LINE = 64 }; /* bytes of a line of the cache */

/* Room for so many numbers from the beginning of a cache line on: a vector that lies across two costs a read more. */
static inline real *new_numbers(int64_t numbers) {
    return aligned_alloc(LINE, (numbers * sizeof(real) / LINE + 1) * LINE);
}

/* Dropout of a row: a feature is dropped where its draw is below `least`, and multiplied by `gain` otherwise. Without
   `draw` nothing happens. */
static inline void drop(real *restrict row, const int16_t *restrict draw, int16_t least, real gain, int64_t width) {
    if (!draw) return; /* in the condition of the loop it would keep the compiler from using vectors */
    for (int64_t c = 0; c < width; c++) {
        const real all = row[c] * gain;
        row[c] = draw[c] < least ? 0 : all;
    }
}

#pragma GCC visibility push(hidden) /* not to be mistaken for functions of other libraries */

/* ---- threads.c ---------------------------------------------------------------------------------------------------- */

/* A piece of some work. No two threads that work at the same time have the same slot; slots are below
   `sharing_threads`. */
typedef void (*Task)(void *about, int64_t piece, int64_t slot);

/* Do all pieces, in any order, by as many threads as this one has been given, or by this one alone where sharing does not
   pay; `work` is how many microseconds one thread takes, roughly. */
enum { LITTLE = 20 }; /* microseconds below which it never does */
void share(Task task, void *about, int64_t pieces, int64_t work);
int64_t sharing_threads(void);

/* ---- products.c --------------------------------------------------------------------------------------------------- */

enum { VECTOR = 32, LANES = VECTOR / sizeof(real) };
enum { TALL = 6 };                  /* rows of a tile of a product */
enum { SUMS = 13, MASK_BITS = 64 }; /* vectors of a panel for masked rows, and bits of a mask */

typedef real vector __attribute__((vector_size(VECTOR), aligned(sizeof(real)), may_alias));

/* What is multiplied from the right: (depth, columns), and what is added to every row of a result. It lies in parts of
   `deep` rows, each of them in panels of `wide` columns; with zeros at the end there are `padded` columns. */
typedef struct {
    real *panels, *begin;
    int64_t depth, columns, padded, deep, wide;
} Factor;

int new_factor(Factor *f, int64_t depth, int64_t columns);
int new_broad_factor(Factor *f, int64_t depth, int64_t columns);
void fill_factor(const Factor *f, const real *b, const real *bias, int64_t step, int64_t column);
void free_factor(const Factor *f);
int64_t band_of(int64_t width);
void multiply(real *out, const real *a, const Factor *f, int64_t out_stride, int64_t a_stride, int64_t rows);
void add_transposed(real *out, const real *a, const Factor *f, real *room, int64_t out_stride, int64_t a_stride,
                    int64_t width);
void add_rows(real *to, const real *a, int64_t stride, int64_t rows, int64_t width);
void transpose(real *to, const real *from, int64_t stride, int64_t rows, int64_t columns);

/* ---- masked.c ----------------------------------------------------------------------------------------------------- */

/* A band of rows of which many numbers are 0, and a bit for each of them, set where it is not. */
typedef struct {
    real *rows;
    uint64_t *masks;
    int64_t stride;
} Masked;

int new_masked(Masked *m, int64_t band, int64_t width);
void free_masked(const Masked *m);
void multiply_masked(real *out, const Masked *m, const Factor *f, int64_t out_stride, int64_t rows);
void add_masked_transposed(real *out, const Masked *m, const Factor *f, int64_t out_stride, int64_t width);

/* ---- norms.c ------------------------------------------------------------------------------------------------------ */

enum { BLOCK = 32 }; /* rows that are summed in the precision of the numbers; sums of blocks are added in double */

/* Means and sums of squares of columns while blocks of rows come in. */
typedef struct {
    double *mean, *squares, total;
    int64_t width;
} Moments;

/* A block: how many nodes its rows stand for, and its means and sums of squares. */
typedef struct {
    real *centre, *spread;
    double nodes;
} Block;

int new_moments(Moments *m, int64_t width);
void measure_block(Block *b, const real *x, const real *count, int64_t stride, int64_t rows, int64_t width);
void join_block(Moments *m, const Block *b);
void conclude(const Moments *m, real *columns, real *running_mean, real *running_variance, int64_t *batches,
              const real *weight, const real *bias, double eps, double momentum);
void free_moments(const Moments *m);

/* What comes back to the columns of a normalisation while blocks of rows of gradients come in. */
typedef struct {
    double *scale, *shift;
    real *sums, *products;
    int64_t width;
} Slopes;

int new_slopes(Slopes *s, int64_t width);
void pass_relu(real *sums, real *products, real *grad, const real *x, const real *columns, int64_t stride,
               int64_t rows, int64_t width);
void join_slopes(const Slopes *s, const real *sums, const real *products, const real *columns);
void settle(const Slopes *s, real *grad_affine, const real *columns, double total);
void correct(const Slopes *s, real *grad, const real *x, const real *columns, const real *count, int64_t grad_stride,
             int64_t x_stride, int64_t rows);
void free_slopes(const Slopes *s);

#pragma GCC visibility pop
