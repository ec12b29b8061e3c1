/* Linear, batch normalisation, ReLU, linear, in bands of rows that stay in the cache from one step to the next: see
   kernels.h. What the ReLU gives is never stored; it is made again from what goes into the normalisation. */

#include "kernels.h"

static int64_t widest(int64_t a, int64_t b, int64_t c) { return -smaller(-a, smaller(-b, -c)); }

/* to = relu(scale * x + shift), row by row. */
static void activate(real *restrict to, const real *restrict x, const real *restrict columns, int64_t to_stride,
                     int64_t stride, int64_t rows, int64_t width) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < width; c++) {
            const real value = columns[c] * x[r * stride + c] + columns[width + c];
            to[r * to_stride + c] = value < 0 ? 0 : value; /* this way round a NaN stays one */
        }
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
    const int64_t band = band_of(widest(before, width, after));
    Factor up = {0}, down = {0};
    Moments moments = {0};
    Marked active = {0};
    real *fresh = malloc(band * stride * sizeof(real) + 1);
    const int failed = new_factor(&up, before, width) || new_broad_factor(&down, width, after) ||
                       new_moments(&moments, width) || new_marked(&active, band, width) || !fresh;
    if (!failed && x) fill_factor(&up, first, first_bias, 1, before);
    if (!failed) fill_factor(&down, last, last_bias, 1, width);
    for (int64_t r = 0; !failed && weight && r < rows; r += band) {
        const int64_t some = smaller(band, rows - r);
        if (x) multiply(hidden + r * stride, x + r * x_stride, &up, stride, x_stride, some);
        take_rows(&moments, hidden + r * stride, count ? count + r : 0, stride, some);
    }
    if (!failed && weight)
        conclude(&moments, columns, running_mean, running_variance, batches, weight, bias, eps, momentum);
    for (int64_t r = 0; !failed && r < rows; r += band) {
        const int64_t some = smaller(band, rows - r);
        real *here = weight ? hidden + r * stride : fresh;
        if (!weight) multiply(here, x + r * x_stride, &up, stride, x_stride, some);
        activate(active.rows, here, columns, active.stride, stride, some, width);
        multiply_marked(out + r * out_stride, &active, &down, out_stride, some);
    }
    free_factor(&up);
    free_factor(&down);
    free_moments(&moments);
    free_marked(&active);
    free(fresh);
    return failed ? -1 : moments.total;
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
    const int64_t band = band_of(widest(before, width, after)), whole = (after + LANES - 1) / LANES * LANES;
    Factor up = {0}, down = {0}, known = {0}, given = {0};
    Slopes slopes = {0};
    Marked active = {0};
    real *turned = malloc(band * (width + TALL) * sizeof(real)), *sums = calloc(width * whole, sizeof(real));
    const int failed = new_factor(&down, after, width) || new_factor(&up, width, before) ||
                       new_factor(&known, band, before) || new_broad_factor(&given, band, after) ||
                       new_slopes(&slopes, width) || new_marked(&active, band, width) || !turned || !sums;
    if (!failed) fill_factor(&down, last, 0, width, 1);
    if (!failed && grad_x) fill_factor(&up, first, 0, before, 1);
    for (int64_t r = 0; !failed && r < rows; r += band) {
        const int64_t some = smaller(band, rows - r);
        const real *back = grad + r * grad_stride, *from = hidden + r * stride;
        real *here = grad_hidden + r * stride;
        multiply(here, back, &down, stride, grad_stride, some);
        take_through_relu(&slopes, active.rows, here, from, columns, active.stride, stride, some);
        given.depth = some;
        fill_factor(&given, back, 0, grad_stride, 1);
        add_marked_turned(sums, &active, &given, whole, width);
        add_rows(grad_last_bias, back, grad_stride, some, after);
    }
    if (!failed) {
        settle(&slopes, grad_affine, columns, total);
        turn(grad_last, sums, whole, after, width);
    }
    for (int64_t r = 0; !failed && r < rows; r += band) {
        const int64_t some = smaller(band, rows - r);
        real *here = grad_hidden + r * stride;
        correct(&slopes, here, hidden + r * stride, columns, count ? count + r : 0, stride, stride, some);
        if (grad_x) multiply(grad_x + r * grad_x_stride, here, &up, grad_x_stride, stride, some);
        add_rows(grad_first_bias, here, stride, some, width);
        if (!grad_first) continue;
        known.depth = some;
        fill_factor(&known, x + r * x_stride, 0, x_stride, 1);
        add_turned(grad_first, here, &known, turned, before, stride, width);
    }
    free_factor(&down);
    free_factor(&up);
    free_factor(&known);
    free_factor(&given);
    free_slopes(&slopes);
    free_marked(&active);
    free(turned);
    free(sums);
    return failed ? -1 : 0;
}
