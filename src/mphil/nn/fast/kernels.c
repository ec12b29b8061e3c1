/* Messages, batch normalisation and what follows on it, random bits, nodes that look alike: see kernels.h. */

#include "kernels.h"

enum { BLOCK = 32 }; /* rows that stay in the cache between two passes over them */

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* out[r] = h[own[r]] + sum over edges e into r of weight[e] * relu(h[source[e]] + bond[code[e]]).
   Without `own` row r is its own; without `bond` the message is h[source] as it is; without `code` edge e has row e. */
int aggregate(real *restrict out, const real *restrict h, const int64_t *source, const int64_t *target,
              const int64_t *own, const real *restrict bond, const int64_t *code, const real *weight, int64_t rows,
              int64_t sources, int64_t edges, int64_t bonds, int64_t width) {
    if (!within(own, rows, sources) || !within(source, edges, sources) || !within(target, edges, rows) ||
        !within(code, edges, bonds) || (edges && bond && !code && bonds != edges))
        return -1;
    for (int64_t r = 0; r < rows; r++)
        memcpy(out + r * width, h + (own ? own[r] : r) * width, width * sizeof(real));
    for (int64_t e = 0; e < edges; e++) {
        const real *from = h + source[e] * width, w = weight ? weight[e] : 1;
        real *to = out + target[e] * width;
        if (bond) {
            const real *add = bond + (code ? code[e] : e) * width;
            for (int64_t c = 0; c < width; c++) {
                const real sum = from[c] + add[c];
                to[c] += w * (sum < 0 ? 0 : sum); /* this way round a NaN stays one */
            }
        } else {
            for (int64_t c = 0; c < width; c++) to[c] += w * from[c];
        }
    }
    return 0;
}

/* Gradients of `aggregate` given that of its result, whose rows are `stride` apart. grad_h and grad_bond come as zeros;
   grad_weight may be null. */
void aggregate_backward(real *restrict grad_h, real *restrict grad_bond, real *restrict grad_weight,
                        const real *restrict grad, const real *restrict h, const int64_t *source, const int64_t *target,
                        const int64_t *own, const real *restrict bond, const int64_t *code, const real *weight,
                        int64_t stride, int64_t rows, int64_t edges, int64_t width) {
    for (int64_t r = 0; r < rows; r++) {
        real *to = grad_h + (own ? own[r] : r) * width;
        for (int64_t c = 0; c < width; c++) to[c] += grad[r * stride + c];
    }
    for (int64_t e = 0; e < edges; e++) {
        const int64_t row = code ? code[e] : e;
        const real *from = h + source[e] * width, *back = grad + target[e] * stride, w = weight ? weight[e] : 1;
        const real *add = bond ? bond + row * width : 0;
        real *to = grad_h + source[e] * width;
        if (grad_weight) {
            real felt = 0;
#pragma omp simd reduction(+ : felt)
            for (int64_t c = 0; c < width; c++) {
                const real sum = from[c] + (add ? add[c] : 0);
                felt += (add && sum < 0 ? 0 : sum) * back[c];
            }
            grad_weight[e] = felt;
        }
        if (add) {
            real *to_bond = grad_bond + row * width;
            for (int64_t c = 0; c < width; c++) {
                const real all = w * back[c], some = from[c] + add[c] > 0 ? all : 0;
                to[c] += some;
                to_bond[c] += some;
            }
        } else {
            for (int64_t c = 0; c < width; c++) to[c] += w * back[c];
        }
    }
}

/* ---- normalisation, ReLU, copying to all nodes of a class, dropout ------------------------------------------------ */

/* Statistics of the columns of x, row r counted count[r] times, and what normalises by them.

   columns (4, width) gets scale, shift, mean and 1 / sqrt(variance + eps), where scale * x + shift is the normalised x
   times `weight` plus `bias`. running_mean and running_variance move towards the statistics by the share `momentum`.
   Block by block, joined by the rule of Chan et al. (1979) in double: one pass over the memory, and no cancellation.
   Returns the sum of the counts, or -1 without memory. */
double statistics(real *restrict columns, real *restrict running_mean, real *restrict running_variance,
                  const real *restrict x, const real *restrict weight, const real *restrict bias, const real *count,
                  double eps, double momentum, int64_t stride, int64_t rows, int64_t width) {
    double *mean = calloc(2 * width, sizeof(double)), *squares = mean + width, total = 0;
    real *centre = malloc(2 * width * sizeof(real)), *spread = centre + width;
    for (int64_t first = 0; mean && centre && first < rows; first += BLOCK) {
        const int64_t last = first + BLOCK < rows ? first + BLOCK : rows;
        double here = 0;
        memset(centre, 0, 2 * width * sizeof(real));
        for (int64_t r = first; r < last; r++) {
            const real times = count ? count[r] : 1;
            here += times;
            for (int64_t c = 0; c < width; c++) centre[c] += times * x[r * stride + c];
        }
        for (int64_t c = 0; c < width; c++) centre[c] /= (real)here;
        for (int64_t r = first; r < last; r++) {
            const real times = count ? count[r] : 1;
            for (int64_t c = 0; c < width; c++) {
                const real off = x[r * stride + c] - centre[c];
                spread[c] += times * off * off;
            }
        }
        const double share = here / (total + here);
        for (int64_t c = 0; c < width; c++) {
            const double off = centre[c] - mean[c];
            mean[c] += off * share;
            squares[c] += spread[c] + off * off * total * share;
        }
        total += here;
    }
    for (int64_t c = 0; mean && centre && c < width; c++) {
        const double inverse = 1 / sqrt(squares[c] / total + eps), scale = weight[c] * inverse;
        columns[c] = (real)scale;
        columns[width + c] = (real)(bias[c] - mean[c] * scale);
        columns[2 * width + c] = (real)mean[c];
        columns[3 * width + c] = (real)inverse;
        running_mean[c] += (real)(momentum * (mean[c] - running_mean[c]));
        running_variance[c] += (real)(momentum * (squares[c] / (total - 1) - running_variance[c]));
    }
    const int failed = !mean || !centre;
    free(mean);
    free(centre);
    return failed ? -1 : total;
}

/* out[n] = dropout(relu(scale * x[expand[n]] + shift)). A feature is dropped where its draw is below `least`, and
   divided by the share kept otherwise; without `draws` none is. */
int normalise(real *restrict out, const real *restrict x, const real *restrict scale, const real *restrict shift,
              const int64_t *expand, const int16_t *restrict draws, int64_t least, double kept, int64_t relu,
              int64_t stride, int64_t nodes, int64_t rows, int64_t width) {
    if (!within(expand, nodes, rows)) return -1;
    const real floor = relu ? 0 : -INFINITY, gain = (real)(1 / kept);
    for (int64_t n = 0; n < nodes; n++) {
        const real *from = x + (expand ? expand[n] : n) * stride;
        real *to = out + n * width;
        for (int64_t c = 0; c < width; c++) {
            const real value = scale[c] * from[c] + shift[c];
            to[c] = value < floor ? 0 : value;
        }
        drop(to, draws ? draws + n * width : 0, (int16_t)least, gain, width);
    }
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

/* Backwards through `normalise` and the `statistics` in it.

   grad_x (rows, width) comes as zeros if there is `expand`. grad_affine (2, width) gets the gradients of weight and
   bias. `columns` and `total` are what `statistics` gave. Returns -1 without memory. */
int normalise_backward(real *restrict grad_x, real *restrict grad_affine, const real *restrict grad,
                       const real *restrict x, const real *restrict columns, const real *count, const int64_t *expand,
                       const int16_t *draws, int64_t least, double kept, int64_t relu, double total,
                       int64_t back_stride, int64_t stride, int64_t nodes, int64_t rows, int64_t width) {
    const real *scale = columns, *shift = scale + width, *mean = shift + width, *inverse = mean + width;
    const real floor = relu ? 0 : -INFINITY, gain = (real)(1 / kept);
    double *grad_scale = calloc(2 * width, sizeof(double)), *grad_shift = grad_scale + width;
    real *row = malloc(3 * width * sizeof(real)), *sums = row + width, *products = sums + width;
    const int failed = !row || !grad_scale;
    for (int64_t n = 0; !failed && expand && n < nodes; n++) {
        real *to = grad_x + expand[n] * width;
        passed(row, grad + n * back_stride, x + expand[n] * stride, scale, shift, draws ? draws + n * width : 0,
               (int16_t)least, gain, floor, width);
        for (int64_t c = 0; c < width; c++) to[c] += row[c];
    }
    for (int64_t first = 0; !failed && first < rows; first += BLOCK) {
        memset(sums, 0, 2 * width * sizeof(real));
        for (int64_t r = first; r < rows && r < first + BLOCK; r++) {
            real *here = grad_x + r * width;
            const real *from = x + r * stride;
            if (!expand)
                passed(here, grad + r * back_stride, from, scale, shift, draws ? draws + r * width : 0, (int16_t)least,
                       gain, floor, width);
            for (int64_t c = 0; c < width; c++) {
                sums[c] += here[c];
                products[c] += here[c] * (from[c] - mean[c]);
            }
        }
        for (int64_t c = 0; c < width; c++) {
            grad_shift[c] += sums[c];
            grad_scale[c] += products[c] * (double)inverse[c];
        }
    }
    for (int64_t c = 0; !failed && c < width; c++) {
        grad_affine[c] = (real)grad_scale[c];
        grad_affine[width + c] = (real)grad_shift[c];
        sums[c] = (real)(grad_shift[c] / total);
        products[c] = (real)(grad_scale[c] / total * inverse[c]);
    }
    for (int64_t r = 0; !failed && r < rows; r++) {
        const real times = count ? count[r] : 1, *from = x + r * stride;
        real *to = grad_x + r * width;
        for (int64_t c = 0; c < width; c++)
            to[c] = scale[c] * (to[c] - times * (sums[c] + (from[c] - mean[c]) * products[c]));
    }
    free(row);
    free(grad_scale);
    return failed ? -1 : 0;
}

/* ---- random bits -------------------------------------------------------------------------------------------------- */

/* Words 1 to n of SplitMix64 (Steele, Lea and Flood, 2014). */
void random_words(uint64_t *restrict out, int64_t seed, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        uint64_t word = (uint64_t)seed + (uint64_t)(i + 1) * 0x9E3779B97F4A7C15u;
        word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
        word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
        out[i] = word ^ (word >> 31);
    }
}

/* ---- nodes that look alike ---------------------------------------------------------------------------------------- */

static int by_value(const void *left, const void *right) {
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t mixed(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
}

/* Kinds of rows of so many bytes each, with the same bits in them.

   kind (rows) gets the kind of each row, first (rows) the first row of each kind. Kinds are numbered by first
   appearance. Returns how many there are, -1 without memory. A hash finds the candidates and a full comparison
   decides. */
int64_t kinds(int64_t *kind, int64_t *first, const char *row, int64_t rows, int64_t bytes) {
    int64_t size = 2, found = 0;
    while (size < 2 * rows) size *= 2;
    int64_t *slot = malloc(size * sizeof(int64_t));
    if (!slot) return -1;
    memset(slot, -1, size * sizeof(int64_t));
    for (int64_t r = 0; r < rows; r++) {
        const char *mine = row + r * bytes;
        uint64_t hash = 0;
        for (int64_t b = 0; b < bytes; b += sizeof(uint64_t)) {
            uint64_t word = 0;
            memcpy(&word, mine + b, bytes - b < (int64_t)sizeof word ? bytes - b : (int64_t)sizeof word);
            hash = mixed(hash, word);
        }
        int64_t at = (int64_t)(hash & (uint64_t)(size - 1));
        while (slot[at] >= 0 && memcmp(row + first[slot[at]] * bytes, mine, bytes)) at = (at + 1) & (size - 1);
        if (slot[at] < 0) {
            slot[at] = found;
            first[found++] = r;
        }
        kind[r] = slot[at];
    }
    free(slot);
    return found;
}

/* Classes of nodes with the same colour and the same multiset of (bond, colour of the neighbour) around them.

   label (nodes) gets the class of each node, first (nodes) the first node of each class. Classes are numbered by first
   appearance. Returns how many there are, -1 for an index out of range or without memory. A hash finds the candidates
   and a full comparison decides, so that no two different neighbourhoods are ever taken for one. */
int64_t classes(int64_t *label, int64_t *first, const int64_t *colour, const int64_t *source, const int64_t *target,
                const int64_t *code, int64_t nodes, int64_t edges) {
    if (!within(source, edges, nodes) || !within(target, edges, nodes) || !within(code, edges, INT32_MAX) ||
        !within(colour, nodes, INT32_MAX))
        return -1;
    int64_t size = 2, found = 0;
    while (size < 2 * nodes) size *= 2;
    int64_t *start = calloc(nodes + 2, sizeof(int64_t)), *slot = malloc(size * sizeof(int64_t));
    uint64_t *around = malloc((edges + 1) * sizeof(uint64_t));
    if (!start || !slot || !around) {
        found = -1;
        goto done;
    }
    memset(slot, -1, size * sizeof(int64_t));
    /* After counting and filling, the neighbours of node v lie in around[start[v] .. start[v + 1]). */
    for (int64_t e = 0; e < edges; e++) start[target[e] + 2]++;
    for (int64_t v = 0; v < nodes; v++) start[v + 2] += start[v + 1];
    for (int64_t e = 0; e < edges; e++)
        around[start[target[e] + 1]++] = (uint64_t)(code ? code[e] : 0) << 32 | (uint64_t)colour[source[e]];
    for (int64_t v = 0; v < nodes; v++) {
        uint64_t *mine = around + start[v], hash = mixed(0, (uint64_t)colour[v]);
        const int64_t degree = start[v + 1] - start[v];
        if (degree > 1) qsort(mine, degree, sizeof(uint64_t), by_value);
        for (int64_t i = 0; i < degree; i++) hash = mixed(hash, mine[i]);
        int64_t at = (int64_t)(hash & (uint64_t)(size - 1));
        for (;; at = (at + 1) & (size - 1)) {
            if (slot[at] < 0) {
                slot[at] = found;
                first[found++] = v;
                break;
            }
            const int64_t other = first[slot[at]];
            if (colour[other] == colour[v] && start[other + 1] - start[other] == degree &&
                !memcmp(around + start[other], mine, degree * sizeof(uint64_t)))
                break;
        }
        label[v] = slot[at];
    }
done:
    free(start);
    free(slot);
    free(around);
    return found;
}
