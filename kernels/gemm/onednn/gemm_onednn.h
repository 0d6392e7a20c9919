/*
 * Multiplies by oneDNN, for comparison: a second copy of a packed matrix in the layout that oneDNN asks for, and the
 * functions of a pf_gemm.
 *
 *      panels  [n/32]                    stay: embedding rows are looked up in them, and a bare read is one of them
 *      copy    member 0 | member 1 ...   the columns of each member's panels, as one matrix of oneDNN's each
 *
 * Each member multiplies its own columns by calls of one thread, so our team and its barriers serve as ever. Debian's
 * library takes its threads from OpenMP: every call says that it wants one.
 *
 * Not row-invariant: oneDNN chooses code, blocking of K and with them the order of sums by the number of rows, so the
 * logits of a token depend on the rest of the batch. It is used by request only (--gemm onednn).
 *
 * A primitive is made when a number of rows is first seen, and the latest PF_ONEDNN_PRIMITIVES of a member and matrix
 * are kept; a call that finds one allocates nothing here. What oneDNN allocates is its own. Its fast code wants results
 * without gaps between rows, so those of several rows go through a buffer of the member's.
 *
 *      weights         activations     what oneDNN multiplies
 *      f32, bf16       their own       the same
 *      int8, int4...   int8            int8, of four bits (q - z) * m: a scale a column, one a row found as it is packed
 *      int8, int4...   bf16            the same weights to bf16 on the way, a column's scale at the end
 *
 * Four bits take eight in the copy: where oneDNN has four it makes eight of them at each call, and a group's multiplier
 * has no place there. Integers by bf16 are there since version 3.5. Refused, too: bf16 on a processor
 * without AVX-512, and int8 on one without VNNI, where oneDNN's sums of pairs saturate at 16 bits. A denormal, a NaN, an
 * infinity: as oneDNN has it; but a row of int8 activations that held one that is not finite is NaN.
 *
 * Threads: one team at a time multiplies.
 */
#ifndef PF_KERNELS_GEMM_ONEDNN_H
#define PF_KERNELS_GEMM_ONEDNN_H

#include "base/team.h"
#include "kernels/kernels.h"

enum { PF_ONEDNN_PRIMITIVES = 16 };

/* "2.6.3", or NULL: this build has none. */
const char *pf_onednn_version(void);

/* PF_UNSUPPORTED: this build is without oneDNN, or oneDNN has no such product, or none here; the sentence says which. */
PF_MUST_USE pf_status pf_onednn_check(pf_format format, pf_act act, pf_error *error);

/* The row that stands for oneDNN in a table of kernels. NULL: what pf_onednn_check does not let pass. */
const pf_kernel *pf_onednn_kernel(pf_format format, pf_act act);

/* What all matrices of a model share. It is for teams of this one's size. PF_NOMEM; PF_INTERNAL: oneDNN refused, the
 * sentence has its status. The caller ends it with pf_onednn_close, after every matrix. */
typedef struct pf_onednn pf_onednn;
PF_MUST_USE pf_status pf_onednn_open(pf_team *team, pf_onednn **out, pf_error *error);
void pf_onednn_close(pf_onednn *onednn); /* NULL is fine */

/* Give w, packed, its copy for these activations: each member of the team makes the part that it will multiply. Products
 * by pf_onednn_kernel's functions must then be called with the panels that pf_team_share gives the members of a team of
 * that size or of one that divides it. Errors as pf_onednn_open and pf_onednn_check. The caller ends it
 * with pf_onednn_detach. */
PF_MUST_USE pf_status pf_onednn_attach(pf_onednn *onednn, pf_team *team, pf_gemm_weights *w, pf_act act,
                                       pf_error *error);
void pf_onednn_detach(pf_gemm_weights *w); /* nothing attached is fine */

/* What the copy of w takes, without padding. Any build. */
size_t pf_onednn_copy_bytes(const pf_gemm_weights *w);

#endif
