/*
 * The product that a model is made of: rows of activations times packed weights.
 *
 *   C[m, n] = sum_k A[m, k] * W[n, k]          A, C f32; W packed once (format.h); sums in f32
 *
 * Weights lie in panels of 32 output columns (two ZMM registers), each contiguous over all of K: one stream a thread, or
 * two. A step of K is 128 bytes of a panel, 96 in bf16-12, 64 in the formats of four bits.
 *
 *   f32    [n/32] { [k]                [ n0 n1 ... n31 ] }
 *   bf16   [n/32] { [k/2]              [ n0: k k+1 | n1: k k+1 | ... | n31 ] }
 *   -12    [n/32] { [k/16] codes       [k/16] { 768 bytes: 16 values of k, twelve bits each } }   behind all panels reserves
 *   int8   [n/32] { 32 f32 scales      [k/4] [ n0: k k+1 k+2 k+3 | ... | n31 ] }              bytes hold q + 128
 *   int4   [n/32] { 32 f32 scales      [k/4] [ 64 bytes: n0..n15 in low nibbles, n16..n31 in high ] }   of a channel
 *   asym   behind the scales 32 bytes z, one a column, and 32 that mean nothing
 *   groups before the steps of each two groups 64 bytes m << 4 | z, one a column for either (layout_int.h)
 *
 *   exact  blocks of 32 values of k, the scales of their groups among them (layout_exact.h)
 *
 * All divisions round up: columns that fill the last panel and values that fill the last step or group stand for zero
 * (a scale of zero, or q = 0 in int8 and q = 8 or z in int4). A panel's size is a multiple of 64 bytes.
 * bf16-12 holds the bits of bf16, and its products are those of bf16 below AMX, bit for bit; on AMX they are those of
 * avx512bf16, whose sums have another order. layout_bf16_12.h has its blocks.
 * Several tensors of equal K (q, k and v; gate and up) may be stacked into one matrix: their rows follow each other, at
 * any boundary.
 *
 * Rounding weights to integers, to nearest, ties to even, in f32. Of a column:
 *   int8   s = max |w| / 127                       q = clamp(round(w / s), -127, 127)
 *   int4   s = (the w of largest magnitude, of equals the negative one) / -8      q = clamp(round(w / s) + 8, 0, 15)
 *   asym   lo = min(w, 0), hi = max(w, 0);  s = hi / 15 - lo / 15;
 *          z = clamp(round(-lo / s), 0, 15);  q = clamp(round(w / s) + z, 0, 15)
 * Of groups: s = max |w| / 120 over the column, 0 where max |w| is below 2^-100; and in each group, with lo and hi of its own
 * values:
 *   int4   m = clamp(round(max(-lo, hi) / s / 8), 1, 15);  z = 8 where -lo >= hi, else 7
 *   asym   m = clamp(round((hi / s - lo / s) / 15), 1, 15);  z = clamp(round(-lo / (m * s)), 0, 15);
 *          then m = min(m, 127 / max(z, 15 - z)), rounded down
 *          q = clamp(round(w * (1 / (m * s))) + z, 0, 15)
 * s = 0, which is stored without a sign, gives q = 0 (int8), q = z = 8 (symmetric) or 0, and m = 0. A weight that is no number
 * counts as 0, an infinite one as the largest finite f32 of its sign.
 *
 * Activations are repacked before a product, in row tiles as high as the kernel's register tile (its tile_rows), so
 * that a K step of a tile is contiguous. M rows make the fewest tiles, as equal as can be (16 = 8 + 8).
 *
 * Order of summation, the definition (gemm_ref.c). Every output is ONE chain over K, whatever M, the tile, the panel
 * range and the number of threads: that is what row invariance rests on.
 *   f32 class    c = 0; for each k in order:          c = fma(a[k], w[k], c)
 *   bf16 class   c = 0; for each pair k, k+1 in order: c = fma(a[k], w[k], fma(a[k+1], w[k+1], c))
 *                a rounded to bf16 (to nearest, ties to even) when packed; the odd one of a pair is added first,
 *                as VDPBF16PS does
 *   amx class    c = 0; for each 32 of k in order: even = 0, odd = 0; for each pair in order: even = fma(a[k], w[k], even),
 *                odd = fma(a[k+1], w[k+1], odd); then c = c + (even + odd): one TDPBF16PS
 *   int8 class   i = sum over k of qa[k] * (q[k] - z) * m, an exact 32-bit integer;  c = fma((float)i, s, 0) * sa;
 *                m is 1 where there are no groups
 *   integer weights with bf16 activations: the bf16 or amx class on weights that are bf16((q - z) * m * s), the integer
 *                times s in f32 rounded once, to nearest, ties to even; q - z is q in int8, q - 8 in int4-channel. A value
 *                that fills the last pair is weighed like any other, times an activation of +0
 *   exact class  activations are rounded by blocks of 32 of k. c = 0; for each block in order, of groups of 16 each half of it:
 *                i = sum of qa[k] * q[k], q - 8 where symmetric nibbles; c = fma((float)i, s * sa, c); where there are zero points
 *                or minima c = fma(m, sa * (float)(sum of qa[k]), c), m = -z * s where there are zero points
 * A row of int8 activations, or a block of one in the exact class: x = max |a|, sa = x / 127, qa = round(a * (127 / x)), all in f32.
 * The f32 class gives the same bits on every instruction set, but for which NaN; the int8 class too, on the AMX as well.
 * The bf16 class too, as long as no number on the way is denormal: VDPBF16PS reads denormal inputs and sums as zero and
 * flushes denormal results to zero, the other implementations keep them. That moves an output by less than
 * K * 2^-126 * max(1, |a|, |w|). TDPBF16PS treats them likewise, the definition of the amx class (gemm_amx_ref.c) keeps them.
 * A NaN or an infinity reaches only the outputs of its row of A or its row of W. Quantised to int8, a row of A that holds
 * one gives NaN in all its outputs; a row whose largest magnitude is below 2^-100 counts as zeros.
 *
 * Threads: packing and products share nothing that is written, so members of a team take disjoint tiles or panels;
 * packing and multiplying are separated by a barrier (pf_team_barrier), unless each member packs for itself.
 */
#ifndef PF_KERNELS_GEMM_H
#define PF_KERNELS_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "kernels/act/activation.h"
#include "kernels/gemm/format.h"
#include "kernels/types.h"

enum { PF_GEMM_PANEL = 32 }; /* columns */

/* How a machine is best asked for what lies in its memory, or in its last cache (gemm_nest.h). */
typedef enum {
    PF_FETCH_FAR,   /* pages ahead */
    PF_FETCH_NEAR,  /* less than a page ahead, from memory */
    PF_FETCH_TILED, /* likewise, and AMX tiles get as much from there as vectors do */
    PF_FETCH_SHORT, /* a few lines ahead; pages ahead, into the L2, where multiplies take as long */
    PF_N_FETCHES
} pf_fetch;

/* Of a machine with these PF_FEATURE_... */
pf_fetch pf_fetch_of(uint32_t features);

static inline bool pf_fetch_is_near(pf_fetch fetch)
{
    return fetch == PF_FETCH_NEAR || fetch == PF_FETCH_TILED;
}

/* A packed matrix. The memory is the caller's. */
typedef struct {
    pf_format format;
    int32_t n; /* columns of the product: rows of W */
    int32_t k;
    int32_t n_panels; /* ceil(n / 32) */
    size_t panel_bytes;
    bool from_memory;       /* a pass reads more than the last cache holds: a hint, results do not depend on it */
    pf_fetch fetch;         /* the machine's: likewise a hint */
    pf_group_format groups; /* of PF_FORMAT_EXACT */
    void *panels;           /* [n_panels, panel_bytes], and in bf16-12 what layout_bf16_12.h draws; 64-byte aligned */
    struct pf_onednn_matrix *onednn; /* another copy, or NULL (gemm_onednn.h) */
} pf_gemm_weights;

enum { PF_GEMM_MAX_INT_K = 131072 }; /* of the integer formats: a sum of 32 bits holds no longer column */

/* Fill everything but `panels` (NULL), and *bytes with what the panels take.
 * PF_INVALID: n or k is not positive.  PF_LIMIT: the size overflows, or k is more than PF_GEMM_MAX_INT_K where weights
 * are integers. */
PF_MUST_USE pf_status pf_gemm_plan_weights(pf_format format, int32_t n, int32_t k, pf_gemm_weights *out, size_t *bytes);

/* The same for a matrix in PF_FORMAT_EXACT with these groups. PF_INVALID: there are no such groups. */
PF_MUST_USE pf_status pf_gemm_plan_exact(const pf_group_format *groups, int32_t n, int32_t k, pf_gemm_weights *out,
                                         size_t *bytes);

/* Values [k, k + n) of row `row` of a source in groups, as pf_group_piece has them. */
typedef void pf_gemm_fill_fn(const void *user, int32_t row, int32_t k, int32_t n, pf_group_piece *out);

/* A tensor to be packed, as it lies in a file: numbers, or where `scales` is given integers of the matrix's own format
 * (pf_gemm_quantise_row made them, perhaps), which give the panels that the numbers would have given. */
typedef struct {
    const void *data; /* [n_rows, k], rows `stride` elements apart; any alignment */
    pf_type type;     /* f32, f16 or bf16; of no meaning for integers */
    int32_t n_rows;
    size_t stride; /* elements */

    /* Integers: data hold int8 q, or two nibbles q a byte, the even k in the low one, rows at whole bytes (an even
     * stride). */
    const void *scales;   /* [n_rows] f32, any alignment; NULL: data are numbers */
    const uint8_t *heads; /* [n_rows, groups]: m << 4 | z as format.h has it; of asymmetric channels z; else NULL */

    /* Groups of others, for a matrix in PF_FORMAT_EXACT whose groups hold these (pf_group_format_of_both). */
    pf_gemm_fill_fn *fill; /* NULL: data are what they are above */
    const void *fill_user;
    pf_group_format groups; /* that it gives */
} pf_gemm_source;

/* Pack panels [panel_begin, panel_end) from sources stacked in order; together they have w->n rows (asserted). To f32
 * all types go exactly; to bf16 f32 and f16 are rounded to nearest, ties to even; to integers as above. Called by each
 * member for the panels that it will multiply, so that it touches their memory first. The same panels on every
 * instruction set; pf_kernels has a faster one than this, the definition.
 * False: a panel of bf16-12 has not enough in reserve, and the matrix cannot be held so. Other formats hold everything. */
typedef bool pf_gemm_pack_weights_fn(const pf_gemm_weights *w, const pf_gemm_source *sources, int32_t n_sources,
                                     int32_t panel_begin, int32_t panel_end);
pf_gemm_pack_weights_fn pf_gemm_pack_weights_ref;

/* How many groups a row of k values has: 1 where there is none but the column. Integer formats only. */
int32_t pf_gemm_groups(pf_format format, int32_t k);

/* Whether a format has heads, a byte for each group of a row. Integer formats only. */
bool pf_gemm_has_heads(pf_format format);

/* Which of n bytes is the first that is no head of a format that has them; n: none. Products may count on heads
 * being valid: a file's are looked at before they are packed. */
size_t pf_gemm_find_bad_head(pf_format format, const uint8_t *heads, size_t n);

/* One row of numbers [k] to integers, in the form that pf_gemm_source takes: q [k] bytes, or [ceil(k / 2)] with a last
 * high nibble of 0; its scale, an f32; heads [groups] where the format has them, else NULL. Any alignment. */
void pf_gemm_quantise_row(pf_format format, const void *row, pf_type type, int32_t k, void *q, void *scale,
                          uint8_t *heads);

/* What row n of W stands for: out [k]. Integers: (q - z) * m * s, the integer times s rounded once. */
void pf_gemm_unpack_row(const pf_gemm_weights *w, int32_t n, float *out);

/* The same of all columns of a panel at once, from k = block * 16 on: out [16, 32], the rows of it that there are; columns
 * that fill the panel among them. A caller that needs the whole matrix reads its memory once this way, not once a row. */
enum { PF_GEMM_BLOCK_K = 16 };
void pf_gemm_unpack_block(const pf_gemm_weights *w, int32_t panel, int32_t block, float *out);

/* Bytes of packed activations for m rows of k values, whatever the kernel: rows up to a multiple of 16, k up to one of
 * 128; for each row four bytes a value, four for every 32 values (sums of groups) and 64 (a scale). 64-byte aligned
 * memory. */
size_t pf_gemm_input_bytes(int32_t m, int32_t k);

/* Bytes of one member's scratch for a product of m rows; 64-byte aligned memory. What a kernel keeps there between two
 * blocks of K is its own affair, within these parts:
 *
 *   | sums [m, 32] f32 or int32 | sums [m, 32] again | a piece of a panel, unpacked |       m up to a multiple of 32
 *
 * Of more than 16 rows the sums take PF_GEMM_GROUP_BYTES at least: those of several panels.
 */
size_t pf_gemm_scratch_bytes(int32_t m);
enum { PF_GEMM_GROUP_BYTES = 1 << 20 };  /* half of the L2 of a core of the processors that want so much */
enum { PF_GEMM_UNPACKED_BYTES = 32768 }; /* of the piece: 512 values of k by 32 columns in bf16 */

/* What becomes of the result: c = r, or c = c + r (one rounding more; the residual). */
typedef enum { PF_GEMM_STORE, PF_GEMM_ADD } pf_gemm_mode;

/* Pack row tiles [tile_begin, tile_end) of a [m, k] (f32, rows lda elements apart, any alignment) into `input`. */
typedef void pf_gemm_pack_fn(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t tile_begin,
                             int32_t tile_end);

/* Pack columns [k_begin, k_end) of all tiles: those that the caller has just written, while they are in its cache. Together
 * with what others pack it is what `pack` gives. k_begin is a multiple of PF_GEMM_PANEL; k_end is one too, or k. */
typedef void pf_gemm_pack_columns_fn(void *input, const float *a, size_t lda, int32_t m, int32_t k, int32_t k_begin,
                                     int32_t k_end);

/* Columns of panels [panel_begin, panel_end) of c [m, w->n] (f32, rows ldc elements apart, any alignment) for all m
 * rows of `input`, packed by the same kernel with the same m and k = w->k. c overlaps neither input nor weights.
 * Columns that are not of these panels are neither read nor written. `scratch`: this member's own. */
typedef void pf_gemm_multiply_fn(const pf_gemm_weights *w, const void *input, int32_t m, int32_t panel_begin,
                                 int32_t panel_end, float *c, size_t ldc, pf_gemm_mode mode, void *scratch);

/* What becomes of two products, gate and up. */
typedef struct {
    pf_gated_fn *activate;
    void *packed; /* where there is pack_columns: activate(gate, up) as it packs them, k = n */
    float *c;     /* else: activate(gate, up) [m, n] */
    size_t ldc;
} pf_gemm_gated;

/* Columns of panels [panel_begin, panel_end) of two products of one shape, activated while their sums are near: what
 * `multiply` of each, `activate` and pack_columns give, bit for bit. Of as many rows as pf_gemm_gates_at_once has; all else as
 * `multiply`. */
typedef void pf_gemm_multiply_gated_fn(const pf_gemm_weights *gate, const pf_gemm_weights *up, const void *input,
                                       int32_t m, int32_t panel_begin, int32_t panel_end, const pf_gemm_gated *out,
                                       void *scratch);

/* They belong together: the tile's height is part of the layout. */
typedef struct {
    int32_t tile_rows;    /* rows of the highest tile */
    int32_t group_rows;   /* rows and panels that had best be multiplied in one call, where there are so many; 0: any */
    int32_t group_panels; /* number */
    pf_gemm_pack_fn *pack;
    pf_gemm_pack_columns_fn *pack_columns; /* NULL: a row is packed as a whole (it has a scale) */
    int32_t packed_value_bytes;            /* in a single tile of m rows packed column j begins at j * m of them */
    pf_gemm_multiply_fn *multiply;
    pf_gemm_multiply_gated_fn *multiply_gated; /* NULL: there is none */
    int32_t gated_rows;                        /* the fewest that it takes */
    bool by_shares; /* a call must have all panels of some members, as pf_team_share cuts them for the packing team */
} pf_gemm;

/* Whether gate and up of m rows can be one call: of a few, or of more than a tile. */
enum { PF_GEMM_GATED_FEW = 16 };
static inline bool pf_gemm_gates_at_once(const pf_gemm *gemm, int32_t m)
{
    if (gemm->multiply_gated == NULL || m < gemm->gated_rows) return false;
    return m <= PF_GEMM_GATED_FEW || m > gemm->tile_rows;
}

/* How many tiles m rows make, and the first row of tile t (t = number of tiles: m). */
static inline int32_t pf_gemm_tiles(int32_t tile_rows, int32_t m)
{
    return (m + tile_rows - 1) / tile_rows;
}
static inline int32_t pf_gemm_tile_row(int32_t n_tiles, int32_t m, int32_t t)
{
    if (n_tiles == 1) return t == 0 ? 0 : m; /* two divisions a panel are 5 % of a small draft's pass */
    return (int32_t)((int64_t)m * t / n_tiles);
}

#endif
