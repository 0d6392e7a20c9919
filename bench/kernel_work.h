/*
 * A kernel with something to do: data of a shape, a call by the team, a bare read of as many bytes. Internal to bench/.
 *
 *      store   one arena: copies of a matrix, or of a layer's keys and values, until they do not fit a cache
 *      rows    another: activations, results, and what each member has for itself
 */
#ifndef PF_BENCH_KERNEL_WORK_H
#define PF_BENCH_KERNEL_WORK_H

#include "base/arena.h"
#include "base/team.h"
#include "kernels/kernels.h"
#include "kernels/limits/read.h"

enum {
    PF_WORK_ROWS = 512,       /* at most */
    PF_WORK_K = 8192,         /* at most */
    PF_WORK_COLUMNS = 32768,  /* at most, of a product's result and of a vocabulary */
    PF_WORK_MIN_COPIES = 4,   /* so that others have been used since, when one has its turn again */
    PF_WORK_MAX_COPIES = 256, /* of a matrix, or layers of a cache */
    PF_WORK_MAX_PAGES = 512,  /* of a sequence */
};

typedef struct {
    pf_team *team;
    pf_arena store, rows;
    size_t cache_bytes;  /* of the last level: what is larger comes from memory */
    float *a;            /* [PF_WORK_ROWS, PF_WORK_K] in -1 .. 1 */
    float *c;            /* [PF_WORK_ROWS, PF_WORK_COLUMNS] */
    float *b;            /* as a */
    float *p;            /* [PF_WORK_COLUMNS] above 0: a distribution, but for its sum */
    void *input;         /* packed activations */
    void **member_input; /* [n_threads] of one tile */
    void **member_scratch;
    float *cos, *sin;   /* [PF_WORK_ROWS, 32] */
    int32_t *positions; /* [PF_WORK_ROWS] 0, 1, 2, ... */
} pf_work_data;

PF_MUST_USE pf_status pf_work_data_create(pf_team *team, pf_work_data *out, pf_error *error);
void pf_work_data_destroy(pf_work_data *data); /* zeroed is fine */

typedef struct pf_work pf_work;
typedef void pf_work_fn(const pf_work *work, pf_member member, int32_t copy);

/* Copies of one matrix in the store: made once, used by all kernels of its format. */
typedef struct {
    pf_gemm_weights weights[PF_WORK_MAX_COPIES];
    int32_t n_copies;
} pf_work_matrices;

/* The same for attention: layers of a cache, all of one sequence. */
typedef struct {
    void *key_pages[PF_WORK_MAX_COPIES][PF_WORK_MAX_PAGES];
    void *value_pages[PF_WORK_MAX_COPIES][PF_WORK_MAX_PAGES];
    int32_t page_tokens, n_pages, n_copies;
    pf_type type;
} pf_work_cache;

struct pf_work {
    const pf_work_data *data;
    const pf_kernel *kernel;
    pf_work_fn *run, *read; /* each member its share */
    pf_work_fn *copy;       /* as much as comes out, and a read of what else goes in. NULL: nothing much is written */
    int32_t n_copies;
    int32_t n_repeats; /* of the kernel within one call, where one is too short to time */
    int32_t n_threads;
    int32_t rows, columns, k, keys;
    size_t bytes_in, bytes_out; /* of one kernel call by all; rows of products and of attention are not counted */
    double operations;          /* likewise; 0: not counted */
    pf_read_fn *reader;
    const pf_work_matrices *matrices;
    const pf_work_cache *cache;
};

/* Fill the store with copies of a matrix of random weights. Its columns are cut to what leaves
 * room for PF_WORK_MIN_COPIES. cancel, or NULL: then PF_CANCELLED. */
PF_MUST_USE pf_status pf_work_fill_matrices(pf_work_data *data, pf_format format, int32_t n, int32_t k,
                                            const volatile bool *cancel, pf_work_matrices *out, pf_error *error);
void pf_work_fill_cache(pf_work_data *data, const pf_kernel *attention, int32_t keys, pf_work_cache *out);

/* A product of m rows with the first n columns of each matrix. */
pf_work pf_work_gemm(const pf_work_data *data, const pf_kernel *kernel, const pf_work_matrices *matrices, int32_t m,
                     int32_t n);

/* Attention of m new rows at the end of `keys` keys, 32 heads in groups of four. */
pf_work pf_work_attention(const pf_work_data *data, const pf_kernel *kernel, const pf_work_cache *cache, int32_t m,
                          int32_t keys);

/* Anything else, on m rows; run NULL: this operation has no place here. */
pf_work pf_work_rows(const pf_work_data *data, const pf_kernel *kernel, int32_t m);

/* "8x3072x2048", ... */
void pf_work_describe(const pf_work *work, char out[64]);

#endif
