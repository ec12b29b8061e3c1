/* Normalisation inside groups of members: see kernels.h.

   The features of member m are first[source[m]] + second[target[m]], or first[m] when there are no `second` features;
   they are never stored. The members of group g are start[g] .. start[g + 1]. */

#include "kernels.h"

typedef struct {
    const real *first, *second;
    const int64_t *source, *target;
    int64_t first_stride, second_stride, width;
} Members;

/* The features of members `from` to `to`, row after row. */
static void fetch(real *restrict rows, Members of, int64_t from, int64_t to) {
    for (int64_t m = from; m < to; m++, rows += of.width) {
        const real *one = of.first + (of.source ? of.source[m] : m) * of.first_stride;
        const real *other = of.second ? of.second + of.target[m] * of.second_stride : 0;
        if (other)
            for (int64_t c = 0; c < of.width; c++) rows[c] = one[c] + other[c];
        else
            memcpy(rows, one, of.width * sizeof(real));
    }
}

static int64_t largest(const int64_t *start, int64_t groups) {
    int64_t most = 1;
    for (int64_t g = 0; g < groups; g++) most = start[g + 1] - start[g] > most ? start[g + 1] - start[g] : most;
    return most;
}

/* out[m] = dropout(relu(normalised features)), where every column has mean 0 and variance 1 inside each group.

   columns (groups, 2, width) gets mean and 1 / sqrt(variance + eps). A feature is dropped where its draw is below
   `least`, and divided by the share kept otherwise. Returns -1 for an index out of range, -2 without memory. */
int normalise_groups(real *restrict out, real *restrict columns, const real *first, const real *second,
                     const int64_t *source, const int64_t *target, const int64_t *start, const int16_t *draws,
                     int64_t least, double kept, int64_t relu, double eps, int64_t first_stride, int64_t second_stride,
                     int64_t first_rows, int64_t second_rows, int64_t groups, int64_t width) {
    const Members members = {first, second, source, target, first_stride, second_stride, width};
    const real floor = relu ? 0 : -INFINITY, gain = (real)(1 / kept);
    if (!within(source, start[groups], first_rows) || !within(target, start[groups], second_rows)) return -1;
    real *rows = malloc(largest(start, groups) * width * sizeof(real));
    if (!rows) return -2;
    for (int64_t g = 0; g < groups; g++) {
        const int64_t size = start[g + 1] - start[g];
        real *mean = columns + 2 * g * width, *inverse = mean + width;
        memset(mean, 0, 2 * width * sizeof(real));
        if (!size) continue;
        fetch(rows, members, start[g], start[g + 1]);
        for (int64_t m = 0; m < size; m++)
            for (int64_t c = 0; c < width; c++) mean[c] += rows[m * width + c];
        for (int64_t c = 0; c < width; c++) mean[c] /= (real)size;
        for (int64_t m = 0; m < size; m++)
            for (int64_t c = 0; c < width; c++) {
                const real off = rows[m * width + c] - mean[c];
                rows[m * width + c] = off;
                inverse[c] += off * off;
            }
        for (int64_t c = 0; c < width; c++) inverse[c] = 1 / (real)sqrt(inverse[c] / (real)size + (real)eps);
        for (int64_t m = 0; m < size; m++) {
            const int64_t member = start[g] + m;
            real *to = out + member * width;
            for (int64_t c = 0; c < width; c++) {
                const real value = rows[m * width + c] * inverse[c];
                to[c] = value < floor ? 0 : value;
            }
            drop(to, draws ? draws + member * width : 0, (int16_t)least, gain, width);
        }
    }
    free(rows);
    return 0;
}

/* Gradients of `normalise_groups`, given that of its result, whose rows are `stride` apart, and its `columns`.

   grad_first and grad_second (null without `second`) come as zeros. Returns -2 without memory. */
int normalise_groups_backward(real *restrict grad_first, real *restrict grad_second, const real *restrict grad,
                              const real *restrict columns, const real *first, const real *second,
                              const int64_t *source, const int64_t *target, const int64_t *start, const int16_t *draws,
                              int64_t least, double kept, int64_t relu, int64_t stride, int64_t first_stride,
                              int64_t second_stride, int64_t groups, int64_t width) {
    const Members members = {first, second, source, target, first_stride, second_stride, width};
    const real floor = relu ? 0 : -INFINITY, gain = (real)(1 / kept);
    const int64_t most = largest(start, groups);
    real *rows = malloc(2 * (most + 1) * width * sizeof(real));
    if (!rows) return -2;
    real *felt = rows + most * width, *sums = felt + most * width, *products = sums + width;
    for (int64_t g = 0; g < groups; g++) {
        const int64_t size = start[g + 1] - start[g];
        const real *mean = columns + 2 * g * width, *inverse = mean + width;
        if (!size) continue;
        memset(sums, 0, 2 * width * sizeof(real));
        fetch(rows, members, start[g], start[g + 1]);
        for (int64_t m = 0; m < size; m++) {
            const int64_t member = start[g] + m;
            const real *back = grad + member * stride;
            real *x = rows + m * width, *here = felt + m * width;
            for (int64_t c = 0; c < width; c++) {
                const real all = back[c], value = (x[c] - mean[c]) * inverse[c];
                x[c] = value;
                here[c] = value > floor ? all : 0;
            }
            drop(here, draws ? draws + member * width : 0, (int16_t)least, gain, width);
            for (int64_t c = 0; c < width; c++) {
                sums[c] += here[c];
                products[c] += here[c] * x[c];
            }
        }
        for (int64_t c = 0; c < width; c++) {
            sums[c] /= (real)size;
            products[c] /= (real)size;
        }
        for (int64_t m = 0; m < size; m++) {
            const real *x = rows + m * width;
            real *here = felt + m * width;
            const int64_t member = start[g] + m;
            real *to = grad_first + (source ? source[member] : member) * width;
            for (int64_t c = 0; c < width; c++) here[c] = inverse[c] * (here[c] - sums[c] - x[c] * products[c]);
            for (int64_t c = 0; c < width; c++) to[c] += here[c];
            if (!grad_second) continue;
            to = grad_second + target[member] * width;
            for (int64_t c = 0; c < width; c++) to[c] += here[c];
        }
    }
    free(rows);
    return 0;
}
