#include "model/weights/library_products.h"

#include <stdlib.h>

#include "kernels/gemm/onednn/gemm_onednn.h"

struct pf_library_products {
    pf_onednn *onednn; /* what the copies share */
    size_t bytes;
};

/* Matrices with a copy: those of the layers, and the head's. */
static int32_t n_matrices(const pf_model *m)
{
    return m->config.n_layers * PF_N_LAYER_MATRICES + 1;
}

static pf_gemm_weights *matrix(pf_model *m, int32_t i)
{
    const int32_t l = i / PF_N_LAYER_MATRICES;
    return l == m->config.n_layers ? &m->head.full.weights
                                   : &pf_layer_matrix(&m->layers[l], i % PF_N_LAYER_MATRICES)->weights;
}

pf_status pf_library_products_check(const pf_config *config, pf_backend backend, pf_format format, pf_act act,
                                    pf_error *error)
{
    if (backend != PF_BACKEND_ONEDNN) return PF_OK;
    if (config->plan.n_experts > 0)
        return pf_fail(error, PF_UNSUPPORTED, "--gemm onednn: a %s has experts, which oneDNN's products do not run",
                       pf_architecture_name(config->architecture));
    return pf_onednn_check(format, act, error);
}

static pf_status attach(pf_model *m, pf_library_products *products, pf_team *team, pf_error *error)
{
    PF_TRY(pf_onednn_open(team, &products->onednn, error));
    for (int32_t i = 0; i < n_matrices(m); i++)
        if (matrix(m, i)->n > 0) PF_TRY(pf_onednn_attach(products->onednn, team, matrix(m, i), m->act, error));
    const pf_kernel *kernel = pf_onednn_kernel(m->format, m->act);
    m->kernels.chosen_gemm[m->format][m->act] = kernel;
    m->kernels.gemm[m->format][m->act] = kernel->fn.gemm;
    return PF_OK;
}

pf_status pf_library_products_attach(pf_model *model, pf_backend backend, pf_team *team, pf_error *error)
{
    if (backend != PF_BACKEND_ONEDNN) return PF_OK;
    pf_library_products *products = model->products = calloc(1, sizeof *products);
    if (products == NULL) return pf_fail(error, PF_NOMEM, "no memory for oneDNN's products");
    for (int32_t i = 0; i < n_matrices(model); i++)
        if (matrix(model, i)->n > 0) products->bytes += pf_onednn_copy_bytes(matrix(model, i));
    const size_t memory_bytes = model->machine.memory_bytes, held = model->arena.size;
    if (memory_bytes > 0 && (held > memory_bytes || products->bytes > memory_bytes - held))
        return pf_fail(error, PF_LIMIT,
                       "oneDNN's copy of the weights takes %zu MiB beside %zu, and this machine has %zu MiB",
                       products->bytes >> 20, held >> 20, memory_bytes >> 20);
    return attach(model, products, team, error);
}

void pf_library_products_detach(pf_model *model)
{
    if (model->products == NULL) return;
    for (int32_t i = 0; i < n_matrices(model); i++)
        if (matrix(model, i)->n > 0) pf_onednn_detach(matrix(model, i));
    pf_onednn_close(model->products->onednn);
    free(model->products);
    model->products = NULL;
}

size_t pf_library_products_bytes(const pf_library_products *products)
{
    return products == NULL ? 0 : products->bytes;
}
