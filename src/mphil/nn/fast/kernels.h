/* The loops of the fast path, in one precision: compile with -DREAL=float or -DREAL=double.

   Matrices are row-major; rows are contiguous and, where a `stride` is given, that many numbers apart. Indices are
   int64, a null pointer means "not given". Nothing is allocated that is not freed, nothing is kept between calls, and
   the order of every sum is fixed. Functions that take indices check them first and return 0, or -1 when one of them is
   out of range. This file has what several of them need. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef REAL real;

static inline int within(const int64_t *index, int64_t n, int64_t end) {
    int64_t bad = 0;
    for (int64_t i = 0; index && i < n; i++) bad |= index[i] < 0 || index[i] >= end;
    return !bad;
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
