/* Linear, batch normalisation, ReLU, linear, in bands of rows that stay in the cache from one step to the next: see
   kernels.h. What the ReLU gives is never stored; it is made again from what goes into the normalisation.

   Threads share bands of rows. Sums over rows are shared by their columns instead, or are of blocks of rows, which one
   thread adds in their order. */

#include "kernels.h"

enum { SPEED = 50000 }; /* multiplications in a microsecond, roughly */

static int64_t widest(int64_t a, int64_t b, int64_t c) { return -smaller(-a, smaller(-b, -c)); }

/* to = relu(scale * x + shift), row by row. */
static void activate(real *restrict to, const real *restrict x, const real *restrict scale, const real *restrict shift,
                     int64_t to_stride, int64_t stride, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++) {
            const real value = scale[c] * x[r * stride + c] + shift[c];
            to[r * to_stride + c] = value < 0 ? 0 : value; /* this way round a NaN stays one */
        }
}

/* The bands that rows are cut into, and the blocks of a band, each with room for two numbers a column. */
typedef struct {
    int64_t rows, band, bands, each, width;
    real *room;
} Bands;

static int new_bands(Bands *b, int64_t rows, int64_t band, int64_t width) {
    *b = (Bands){rows, band, (rows + band - 1) / band, (band + BLOCK - 1) / BLOCK, width, 0};
    b->room = malloc(2 * width * b->bands * b->each * sizeof(real) + 1);
    return b->room ? 0 : -1;
}

static int64_t rows_of(const Bands *b, int64_t band) { return smaller(b->band, b->rows - band * b->band); }

static int64_t blocks_of(const Bands *b, int64_t band) { return (rows_of(b, band) + BLOCK - 1) / BLOCK; }

static real *block_room(const Bands *b, int64_t band, int64_t block) {
    return b->room + 2 * b->width * (band * b->each + block);
}

/* ---- forwards ----------------------------------------------------------------------------------------------------- */

typedef struct {
    Bands in;
    Factor up, down;
    Masked *active; /* for each slot */
    real *fresh;    /* for each slot, a band of hidden rows that nobody asked for */
    double *nodes;  /* of each block */
    real *out, *hidden;
    const real *x, *columns, *count;
    int64_t out_stride, stride, x_stride, width;
} Forward;

/* A band of hidden rows, if they are not there already, and its moments. */
static void measure_band(void *about, int64_t band, int64_t slot) {
    const Forward *f = about;
    const int64_t r = band * f->in.band, rows = rows_of(&f->in, band);
    (void)slot;
    if (f->x) multiply(f->hidden + r * f->stride, f->x + r * f->x_stride, &f->up, f->stride, f->x_stride, rows);
    for (int64_t b = 0; b < blocks_of(&f->in, band); b++) {
        const int64_t at = r + b * BLOCK;
        real *room = block_room(&f->in, band, b);
        Block block = {room, room + f->width, 0};
        measure_block(&block, f->hidden + at * f->stride, f->count ? f->count + at : 0, f->stride,
                      smaller(BLOCK, r + rows - at), f->width);
        f->nodes[band * f->in.each + b] = block.nodes;
    }
}

/* From a band of hidden rows to the result. Without `hidden` it is computed first. */
static void finish_band(void *about, int64_t band, int64_t slot) {
    const Forward *f = about;
    const int64_t r = band * f->in.band, rows = rows_of(&f->in, band);
    const Masked *active = f->active + slot;
    real *here = f->hidden ? f->hidden + r * f->stride : f->fresh + slot * f->in.band * f->stride;
    if (!f->hidden) multiply(here, f->x + r * f->x_stride, &f->up, f->stride, f->x_stride, rows);
    activate(active->rows, here, f->columns, f->columns + f->width, active->stride, f->stride, rows, f->width);
    multiply_masked(f->out + r * f->out_stride, active, &f->down, f->out_stride, rows);
}

/* out = relu(normalised(x first^T + first_bias)) last^T + last_bias.

   `hidden` (rows, width) gets what is normalised; without `x` it is there already. With `weight` that is by its own
   statistics, row r counted count[r] times: `columns` (4, width) gets them, and the running statistics move. Without it
   `columns` has scale and shift, and there is no `hidden`. Returns the sum of the counts, or -1 without memory. */
double perceptron(real *restrict out, real *restrict hidden, real *restrict columns, real *restrict running_mean,
                  real *restrict running_variance, int64_t *batches, const real *restrict x, const real *restrict first,
                  const real *restrict first_bias, const real *restrict last, const real *restrict last_bias,
                  const real *restrict weight, const real *restrict bias, const real *count, double eps,
                  double momentum, int64_t out_stride, int64_t stride, int64_t x_stride, int64_t rows, int64_t before,
                  int64_t width, int64_t after) {
    const int64_t band = band_of(widest(before, width, after)), slots = sharing_threads();
    const int64_t work = rows * width * (before + after) / 2 / SPEED;
    Forward f = {.out = out, .hidden = hidden, .x = x, .columns = columns, .count = count, .out_stride = out_stride,
                 .stride = stride, .x_stride = x_stride, .width = width};
    Moments moments = {0};
    int failed = new_bands(&f.in, rows, band, weight ? width : 0) || new_moments(&moments, width) ||
                 new_factor(&f.up, before, width) || new_broad_factor(&f.down, width, after);
    f.active = calloc(slots, sizeof(Masked));
    f.fresh = malloc((hidden ? 0 : slots * band * stride) * sizeof(real) + 1);
    f.nodes = malloc(f.in.bands * f.in.each * sizeof(double) + 1);
    failed = failed || !f.active || !f.fresh || !f.nodes;
    for (int64_t s = 0; !failed && s < slots; s++) failed = new_masked(f.active + s, band, width);
    if (!failed) {
        if (x) fill_factor(&f.up, first, first_bias, 1, before);
        fill_factor(&f.down, last, last_bias, 1, width);
        if (weight) {
            share(measure_band, &f, f.in.bands, work);
            for (int64_t n = 0; n < f.in.bands; n++)
                for (int64_t b = 0; b < blocks_of(&f.in, n); b++) {
                    real *room = block_room(&f.in, n, b);
                    join_block(&moments, &(Block){room, room + width, f.nodes[n * f.in.each + b]});
                }
            conclude(&moments, columns, running_mean, running_variance, batches, weight, bias, eps, momentum);
        }
        share(finish_band, &f, f.in.bands, work);
    }
    for (int64_t s = 0; f.active && s < slots; s++) free_masked(f.active + s);
    free(f.active);
    free(f.fresh);
    free(f.nodes);
    free(f.in.room);
    free_factor(&f.up);
    free_factor(&f.down);
    free_moments(&moments);
    return failed ? -1 : moments.total;
}

/* ---- backwards ---------------------------------------------------------------------------------------------------- */

/* What a thread needs to add up products over rows. */
typedef struct {
    Factor known, given;
    Masked active;
    real *transposed;
} Adding;

typedef struct {
    Bands in;
    Factor up, down;
    Slopes slopes;
    Adding *adding; /* for each slot */
    real *sums;     /* (width, whole), the transpose of the gradient of `last` */
    real *grad_x, *grad_hidden, *grad_first, *grad_first_bias, *grad_last_bias;
    const real *grad, *x, *hidden, *columns, *count;
    int64_t grad_x_stride, grad_stride, stride, x_stride, before, width, after, whole, pieces;
} Backward;

static int new_adding(Adding *a, const Backward *b, int64_t columns) {
    a->transposed = malloc(b->in.band * (columns + TALL) * sizeof(real));
    return new_factor(&a->known, b->in.band, b->before) || new_broad_factor(&a->given, b->in.band, b->after) ||
           new_masked(&a->active, b->in.band, columns) || !a->transposed;
}

static void free_adding(const Adding *a) {
    free_factor(&a->known);
    free_factor(&a->given);
    free_masked(&a->active);
    free(a->transposed);
}

/* The gradient of a band of what the ReLU takes, and what each block of it adds to the slopes. */
static void return_band(void *about, int64_t band, int64_t slot) {
    const Backward *b = about;
    const int64_t r = band * b->in.band, rows = rows_of(&b->in, band);
    real *here = b->grad_hidden + r * b->stride;
    (void)slot;
    multiply(here, b->grad + r * b->grad_stride, &b->down, b->stride, b->grad_stride, rows);
    for (int64_t k = 0; k < blocks_of(&b->in, band); k++) {
        const int64_t at = k * BLOCK * b->stride;
        real *room = block_room(&b->in, band, k);
        pass_relu(room, room + b->width, here + at, b->hidden + r * b->stride + at, b->columns, b->stride,
                  smaller(BLOCK, rows - k * BLOCK), b->width);
    }
}

/* The gradient of a band of hidden rows, and of x. */
static void correct_band(void *about, int64_t band, int64_t slot) {
    const Backward *b = about;
    const int64_t r = band * b->in.band, rows = rows_of(&b->in, band);
    real *here = b->grad_hidden + r * b->stride;
    (void)slot;
    correct(&b->slopes, here, b->hidden + r * b->stride, b->columns, b->count ? b->count + r : 0, b->stride, b->stride,
            rows);
    if (b->grad_x) multiply(b->grad_x + r * b->grad_x_stride, here, &b->up, b->grad_x_stride, b->stride, rows);
}

/* Where a piece of so many columns begins, in whole tiles. */
static int64_t beginning(int64_t columns, int64_t piece, int64_t pieces) {
    const int64_t unit = TALL * LANES;
    return smaller(columns, (columns + unit - 1) / unit * piece / pieces * unit);
}

/* The gradients of weights and biases, for some of the hidden columns, over all rows. */
static void add_columns(void *about, int64_t piece, int64_t slot) {
    const Backward *b = about;
    const int64_t from = beginning(b->width, piece, b->pieces), to = beginning(b->width, piece + 1, b->pieces);
    const int64_t low = beginning(b->after, piece, b->pieces), high = beginning(b->after, piece + 1, b->pieces);
    Adding *a = b->adding + slot;
    for (int64_t band = 0; band < b->in.bands; band++) {
        const int64_t r = band * b->in.band, rows = rows_of(&b->in, band);
        const real *back = b->grad + r * b->grad_stride, *here = b->grad_hidden + r * b->stride + from;
        add_rows(b->grad_last_bias + low, back + low, b->grad_stride, rows, high - low);
        activate(a->active.rows, b->hidden + r * b->stride + from, b->columns + from, b->columns + b->width + from,
                 a->active.stride, b->stride, rows, to - from);
        a->given.depth = rows;
        fill_factor(&a->given, back, 0, b->grad_stride, 1);
        add_masked_transposed(b->sums + from * b->whole, &a->active, &a->given, b->whole, to - from);
        add_rows(b->grad_first_bias + from, here, b->stride, rows, to - from);
        if (!b->grad_first) continue;
        a->known.depth = rows;
        fill_factor(&a->known, b->x + r * b->x_stride, 0, b->x_stride, 1);
        add_transposed(b->grad_first + from * b->before, here, &a->known, a->transposed, b->before, b->stride,
                       to - from);
    }
}

/* Backwards through `perceptron`, which gave `hidden`, `columns` and `total`.

   grad_x may be null, and so may x if grad_first is. grad_hidden (rows, width) gets the gradient of what is normalised.
   grad_first and the gradients of both biases come as zeros; grad_affine (2, width) gets those of weight and bias of the
   normalisation. Returns -1 without memory. */
int perceptron_backward(real *restrict grad_x, real *restrict grad_hidden, real *restrict grad_first,
                        real *restrict grad_first_bias, real *restrict grad_last, real *restrict grad_last_bias,
                        real *restrict grad_affine, const real *restrict grad, const real *restrict x,
                        const real *restrict hidden, const real *restrict columns, const real *restrict first,
                        const real *restrict last, const real *count, double total, int64_t grad_x_stride,
                        int64_t grad_stride, int64_t stride, int64_t x_stride, int64_t rows, int64_t before,
                        int64_t width, int64_t after) {
    const int64_t band = band_of(widest(before, width, after)), slots = sharing_threads();
    const int64_t work = rows * width * (before + after) / 2 / SPEED;
    Backward b = {.grad_x = grad_x, .grad_hidden = grad_hidden, .grad_first = grad_first,
                  .grad_first_bias = grad_first_bias, .grad_last_bias = grad_last_bias, .grad = grad, .x = x,
                  .hidden = hidden, .columns = columns, .count = count, .grad_x_stride = grad_x_stride,
                  .grad_stride = grad_stride, .stride = stride, .x_stride = x_stride, .before = before, .width = width,
                  .after = after, .whole = (after + LANES - 1) / LANES * LANES, .pieces = slots};
    int failed = new_bands(&b.in, rows, band, width) || new_factor(&b.down, after, width) ||
                 new_factor(&b.up, width, before) || new_slopes(&b.slopes, width);
    b.sums = calloc(width * b.whole, sizeof(real));
    b.adding = calloc(slots, sizeof(Adding));
    failed = failed || !b.sums || !b.adding;
    for (int64_t s = 0; !failed && s < slots; s++) failed = new_adding(b.adding + s, &b, width);
    if (!failed) {
        fill_factor(&b.down, last, 0, width, 1);
        if (grad_x) fill_factor(&b.up, first, 0, before, 1);
        share(return_band, &b, b.in.bands, work);
        for (int64_t n = 0; n < b.in.bands; n++)
            for (int64_t k = 0; k < blocks_of(&b.in, n); k++) {
                const real *room = block_room(&b.in, n, k);
                join_slopes(&b.slopes, room, room + width, columns);
            }
        settle(&b.slopes, grad_affine, columns, total);
        share(correct_band, &b, b.in.bands, work);
        share(add_columns, &b, b.pieces, work);
        transpose(grad_last, b.sums, b.whole, after, width);
    }
    for (int64_t s = 0; b.adding && s < slots; s++) free_adding(b.adding + s);
    free(b.adding);
    free(b.sums);
    free(b.in.room);
    free_factor(&b.up);
    free_factor(&b.down);
    free_slopes(&b.slopes);
    return failed ? -1 : 0;
}
