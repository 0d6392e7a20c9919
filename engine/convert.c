/* pf_quantize: a model directory rewritten in another format, on a team of its own. */
#include "base/team.h"
#include "base/topology.h"
#include "engine/engine.h"
#include "engine/versioned.h"
#include "model/files/quantize.h"

pf_status pf_quantize(const char *model, const char *output, const pf_quantize_options *given,
                      pf_quantize_result *result, pf_error *error)
{
    pf_quantize_options options;
    pf_dtype dtype;
    pf_topology machine;
    pf_team *team;
    PF_TRY(pf_versioned_copy("pf_quantize_options", given, &options, sizeof options, error));
    if (!options.dtype) return pf_fail(error, PF_INVALID, "pf_quantize_options.dtype is NULL, expected a format");
    PF_TRY(pf_dtype_parse(options.dtype, &dtype, error));
    PF_TRY(pf_topology_read(&machine, error));
    const int32_t n_threads = pf_topology_threads(&machine, options.n_threads, options.n_cores);
    PF_TRY(pf_team_create(n_threads, options.cores, options.n_cores, &team, error));
    const pf_model_quantize_options how = {
        .dtype = dtype,
        .team = team,
        .progress = options.progress,
        .progress_user = options.user,
        .policy = { .strict = options.strict, .warn = options.warn, .warn_user = options.user },
        .cancel = options.cancel,
        .writing = options.writing,
    };
    pf_model_quantize_result written;
    const pf_status status = pf_model_quantize(model, output, &how, &written, error);
    pf_team_destroy(team);
    if (status == PF_OK && result)
        *result = (pf_quantize_result){ .bytes_before = written.bytes_before,
                                        .bytes_after = written.bytes_after,
                                        .n_tensors = written.n_tensors };
    return status;
}
