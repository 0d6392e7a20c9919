/* Straight-line code for each row of a register tile, written by the preprocessor. Internal to kernels/. */
#ifndef PF_KERNELS_VEC_ROWS_H
#define PF_KERNELS_VEC_ROWS_H

#define PF_INLINE static inline __attribute__((always_inline))

/* DO(X, row) for some rows of a tile, counted from 0; PF_EACH_FROM_3_TO_6 is for the third to the sixth. */
#define PF_EACH_2(DO, X)            DO(X, 0) DO(X, 1)
#define PF_EACH_3(DO, X)            PF_EACH_2(DO, X) DO(X, 2)
#define PF_EACH_4(DO, X)            PF_EACH_3(DO, X) DO(X, 3)
#define PF_EACH_6(DO, X)            PF_EACH_4(DO, X) DO(X, 4) DO(X, 5)
#define PF_EACH_7(DO, X)            PF_EACH_6(DO, X) DO(X, 6)
#define PF_EACH_8(DO, X)            PF_EACH_7(DO, X) DO(X, 7)
#define PF_EACH_FROM_9_TO_12(DO, X) DO(X, 8) DO(X, 9) DO(X, 10) DO(X, 11)
#define PF_EACH_12(DO, X)           PF_EACH_8(DO, X) PF_EACH_FROM_9_TO_12(DO, X)
#define PF_EACH_14(DO, X)           PF_EACH_12(DO, X) DO(X, 12) DO(X, 13)
#define PF_EACH_FROM_3_TO_6(DO, X)  DO(X, 2) DO(X, 3) DO(X, 4) DO(X, 5)
#define PF_EACH_FROM_4_TO_6(DO, X)  DO(X, 3) DO(X, 4) DO(X, 5)
#define PF_EACH_FROM_4_TO_12(DO, X) DO(X, 3) DO(X, 4) DO(X, 5) DO(X, 6) DO(X, 7) PF_EACH_FROM_9_TO_12(DO, X)
#define PF_EACH_FROM_7_TO_14(DO, X) DO(X, 6) DO(X, 7) PF_EACH_FROM_9_TO_12(DO, X) DO(X, 12) DO(X, 13)

/* Straight-line code for each row of a tile: with loops clang 14 keeps the sums in memory, at a third of the speed. */
#define PF_EACH_ROW(DO, m) DO(m)
#define PF_ROWS_2(DO)      PF_EACH_2(PF_EACH_ROW, DO)
#define PF_ROWS_3(DO)      PF_EACH_3(PF_EACH_ROW, DO)
#define PF_ROWS_4(DO)      PF_EACH_4(PF_EACH_ROW, DO)
#define PF_ROWS_6(DO)      PF_EACH_6(PF_EACH_ROW, DO)
#define PF_ROWS_7(DO)      PF_EACH_7(PF_EACH_ROW, DO)
#define PF_ROWS_8(DO)      PF_EACH_8(PF_EACH_ROW, DO)
#define PF_ROWS_12(DO)     PF_EACH_12(PF_EACH_ROW, DO)
#define PF_ROWS_14(DO)     PF_EACH_14(PF_EACH_ROW, DO)

/* An entry of a table by height: NAME_m does m + 1 rows. */
#define PF_BY_HEIGHT(NAME, m) [(m) + 1] = NAME##_##m,

#endif
