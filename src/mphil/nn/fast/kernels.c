/* Messages, random bits, nodes that look alike: see kernels.h. */

#include "kernels.h"

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/* Edges by a row they have: those of row r are order[start[r]] to order[start[r + 1] - 1], as they come. Rows of a
   result are finished one after the other this way, in the cache. Null without memory. */
static int64_t *ordered(const int64_t *row, int64_t rows, int64_t edges, int64_t **order) {
    int64_t *start = calloc(rows + 2 + edges, sizeof(int64_t));
    if (!start) return 0;
    *order = start + rows + 2;
    for (int64_t e = 0; e < edges; e++) start[row[e] + 2]++;
    for (int64_t r = 0; r < rows; r++) start[r + 2] += start[r + 1];
    for (int64_t e = 0; e < edges; e++) (*order)[start[row[e] + 1]++] = e;
    return start;
}

enum { ROWS = 64, SPEED = 10000 }; /* of a piece; numbers of messages in a microsecond, roughly */

typedef struct {
    real *out;
    const real *h, *bond, *weight;
    const int64_t *source, *own, *code, *order, *start;
    int64_t rows, width;
} Messages;

/* Some rows of a result, each with all its messages. */
static void receive_rows(void *about, int64_t piece, int64_t slot) {
    const Messages *m = about;
    const int64_t width = m->width, end = smaller((piece + 1) * ROWS, m->rows);
    (void)slot;
    for (int64_t r = piece * ROWS; r < end; r++) {
        real *restrict to = m->out + r * width;
        memcpy(to, m->h + (m->own ? m->own[r] : r) * width, width * sizeof(real));
        for (int64_t i = m->start[r]; i < m->start[r + 1]; i++) {
            const int64_t e = m->order[i];
            const real *restrict from = m->h + m->source[e] * width, w = m->weight ? m->weight[e] : 1;
            if (m->bond) {
                const real *restrict add = m->bond + (m->code ? m->code[e] : e) * width;
                for (int64_t c = 0; c < width; c++) {
                    const real sum = from[c] + add[c];
                    to[c] += w * (sum < 0 ? 0 : sum); /* this way round a NaN stays one */
                }
            } else {
                for (int64_t c = 0; c < width; c++) to[c] += w * from[c];
            }
        }
    }
}

/* out[r] = h[own[r]] + sum over edges e into r of weight[e] * relu(h[source[e]] + bond[code[e]]).
   Without `own` row r is its own; without `bond` the message is h[source] as it is; without `code` edge e has row e.
   Returns -2 without memory. */
int aggregate(real *restrict out, const real *restrict h, const int64_t *source, const int64_t *target,
              const int64_t *own, const real *restrict bond, const int64_t *code, const real *weight, int64_t rows,
              int64_t sources, int64_t edges, int64_t bonds, int64_t width) {
    if (!within(own, rows, sources) || !within(source, edges, sources) || !within(target, edges, rows) ||
        !within(code, edges, bonds) || (edges && bond && !code && bonds != edges))
        return -1;
    int64_t *order, *start = ordered(target, rows, edges, &order);
    if (!start) return -2;
    Messages m = {.out = out, .h = h, .bond = bond, .weight = weight, .source = source, .own = own, .code = code,
                  .order = order, .start = start, .rows = rows, .width = width};
    share(receive_rows, &m, (rows + ROWS - 1) / ROWS, (rows + edges) * width / SPEED);
    free(start);
    return 0;
}

/* Gradients of `aggregate` given that of its result, whose rows are `stride` apart. grad_bond comes as zeros, and with
   `own` so does grad_h; grad_weight may be null. Returns -2 without memory. */
int aggregate_backward(real *restrict grad_h, real *restrict grad_bond, real *restrict grad_weight,
                       const real *restrict grad, const real *restrict h, const int64_t *source, const int64_t *target,
                       const int64_t *own, const real *restrict bond, const int64_t *code, const real *weight,
                       int64_t stride, int64_t rows, int64_t sources, int64_t edges, int64_t width) {
    int64_t *order, *start = ordered(source, sources, edges, &order);
    if (!start) return -2;
    for (int64_t r = 0; own && r < rows; r++)
        for (int64_t c = 0; c < width; c++) grad_h[own[r] * width + c] += grad[r * stride + c];
    for (int64_t r = 0; r < sources; r++) {
        const real *from = h + r * width;
        real *to = grad_h + r * width;
        if (!own) memcpy(to, grad + r * stride, width * sizeof(real));
        for (int64_t i = start[r]; i < start[r + 1]; i++) {
            const int64_t e = order[i], row = code ? code[e] : e;
            const real *back = grad + target[e] * stride, w = weight ? weight[e] : 1;
            const real *add = bond ? bond + row * width : 0;
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
    free(start);
    return 0;
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
