/* Where rows come to in decision trees: see kernels.h. */

#include "kernels.h"

enum { ABREAST = 16 }; /* rows that go down a tree together: the next node of one is read while others wait for theirs */

/* leaf[r][t] is the number of the values of the leaf that row r of x (rows, features) comes to in tree t.

   A row goes left where its feature is at most the threshold. At a leaf `feature` is negative, and `left` is the number
   of its values. Trees are those that `Trees` has checked. */
void leaves(int32_t *restrict leaf, const float *restrict x, const int32_t *restrict feature,
            const float *restrict threshold, const int32_t *restrict left, const int32_t *restrict right,
            const int32_t *restrict root, int64_t rows, int64_t trees, int64_t features) {
    for (int64_t t = 0; t < trees; t++)
        for (int64_t first = 0; first < rows; first += ABREAST) {
            const int64_t some = smaller(ABREAST, rows - first);
            int32_t node[ABREAST], going = 1;
            for (int64_t i = 0; i < some; i++) node[i] = root[t];
            while (going) {
                going = 0;
                for (int64_t i = 0; i < some; i++) {
                    const int32_t now = node[i], asked = feature[now], inner = asked >= 0;
                    const float value = x[(first + i) * features + (inner ? asked : 0)];
                    const int32_t next = value <= threshold[now] ? left[now] : right[now];
                    node[i] = inner ? next : now;
                    going |= inner;
                }
            }
            for (int64_t i = 0; i < some; i++) leaf[(first + i) * trees + t] = left[node[i]];
        }
}
