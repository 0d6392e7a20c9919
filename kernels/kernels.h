/*
 * The kernels of one instruction set, and how they are chosen.
 *
 * One table (registry.c) has a row for every kernel there is. Selecting fills each operation from its scalar
 * definition and then overrides upward, row by row, as far as the instruction set allows; so an operation without a
 * fast file still runs. The idea is dav1d's, the one row that dispatches, tests and measures is XNNPACK's.
 *
 * All operations: no allocation, no waiting, no state; every member of a team calls them on its own share. What each
 * promises is in its contract, and every row is tested against the scalar one.
 */
#ifndef PF_KERNELS_KERNELS_H
#define PF_KERNELS_KERNELS_H

#include "base/status.h"
#include "kernels/act/activation.h"
#include "kernels/attn/attn.h"
#include "kernels/cpu.h"
#include "kernels/gemm/gemm.h"
#include "kernels/norm/layernorm.h"
#include "kernels/norm/rmsnorm.h"
#include "kernels/rope/rope.h"
#include "kernels/sample/bounds.h"
#include "kernels/sample/noise.h"
#include "kernels/sample/rescore.h"
#include "kernels/sample/top.h"
#include "kernels/sample/vocab.h"
#include "kernels/types.h"

typedef enum {
    PF_OP_GEMM,
    PF_OP_GEMM_EXACT, /* of PF_FORMAT_EXACT: each matrix has its own groups */
    PF_OP_PACK_WEIGHTS,
    PF_OP_RMSNORM,
    PF_OP_LAYERNORM,
    PF_OP_ROPE,
    PF_OP_GATED,
    PF_OP_ACTIVATE,
    PF_OP_ATTN,
    PF_OP_ATTN_STORE,
    PF_OP_ARGMAX,
    PF_OP_FIND_INVALID,
    PF_OP_SOFTMAX,
    PF_OP_TOP,
    PF_OP_EXP_RACE,
    PF_OP_RESCORE,
    PF_OP_BOUNDS,
    PF_N_OPS
} pf_op;

/* "gemm", "rmsnorm", ...: a static string. */
const char *pf_op_name(pf_op op);

/* A row of the registry. */
typedef struct {
    pf_op op;
    pf_format format;         /* of the weights (gemm) */
    pf_act act;               /* of the activations (gemm) */
    pf_type type;             /* of the cache (attn, attn_store), of rows (rescore); else f32 */
    pf_activation activation; /* gated, activate */
    pf_isa isa;               /* needed */
    uint32_t features;        /* and these: PF_FEATURE_... */
    const char *name;         /* of the function: "pf_gemm_bf16_avx512bf16" */
    const char *tile;         /* what is held in registers: "14x32"; "" where it says nothing */
    const char *packing;      /* layout of what was packed: "panels of 32, K pairs"; "" for plain rows */
    const char *arithmetic;   /* the class: kernels of one class give the same bits */
    union {
        pf_gemm gemm;
        pf_gemm_pack_weights_fn *pack_weights;
        pf_rmsnorm_fn *rmsnorm;
        pf_layernorm_fn *layernorm;
        pf_rope_fn *rope;
        pf_gated_fn *gated;
        pf_activate_fn *activate;
        pf_attn_fn *attn;
        pf_attn_store_fn *attn_store;
        pf_argmax_fn *argmax;
        pf_find_invalid_fn *find_invalid;
        pf_softmax_fn *softmax;
        pf_top_fn *top;
        pf_exp_race_fn *race;
        pf_rescore_fn *rescore;
        pf_bounds bounds;
    } fn;
} pf_kernel;

/* What was chosen. Tables by type are filled for PF_TYPE_F32 and PF_TYPE_BF16, those of products for what
 * pf_format_takes. */
typedef struct {
    pf_isa isa;
    uint32_t features; /* of the machine */
    pf_gemm gemm[PF_N_ALL_FORMATS][PF_N_ACTS];
    pf_gemm_pack_weights_fn *pack_weights;
    pf_rmsnorm_fn *rmsnorm;
    pf_layernorm_fn *layernorm;
    pf_rope_fn *rope;
    pf_gated_fn *gated[PF_N_ACTIVATIONS];
    pf_activate_fn *activate[PF_N_ACTIVATIONS]; /* NULL: gated only */
    pf_attn_fn *attn[PF_N_TYPES];               /* by the cache's type */
    pf_attn_store_fn *attn_store[PF_N_TYPES];
    pf_argmax_fn *argmax;
    pf_find_invalid_fn *find_invalid;
    pf_softmax_fn *softmax;
    pf_top_fn *top;
    pf_exp_race_fn *race;
    pf_rescore_fn *rescore;
    pf_bounds bounds;
    const pf_kernel *chosen[PF_N_OPS][PF_N_TYPES]; /* the rows behind them, but those below; NULL where there is none */
    const pf_kernel *chosen_gemm[PF_N_ALL_FORMATS][PF_N_ACTS];                           /* of products */
    const pf_kernel *chosen_gated[PF_N_ACTIVATIONS], *chosen_activate[PF_N_ACTIVATIONS]; /* of activations */
} pf_kernels;

/* PF_UNSUPPORTED: this machine lacks the instruction set; the sentence names both. */
PF_MUST_USE pf_status pf_kernels_select(pf_isa isa, pf_kernels *out, pf_error *error);

/* Whether two rows do the same: another instruction set apart. For tests. */
static inline bool pf_kernel_same_task(const pf_kernel *a, const pf_kernel *b)
{
    return a->op == b->op && a->type == b->type && a->format == b->format && a->act == b->act &&
           a->activation == b->activation;
}

static inline bool pf_kernel_is_usable(const pf_kernels *kernels, const pf_kernel *kernel)
{
    return kernel->isa <= kernels->isa && (kernel->features & ~kernels->features) == 0;
}

/* Positions of a page of the KV cache: few, since a fork copies one at most. With AMX a block of attention's, whose values
 * its tiles then read as they lie. */
static inline int32_t pf_isa_page_tokens(pf_isa isa)
{
    return isa == PF_ISA_AMX ? PF_ATTN_BLOCK : PF_ATTN_SIXTEEN;
}

/* The row that was chosen for the task of `kernel`. */
const pf_kernel *pf_kernels_chosen(const pf_kernels *kernels, const pf_kernel *kernel);

/* The whole table, for tests, benchmarks and `pilotfish info`. */
const pf_kernel *pf_kernels_all(int32_t *n_kernels);

#endif
