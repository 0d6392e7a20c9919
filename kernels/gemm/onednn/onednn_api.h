/*
 * What differs between versions of oneDNN's C interface, for gemm_onednn.c alone.
 *
 * Version 3 keeps descriptions of memory behind handles, makes primitives without a step between, and takes scales when a
 * product is called; version 2 has descriptions as values, and scales that are part of a product. Descriptions made here
 * are ended with pf_onednn_drop.
 *
 * Since 3.5 integer weights may be multiplied by bf16.
 */
#ifndef PF_KERNELS_GEMM_ONEDNN_API_H
#define PF_KERNELS_GEMM_ONEDNN_API_H

#include <dnnl.h>

#include <stdint.h>

#define PF_ONEDNN_WIDENS (DNNL_VERSION_MAJOR > 3 || (DNNL_VERSION_MAJOR == 3 && DNNL_VERSION_MINOR >= 5))

#if DNNL_VERSION_MAJOR >= 3
#define PF_ONEDNN_SCALES_AT_CALL 1
typedef const_dnnl_memory_desc_t pf_onednn_layout; /* a borrowed description */

static inline pf_onednn_layout pf_onednn_view(const dnnl_memory_desc_t *owned)
{
    return *owned;
}

static inline void pf_onednn_drop(dnnl_memory_desc_t *owned)
{
    if (*owned) dnnl_memory_desc_destroy(*owned);
    *owned = NULL;
}

static inline dnnl_status_t pf_onednn_plain(dnnl_memory_desc_t *out, dnnl_data_type_t type, const dnnl_dims_t sizes,
                                            int n_sizes, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_create_with_strides(out, n_sizes, sizes, type, strides);
}

static inline dnnl_status_t pf_onednn_any(dnnl_memory_desc_t *out, dnnl_data_type_t type, const dnnl_dims_t sizes)
{
    return dnnl_memory_desc_create_with_tag(out, 2, sizes, type, dnnl_format_tag_any);
}

static inline dnnl_status_t pf_onednn_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine, pf_onednn_layout a,
                                             pf_onednn_layout w, pf_onednn_layout c, dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(out, engine, a, w, NULL, c, attributes);
}

/* One scale a column. They come with the call. */
static inline dnnl_status_t pf_onednn_set_scales(dnnl_primitive_attr_t attributes, int32_t n, const float *scales)
{
    (void)n;
    (void)scales;
    return dnnl_primitive_attr_set_scales_mask(attributes, DNNL_ARG_WEIGHTS, 1 << 1);
}

#if PF_ONEDNN_WIDENS
/* Integer weights become bf16 on the way. */
static inline dnnl_status_t pf_onednn_widen(dnnl_primitive_attr_t attributes)
{
    return dnnl_primitive_attr_set_fpmath_mode_v2(attributes, dnnl_fpmath_mode_bf16, 1);
}
#endif
#else
#define PF_ONEDNN_SCALES_AT_CALL 0
enum { DNNL_ARG_ATTR_SCALES = 0 };
typedef const dnnl_memory_desc_t *pf_onednn_layout;

static inline pf_onednn_layout pf_onednn_view(const dnnl_memory_desc_t *owned)
{
    return owned;
}

static inline void pf_onednn_drop(dnnl_memory_desc_t *owned)
{
    (void)owned;
}

static inline dnnl_status_t pf_onednn_plain(dnnl_memory_desc_t *out, dnnl_data_type_t type, const dnnl_dims_t sizes,
                                            int n_sizes, const dnnl_dims_t strides)
{
    return dnnl_memory_desc_init_by_strides(out, n_sizes, sizes, type, strides);
}

static inline dnnl_status_t pf_onednn_any(dnnl_memory_desc_t *out, dnnl_data_type_t type, const dnnl_dims_t sizes)
{
    return dnnl_memory_desc_init_by_tag(out, 2, sizes, type, dnnl_format_tag_any);
}

static inline dnnl_status_t pf_onednn_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine, pf_onednn_layout a,
                                             pf_onednn_layout w, pf_onednn_layout c, dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t matmul;
    const dnnl_status_t status = dnnl_matmul_desc_init(&matmul, a, w, NULL, c);
    return status == dnnl_success ? dnnl_primitive_desc_create(out, &matmul, attributes, engine, NULL) : status;
}

/* One scale a column. They are part of the product. */
static inline dnnl_status_t pf_onednn_set_scales(dnnl_primitive_attr_t attributes, int32_t n, const float *scales)
{
    return dnnl_primitive_attr_set_output_scales(attributes, n, 1 << 1, scales);
}
#endif

#endif
