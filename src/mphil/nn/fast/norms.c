/* Batch normalisation and what follows on it, ReLU, copying to all nodes of a class, dropout: see kernels.h.

   The `columns` (4, width) of a normalisation are scale, shift, mean and 1 / sqrt(variance + eps), where scale * x +
   shift is the normalised x times its weight plus its bias. */

#include "kernels.h"

enum { ROWS = 4 * BLOCK }; /* of a piece of work that threads share */
enum { SOME = 256 / sizeof(real) }; /* columns that are summed at once */
enum { SPEED = 5000 };              /* numbers in a microsecond, roughly */

/* A normalisation. `grad` is that of its result and `to` that of x, or the result; each block of rows has two rows of
   `room` for its sums and a number of nodes. */
typedef struct {
    real *to, *room;
    const real *x, *grad, *columns, *count;
    const int64_t *expand;
    const int16_t *draws;
    const Slopes *slopes;
    double *nodes;
    real floor, gain;
    int64_t stride, back_stride, rows, width;
    int16_t least;
} Pass;

static int64_t pieces_of(int64_t rows) { return (rows + ROWS - 1) / ROWS; }

int new_moments(Moments *m, int64_t width) {
    m->mean = calloc(2 * width + 1, sizeof(double));
    m->squares = m->mean + width;
    m->total = 0;
    m->width = width;
    return m->mean ? 0 : -1;
}

void free_moments(const Moments *m) { free(m->mean); }

/* At most BLOCK rows of x, row r counted count[r] times. */
void measure_block(Block *b, const real *restrict x, const real *count, int64_t stride, int64_t rows, int64_t width) {
    real *restrict centre = b->centre, *restrict spread = b->spread;
    double nodes = 0;
    memset(centre, 0, width * sizeof(real));
    memset(spread, 0, width * sizeof(real));
    for (int64_t r = 0; r < rows; r++) {
        const real times = count ? count[r] : 1;
        nodes += times;
        for (int64_t c = 0; c < width; c++) centre[c] += times * x[r * stride + c];
    }
    for (int64_t c = 0; c < width; c++) centre[c] /= (real)nodes;
    for (int64_t r = 0; r < rows; r++) {
        const real times = count ? count[r] : 1;
        for (int64_t c = 0; c < width; c++) {
            const real off = x[r * stride + c] - centre[c];
            spread[c] += times * off * off;
        }
    }
    b->nodes = nodes;
}

/* Blocks are joined by the rule of Chan et al. (1979) in double: one pass over the memory, and no cancellation. */
void join_block(Moments *m, const Block *b) {
    const double share = b->nodes / (m->total + b->nodes);
    const real *restrict centre = b->centre, *restrict spread = b->spread;
    double *restrict mean = m->mean, *restrict squares = m->squares;
    for (int64_t c = 0; c < m->width; c++) {
        const double off = centre[c] - mean[c];
        mean[c] += off * share;
        squares[c] += spread[c] + off * off * m->total * share;
    }
    m->total += b->nodes;
}

/* The columns of a normalisation by these moments; its running statistics move towards them by the share `momentum`,
   and have seen a batch more. */
void conclude(const Moments *m, real *restrict columns, real *restrict running_mean, real *restrict running_variance,
              int64_t *batches, const real *restrict weight, const real *restrict bias, double eps, double momentum) {
    const int64_t width = m->width;
    ++*batches;
    for (int64_t c = 0; c < width; c++) {
        const double inverse = 1 / sqrt(m->squares[c] / m->total + eps), scale = weight[c] * inverse;
        columns[c] = (real)scale;
        columns[width + c] = (real)(bias[c] - m->mean[c] * scale);
        columns[2 * width + c] = (real)m->mean[c];
        columns[3 * width + c] = (real)inverse;
        running_mean[c] += (real)(momentum * (m->mean[c] - running_mean[c]));
        running_variance[c] += (real)(momentum * (m->squares[c] / (m->total - 1) - running_variance[c]));
    }
}

static void measure_rows(void *about, int64_t piece, int64_t slot) {
    const Pass *p = about;
    const int64_t end = smaller((piece + 1) * ROWS, p->rows);
    (void)slot;
    for (int64_t r = piece * ROWS; r < end; r += BLOCK) {
        real *room = p->room + r / BLOCK * 2 * p->width;
        Block block = {room, room + p->width, 0};
        measure_block(&block, p->x + r * p->stride, p->count ? p->count + r : 0, p->stride, smaller(BLOCK, end - r),
                      p->width);
        p->nodes[r / BLOCK] = block.nodes;
    }
}

/* The columns of a normalisation of x by its own statistics. Returns the sum of the counts, or -1 without memory. */
double statistics(real *restrict columns, real *restrict running_mean, real *restrict running_variance,
                  int64_t *batches, const real *restrict x, const real *restrict weight, const real *restrict bias,
                  const real *count, double eps, double momentum, int64_t stride, int64_t rows, int64_t width) {
    const int64_t blocks = (rows + BLOCK - 1) / BLOCK;
    Moments moments;
    Pass p = {.x = x, .count = count, .stride = stride, .rows = rows, .width = width};
    p.room = malloc(2 * blocks * width * sizeof(real) + 1);
    p.nodes = malloc(blocks * sizeof(double) + 1);
    const int failed = new_moments(&moments, width) || !p.room || !p.nodes;
    if (!failed) share(measure_rows, &p, pieces_of(rows), rows * width / SPEED);
    for (int64_t b = 0; !failed && b < blocks; b++) {
        real *room = p.room + b * 2 * width;
        join_block(&moments, &(Block){room, room + width, p.nodes[b]});
    }
    if (!failed) conclude(&moments, columns, running_mean, running_variance, batches, weight, bias, eps, momentum);
    free_moments(&moments);
    free(p.room);
    free(p.nodes);
    return failed ? -1 : moments.total;
}

static void normalise_rows(void *about, int64_t piece, int64_t slot) {
    const Pass *p = about;
    const int64_t width = p->width, end = smaller((piece + 1) * ROWS, p->rows);
    const real *restrict scale = p->columns, *restrict shift = scale + width, floor = p->floor;
    (void)slot;
    for (int64_t n = piece * ROWS; n < end; n++) {
        const real *restrict from = p->x + (p->expand ? p->expand[n] : n) * p->stride;
        real *restrict to = p->to + n * width;
        for (int64_t c = 0; c < width; c++) {
            const real value = scale[c] * from[c] + shift[c];
            to[c] = value < floor ? 0 : value;
        }
        drop(to, p->draws ? p->draws + n * width : 0, p->least, p->gain, width);
    }
}

/* out[n] = dropout(relu(scale * x[expand[n]] + shift)). A feature is dropped where its draw is below `least`, and
   divided by the share kept otherwise; without `draws` none is. */
int normalise(real *restrict out, const real *restrict x, const real *restrict columns, const int64_t *expand,
              const int16_t *restrict draws, int64_t least, double kept, int64_t relu, int64_t stride, int64_t nodes,
              int64_t rows, int64_t width) {
    if (!within(expand, nodes, rows)) return -1;
    Pass p = {.to = out, .x = x, .columns = columns, .expand = expand, .draws = draws, .floor = relu ? 0 : -INFINITY,
              .gain = (real)(1 / kept), .stride = stride, .rows = nodes, .width = width, .least = (int16_t)least};
    share(normalise_rows, &p, pieces_of(nodes), nodes * width / SPEED);
    return 0;
}

/* What of a row's gradient comes through dropout and ReLU. Numbers are read before it is known whether they count: a
   read that waits for a comparison costs three times as much. */
static void passed(real *restrict out, const real *restrict back, const real *restrict from,
                   const real *restrict scale, const real *restrict shift, const int16_t *restrict draw, int16_t least,
                   real gain, real floor, int64_t width) {
    for (int64_t c = 0; c < width; c++) {
        const real all = back[c];
        out[c] = scale[c] * from[c] + shift[c] > floor ? all : 0;
    }
    drop(out, draw, least, gain, width);
}

int new_slopes(Slopes *s, int64_t width) {
    s->scale = calloc(2 * width, sizeof(double));
    s->sums = malloc(2 * width * sizeof(real) + 1);
    s->shift = s->scale + width;
    s->products = s->sums + width;
    s->width = width;
    return s->scale && s->sums ? 0 : -1;
}

void free_slopes(const Slopes *s) {
    free(s->scale);
    free(s->sums);
}

/* The sums of some columns; they stay in registers where the compiler knows how many there are. */
static inline __attribute__((always_inline)) void take_columns(real *restrict sums, real *restrict products,
                                                               const real *restrict grad, const real *restrict x,
                                                               const real *restrict mean, int64_t grad_stride,
                                                               int64_t x_stride, int64_t rows, const int64_t some) {
    real sum[SOME] = {0}, product[SOME] = {0};
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < some; c++) {
            const real back = grad[r * grad_stride + c];
            sum[c] += back;
            product[c] += back * (x[r * x_stride + c] - mean[c]);
        }
    memcpy(sums, sum, some * sizeof(real));
    memcpy(products, product, some * sizeof(real));
}

/* Sums over a block of rows of the gradient of scale * x + shift, and of its products with x less its mean. */
static void take_gradients(real *restrict sums, real *restrict products, const real *restrict grad,
                           const real *restrict x, const real *restrict mean, int64_t grad_stride, int64_t x_stride,
                           int64_t rows, int64_t width) {
    for (int64_t c = 0; c < width; c += SOME) {
        const int64_t some = smaller(SOME, width - c);
        if (some == SOME)
            take_columns(sums + c, products + c, grad + c, x + c, mean + c, grad_stride, x_stride, rows, SOME);
        else take_columns(sums + c, products + c, grad + c, x + c, mean + c, grad_stride, x_stride, rows, some);
    }
}

/* The same of the gradient of relu(scale * x + shift); in place, what passes the ReLU is left of it. */
void pass_relu(real *restrict sums, real *restrict products, real *restrict grad, const real *restrict x,
               const real *restrict columns, int64_t stride, int64_t rows, int64_t width) {
    const real *scale = columns, *shift = scale + width, *mean = shift + width;
    memset(sums, 0, width * sizeof(real));
    memset(products, 0, width * sizeof(real));
    for (int64_t r = 0; r < rows; r++) {
        real *here = grad + r * stride;
        const real *from = x + r * stride;
        for (int64_t c = 0; c < width; c++) {
            const real value = scale[c] * from[c] + shift[c], all = here[c], back = value > 0 ? all : 0;
            here[c] = back;
            sums[c] += back;
            products[c] += back * (from[c] - mean[c]);
        }
    }
}

/* Add the sums of a block, in double. */
void join_slopes(const Slopes *s, const real *restrict sums, const real *restrict products,
                 const real *restrict columns) {
    const real *inverse = columns + 3 * s->width;
    for (int64_t c = 0; c < s->width; c++) {
        s->shift[c] += sums[c];
        s->scale[c] += products[c] * (double)inverse[c];
    }
}

/* All rows are in: the gradients of weight and bias (2, width), and what `correct` needs. */
void settle(const Slopes *s, real *restrict grad_affine, const real *restrict columns, double total) {
    const int64_t width = s->width;
    for (int64_t c = 0; c < width; c++) {
        grad_affine[c] = (real)s->scale[c];
        grad_affine[width + c] = (real)s->shift[c];
        s->sums[c] = (real)(s->shift[c] / total);
        s->products[c] = (real)(s->scale[c] / total * columns[3 * width + c]);
    }
}

/* In place, from the gradient of scale * x + shift to that of x, on which scale and shift depend. */
void correct(const Slopes *s, real *restrict grad, const real *restrict x, const real *restrict columns,
             const real *count, int64_t grad_stride, int64_t x_stride, int64_t rows) {
    const int64_t width = s->width;
    const real *scale = columns, *mean = columns + 2 * width;
    const real *restrict sums = s->sums, *restrict products = s->products;
    for (int64_t r = 0; r < rows; r++) {
        const real times = count ? count[r] : 1, *from = x + r * x_stride;
        real *to = grad + r * grad_stride;
        for (int64_t c = 0; c < width; c++)
            to[c] = scale[c] * (to[c] - times * (sums[c] + (from[c] - mean[c]) * products[c]));
    }
}

/* What comes back to rows of which none is copied, and its sums over blocks of them. */
static void return_rows(void *about, int64_t piece, int64_t slot) {
    const Pass *p = about;
    const int64_t width = p->width, end = smaller((piece + 1) * ROWS, p->rows);
    const real *scale = p->columns, *shift = scale + width, *mean = shift + width;
    (void)slot;
    for (int64_t first = piece * ROWS; first < end; first += BLOCK) {
        const int64_t some = smaller(BLOCK, end - first);
        real *room = p->room + first / BLOCK * 2 * width;
        for (int64_t r = first; !p->expand && r < first + some; r++)
            passed(p->to + r * width, p->grad + r * p->back_stride, p->x + r * p->stride, scale, shift,
                   p->draws ? p->draws + r * width : 0, p->least, p->gain, p->floor, width);
        take_gradients(room, room + width, p->to + first * width, p->x + first * p->stride, mean, width, p->stride,
                       some, width);
    }
}

static void correct_rows(void *about, int64_t piece, int64_t slot) {
    const Pass *p = about;
    const int64_t first = piece * ROWS;
    (void)slot;
    correct(p->slopes, p->to + first * p->width, p->x + first * p->stride, p->columns,
            p->count ? p->count + first : 0, p->width, p->stride, smaller(ROWS, p->rows - first));
}

/* Backwards through `normalise` and the `statistics` in it.

   grad_x (rows, width) comes as zeros if there is `expand`. grad_affine (2, width) gets the gradients of weight and
   bias. `columns` and `total` are what `statistics` gave. Returns -1 without memory. */
int normalise_backward(real *restrict grad_x, real *restrict grad_affine, const real *restrict grad,
                       const real *restrict x, const real *restrict columns, const real *count, const int64_t *expand,
                       const int16_t *draws, int64_t least, double kept, int64_t relu, double total,
                       int64_t back_stride, int64_t stride, int64_t nodes, int64_t rows, int64_t width) {
    const real *scale = columns, *shift = scale + width, floor = relu ? 0 : -INFINITY, gain = (real)(1 / kept);
    const int64_t blocks = (rows + BLOCK - 1) / BLOCK;
    Slopes slopes;
    Pass p = {.to = grad_x, .x = x, .grad = grad, .columns = columns, .count = count, .expand = expand,
              .draws = draws, .slopes = &slopes, .floor = floor, .gain = gain, .stride = stride,
              .back_stride = back_stride, .rows = rows, .width = width, .least = (int16_t)least};
    real *row = malloc(width * sizeof(real) + 1);
    p.room = malloc(2 * blocks * width * sizeof(real) + 1);
    const int failed = new_slopes(&slopes, width) || !row || !p.room;
    for (int64_t n = 0; !failed && expand && n < nodes; n++) {
        real *to = grad_x + expand[n] * width;
        passed(row, grad + n * back_stride, x + expand[n] * stride, scale, shift, draws ? draws + n * width : 0,
               (int16_t)least, gain, floor, width);
        for (int64_t c = 0; c < width; c++) to[c] += row[c];
    }
    if (!failed) {
        share(return_rows, &p, pieces_of(rows), rows * width / SPEED);
        for (int64_t b = 0; b < blocks; b++)
            join_slopes(&slopes, p.room + b * 2 * width, p.room + (b * 2 + 1) * width, columns);
        settle(&slopes, grad_affine, columns, total);
        share(correct_rows, &p, pieces_of(rows), rows * width / SPEED);
    }
    free(row);
    free(p.room);
    free_slopes(&slopes);
    return failed ? -1 : 0;
}
