/*
 * Gives the layers of a loaded model the products of another library, for comparing: --gemm onednn. Internal to model/.
 *
 * The library has a copy of every matrix, beside its panels, and a row in the model's table of kernels: from then on its product
 * is called like one of our own. No default leads here.
 */
#ifndef PF_MODEL_LIBRARY_PRODUCTS_H
#define PF_MODEL_LIBRARY_PRODUCTS_H

#include "model/weights/weights.h"

typedef struct pf_library_products pf_library_products;

/* PF_OK for our own products. PF_UNSUPPORTED: the library is not there or has no such product; the sentence says which. */
PF_MUST_USE pf_status pf_library_products_check(const pf_config *config, pf_backend backend, pf_format format,
                                                pf_act act, pf_error *error);

/* Makes the copies by the team. Nothing for our own products. PF_LIMIT: with what the model holds they are more than the
 * machine's memory; PF_NOMEM, PF_INTERNAL. */
PF_MUST_USE pf_status pf_library_products_attach(pf_model *model, pf_backend backend, pf_team *team, pf_error *error);
void pf_library_products_detach(pf_model *model); /* nothing attached is fine */

size_t pf_library_products_bytes(const pf_library_products *products); /* of the copies; 0 of NULL */

#endif
