/* Finds the weight of a role in the form of another program's quantisation (quantised_matrix.h), and widens its rows. */
#ifndef PF_MODEL_QUANTISED_ROLE_H
#define PF_MODEL_QUANTISED_ROLE_H

#include "model/files/checkpoint.h"
#include "model/files/quantised_matrix.h"
#include "model/files/role_rows.h"

typedef struct {
    char stem[PF_MAX_TENSOR_NAME]; /* of the file's tensors, which other roles may share */
    pf_role_rows rows;
    pf_quantised_matrix matrix; /* n_groups 0: the weight is not quantised */
} pf_quantised_role;

/* As pf_quantised_find. */
PF_MUST_USE pf_status pf_quantised_role_find(const pf_checkpoint *checkpoint, pf_tensor_id id, pf_quantised_role *out,
                                             pf_error *error);

/* As pf_quantised_check. */
PF_MUST_USE pf_status pf_quantised_role_check(const pf_checkpoint *checkpoint, pf_quantised_role *role,
                                              pf_error *error);

/* Widens the rows of a role to F32 in memory. As pf_quantised_check. PF_NOMEM. */
PF_MUST_USE pf_status pf_quantised_role_gather(const pf_checkpoint *checkpoint, pf_quantised_role *role,
                                               pf_checkpoint_rows *out, pf_error *error);

/* Whether the files hold the weight in another form than X.weight. */
bool pf_quantised_role_is_packed(const pf_checkpoint *checkpoint, pf_tensor_role role);

/* Whether a tensor is a bias of zeros beside X.qweight: AutoGPTQ once gave one to every matrix. */
bool pf_quantised_is_zero_bias(const pf_checkpoint *checkpoint, const char *name);

#endif
