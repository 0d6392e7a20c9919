/* The operations of a pass. */
#include "bench/operations.h"

double pf_pass_operations(const pf_config *config, int32_t n_before, int32_t n_rows, int32_t n_logits)
{
    const double hidden = config->hidden_size, head_dim = config->head_dim;
    const double q = config->n_heads * head_dim, kv = config->n_kv_heads * head_dim;
    const double to_attention = hidden * (q + 2.0 * kv),
                 behind_it = q * hidden + 3.0 * hidden * config->intermediate_size;
    const double rows = n_rows, keys = rows * n_before + rows * (rows + 1.0) / 2.0;
    const double layers = config->n_layers, rows_behind = rows * (layers - 1.0) + n_logits;
    return 2.0 * (rows * layers * to_attention + 2.0 * keys * q * layers + rows_behind * behind_it +
                  (double)n_logits * config->vocab_size * hidden);
}
