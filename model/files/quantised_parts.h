/* Declares what the readers of one scheme use and give (quantised_matrix.h). Internal to model/files. */
#ifndef PF_MODEL_QUANTISED_PARTS_H
#define PF_MODEL_QUANTISED_PARTS_H

#include "model/files/quantised_matrix.h"

/* Element type of X.part; NULL: there is no such tensor. */
const char *pf_quantised_dtype(const pf_quantised_place *place, const char *part);

/* Finds X.part, whose elements are of `dtype`, and checks its shape [n]; n -1: any. */
PF_MUST_USE pf_status pf_quantised_need(const pf_quantised_place *place, const char *part, const char *dtype,
                                        const int64_t *shape, int32_t n, pf_tensor *out, pf_error *error);

/* The same for a tensor that need not be there: then *out keeps its value. */
PF_MUST_USE pf_status pf_quantised_may_have(const pf_quantised_place *place, const char *part, const char *dtype,
                                            const int64_t *shape, int32_t n, pf_tensor *out, pf_error *error);

/* As pf_quantised_need, for F32, F16 and BF16. */
PF_MUST_USE pf_status pf_quantised_need_floats(const pf_quantised_place *place, const char *part, const int64_t *shape,
                                               int32_t n, pf_tensor *out, pf_error *error);

/* The sentence names a tensor, its shape, and the expected one [n]. */
PF_MUST_USE pf_status pf_quantised_check_shape(const pf_quantised_place *place, const pf_tensor *tensor,
                                               const int64_t *shape, int32_t n, pf_error *error);

/* The number of 32-bit words of n values of some bits. */
int64_t pf_quantised_words(int64_t n, int32_t bits);

/* Finds the bits of n values that lie in so many words, among those that quantization_config allows; 0: none fits. */
int32_t pf_quantised_bits(const pf_quantization *quantization, int64_t n, int64_t words);

/* Finds the columns of a group of a row with n_groups groups; 0: quantization_config makes it another number of groups. */
int32_t pf_quantised_group(const pf_quantised_place *place, int64_t n_groups);

/* The number of groups that quantization_config gives a row. */
int64_t pf_quantised_expected_groups(const pf_quantised_place *place);

/* Word i of a tensor's data. */
uint32_t pf_quantised_word(const pf_tensor *tensor, int64_t i);

/* Scale i, of X.scales or X.weight_scale. */
float pf_quantised_scale(const pf_quantised_matrix *m, int64_t i);

/* Values in I8 [N, K]. */
void pf_quantised_byte_values(const pf_quantised_matrix *m, pf_quantised_span columns, float *out);

/* The readers: they fill a matrix that is zero but for n_rows, n_columns and factor, 1. n_groups stays 0 where X is not
 * quantised. */
PF_MUST_USE pf_status pf_quantised_find_gptq(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error);
PF_MUST_USE pf_status pf_quantised_find_awq(const pf_quantised_place *place, pf_quantised_matrix *m, pf_error *error);
PF_MUST_USE pf_status pf_quantised_find_scaled(const pf_quantised_place *place, pf_quantised_matrix *m,
                                               pf_error *error);
PF_MUST_USE pf_status pf_quantised_find_bitsandbytes(const pf_quantised_place *place, pf_quantised_matrix *m,
                                                     pf_error *error);

#endif
