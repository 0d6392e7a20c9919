/* pilotfish info: what this machine has, which kernels are used for what, and why. */
#include <stdio.h>
#include <string.h>

#include "base/openmp.h"
#include "base/topology.h"
#include "cli/commands.h"
#include "cli/hub.h"
#include "cli/json_out.h"
#include "cli/model_report.h"
#include "cli/processor.h"
#include "cli/setup.h"

/* ---- the machine ------------------------------------------------------------------------------------------------ */

static json_t *usable_isas(void)
{
    json_t *array = json_array();
    for (int isa = 0; isa <= (int)pf_cpu_best_isa(); isa++)
        json_array_append_new(array, json_string(pf_isa_name((pf_isa)isa)));
    return array;
}

static json_t *cpu_json(const pf_topology *t)
{
    char name[256];
    pf_processor_name(name, sizeof name);
    return json_pack("{s:s, s:s, s:o, s:i, s:i, s:i, s:{s:I, s:I, s:I}, s:I}", "name", name, "isa",
                     pf_isa_name(pf_cpu_best_isa()), "isas", usable_isas(), "cores", t->n_cores, "cpus", t->n_cpus,
                     "numa_nodes", t->n_numa_nodes, "caches", "l1d_bytes", (json_int_t)t->l1d_bytes, "l2_bytes",
                     (json_int_t)t->l2_bytes, "l3_bytes", (json_int_t)t->l3_bytes, "memory_bytes",
                     (json_int_t)t->memory_bytes);
}

/* The threads of the model's engine; without one, those that an engine on all cores has. runtime: the file of OpenMP's. */
static json_t *threading_json(pf_threading threading, const char *runtime, int32_t n_threads)
{
    return json_pack("{s:s, s:s?, s:i}", "name", pf_threading_name(threading), "runtime", runtime, "threads",
                     n_threads);
}

static pf_status default_threading_json(pf_threading threading, const pf_topology *topology, json_t **out,
                                        pf_error *error)
{
    pf_openmp openmp = { .path = "" };
    int32_t n_threads = pf_topology_threads(topology, 0, 0);
    if (threading == PF_THREADING_OPENMP) PF_TRY(pf_openmp_find(&openmp, error));
    PF_TRY(pf_threading_limit(threading, n_threads, &n_threads, error));
    *out = threading_json(threading, openmp.path[0] ? openmp.path : NULL, n_threads);
    return PF_OK;
}

/* ---- devices ---------------------------------------------------------------------------------------------------- */

enum { MAX_DEVICES = 64 };

/* The GPUs, or why there are none. */
static json_t *cuda_json(void)
{
    pf_cuda_device devices[MAX_DEVICES];
    int32_t n = 0;
    pf_error error = { 0 };
    const pf_status status = pf_cuda_list_devices(devices, MAX_DEVICES, &n, &error);
    json_t *array = json_array();
    for (int32_t i = 0; status == PF_OK && i < n && i < MAX_DEVICES; i++) {
        const pf_cuda_device *d = &devices[i];
        json_array_append_new(
            array, json_pack("{s:o, s:o, s:i, s:I, s:I, s:f, s:s}", "name", pf_json_text(d->name, strlen(d->name)),
                             "capability", json_sprintf("%d.%d", d->major, d->minor), "processors", d->n_processors,
                             "memory_bytes", (json_int_t)d->memory_bytes, "free_bytes", (json_int_t)d->free_bytes,
                             "bandwidth_gb_per_s", d->bandwidth_gb_per_s, "dtype", "bf16"));
    }
    return json_pack("{s:b, s:o, s:s?}", "built", pf_cuda_is_built(), "devices", array, "refusal",
                     status == PF_OK ? NULL : error.text);
}

/* ---- kernels ---------------------------------------------------------------------------------------------------- */

/* What a kernel is for, besides its operation: "bf16", or "int4-g128 x int8", weights times activations. */
static const char *task_name(const pf_kernel *k, char *out, size_t capacity)
{
    if (k->op != PF_OP_GEMM && k->op != PF_OP_GEMM_EXACT) return pf_type_name(k->type);
    const pf_format_info *format = pf_format_get(k->format);
    if (format->bits >= 16) return format->name;
    snprintf(out, capacity, "%s x %s", format->name, pf_act_name(k->act));
    return out;
}

/* Every implementation there is; `usable` by this machine and --isa, `chosen` for its operation and type. */
static json_t *kernels_json(const pf_kernels *chosen)
{
    json_t *array = json_array();
    int32_t n;
    const pf_kernel *all = pf_kernels_all(&n);
    for (int32_t i = 0; i < n; i++) {
        const pf_kernel *k = &all[i];
        char type[32];
        json_array_append_new(array, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:b}", "op", pf_op_name(k->op),
                                               "type", task_name(k, type, sizeof type), "isa", pf_isa_name(k->isa),
                                               "name", k->name, "tile", k->tile, "packing", k->packing, "arithmetic",
                                               k->arithmetic, "usable", pf_kernel_is_usable(chosen, k), "chosen",
                                               pf_kernels_chosen(chosen, k) == k));
    }
    return array;
}

/* ---- a model ---------------------------------------------------------------------------------------------------- */

static void add_tensor(void *user, const pf_model_tensor *t)
{
    json_array_append_new(user, json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I}", "name", t->name, "format", t->format,
                                          "kernel", t->kernel, "reason", t->reason, "rows", (json_int_t)t->rows,
                                          "columns", (json_int_t)t->columns, "bytes", (json_int_t)t->bytes));
}

/* Where a model has the positions of its tokens: "rotary" has a type of scaling besides. */
static const char *positions_name(const pf_config *c)
{
    static const char *const names[] = { "rotary", "learnt", "alibi", "none" };
    return names[c->plan.positions];
}

static json_t *model_json(const char *name, const pf_engine *engine)
{
    const pf_model *model = pf_engine_model(engine);
    const pf_config *c = pf_model_config(model);
    pf_model_info info;
    pf_engine_info(engine, &info);
    char fingerprint[PF_FINGERPRINT_TEXT_BYTES];
    pf_model_print_fingerprint(&info, fingerprint);
    json_t *tensors = json_array();
    pf_model_visit_tensors(model, add_tensor, tensors);
    json_t *pard_token = c->pard_token >= 0 ? json_integer(c->pard_token) : NULL;
    return json_pack("{s:o, s:s, s:s, s:s, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:b, s:s, s:s*, s:o*, s:s*, "
                     "s:i, s:s*, s:I, s:I, "
                     "s:o}",
                     "name", pf_json_text(name, strlen(name)), "architecture", pf_architecture_name(c->architecture),
                     "dtype", pf_dtype_name(pf_model_dtype(model)), "act", pf_act_name(pf_model_act(model)),
                     "parameters", (json_int_t)pf_model_parameter_count(model), "vocab_size", c->vocab_size,
                     "hidden_size", c->hidden_size, "intermediate_size", c->intermediate_size, "layers", c->n_layers,
                     "heads", c->n_heads, "kv_heads", c->n_kv_heads, "head_dim", c->head_dim, "context",
                     info.max_context, "tied_embeddings", c->tied_embeddings, "positions", positions_name(c), "rope",
                     c->n_ropes > 0 ? pf_rope_type_name(c->ropes[0].type) : NULL, "pard_token", pard_token,
                     "quantization", c->quantization.scheme != PF_SCHEME_NONE ? c->quantization.words : NULL, "tokens",
                     info.vocab_size, "vocab_fingerprint", pf_engine_tokenizer(engine) ? fingerprint : NULL,
                     "weight_bytes", (json_int_t)pf_model_step_bytes(model), "packed_bytes",
                     (json_int_t)pf_model_packed_bytes(model), "tensors", tensors);
}

/* ---- for people ------------------------------------------------------------------------------------------------- */

static const char *text_of(const json_t *object, const char *field)
{
    const char *text = json_string_value(json_object_get(object, field));
    return text ? text : "";
}

static json_int_t number_of(const json_t *object, const char *field)
{
    return json_integer_value(json_object_get(object, field));
}

static void print_cpu(pf_out *out, const json_t *cpu)
{
    const json_t *caches = json_object_get(cpu, "caches");
    pf_out_print(out, "processor  %s\n", text_of(cpu, "name"));
    pf_out_print(out, "isa        %s (usable:", text_of(cpu, "isa"));
    size_t i;
    json_t *isa;
    json_array_foreach(json_object_get(cpu, "isas"), i, isa) pf_out_print(out, " %s", json_string_value(isa));
    pf_out_print(out, ")\n");
    pf_out_print(out, "cores      %lld, logical %lld, NUMA nodes %lld\n", number_of(cpu, "cores"),
                 number_of(cpu, "cpus"), number_of(cpu, "numa_nodes"));
    pf_out_print(out, "caches     L1d %lld KiB, L2 %lld KiB, L3 %.1f MiB; memory %.1f GiB\n",
                 number_of(caches, "l1d_bytes") >> 10, number_of(caches, "l2_bytes") >> 10,
                 (double)number_of(caches, "l3_bytes") / 1048576.0,
                 (double)number_of(cpu, "memory_bytes") / 1073741824.0);
}

static void print_cuda(pf_out *out, const json_t *cuda)
{
    size_t i;
    json_t *d;
    if (text_of(cuda, "refusal")[0]) pf_out_print(out, "cuda       %s\n", text_of(cuda, "refusal"));
    json_array_foreach(json_object_get(cuda, "devices"), i, d) pf_out_print(
        out,
        "cuda       %s, capability %s, %lld processors, memory %.1f GiB, %.1f GiB free; weights and cache in BF16\n",
        text_of(d, "name"), text_of(d, "capability"), number_of(d, "processors"),
        (double)number_of(d, "memory_bytes") / 1073741824.0, (double)number_of(d, "free_bytes") / 1073741824.0);
}

static void print_kernels(pf_out *out, const json_t *kernels)
{
    pf_out_print(out, "\nkernels\n");
    size_t i;
    json_t *k;
    json_array_foreach(kernels, i, k)
    {
        if (!json_is_true(json_object_get(k, "chosen"))) continue;
        pf_out_print(out, "  %-12s %-24s %-41s %-12s %s\n", text_of(k, "op"), text_of(k, "type"), text_of(k, "name"),
                     text_of(k, "tile"), text_of(k, "arithmetic"));
    }
}

static void print_model(pf_out *out, const json_t *m)
{
    const double n_parameters = (double)number_of(m, "parameters");
    pf_out_print(out, "\nmodel      %s: %s, %s with activations in %s, %.2f million parameters\n", text_of(m, "name"),
                 text_of(m, "architecture"), text_of(m, "dtype"), text_of(m, "act"), n_parameters * 1e-6);
    pf_out_print(out,
                 "shape      %lld layers, hidden %lld, mlp %lld, %lld heads of %lld on %lld, vocabulary %lld, context "
                 "%lld, positions %s%s%s\n",
                 number_of(m, "layers"), number_of(m, "hidden_size"), number_of(m, "intermediate_size"),
                 number_of(m, "heads"), number_of(m, "head_dim"), number_of(m, "kv_heads"), number_of(m, "vocab_size"),
                 number_of(m, "context"), text_of(m, "positions"), text_of(m, "rope")[0] ? ", rope " : "",
                 text_of(m, "rope"));
    if (json_object_get(m, "quantization")) pf_out_print(out, "quantised  %s\n", text_of(m, "quantization"));
    if (json_object_get(m, "pard_token"))
        pf_out_print(out, "drafts     in parallel, by token %lld (PARD)\n", number_of(m, "pard_token"));
    pf_out_print(out, "memory     %.2f MB packed, %.2f bits a weight, of which a decode step reads %.2f MB\n",
                 (double)number_of(m, "packed_bytes") * 1e-6, (double)number_of(m, "packed_bytes") * 8.0 / n_parameters,
                 (double)number_of(m, "weight_bytes") * 1e-6);
    pf_report_print(out, m);
    pf_out_print(out, "\n");
    size_t i;
    json_t *t;
    json_array_foreach(json_object_get(m, "tensors"), i, t)
        pf_out_print(out, "  %s [%lld, %lld] %lld bytes\n    %s, read by %s: %s\n", text_of(t, "name"),
                     number_of(t, "rows"), number_of(t, "columns"), number_of(t, "bytes"), text_of(t, "format"),
                     text_of(t, "kernel"), text_of(t, "reason"));
}

static void print_threading(pf_out *out, const json_t *threading)
{
    const json_int_t n_threads = number_of(threading, "threads");
    pf_out_print(out, "threads    %lld, %s", n_threads, text_of(threading, "name"));
    if (text_of(threading, "runtime")[0]) pf_out_print(out, " (%s)", text_of(threading, "runtime"));
    pf_out_print(out, "\n");
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

/* What the model's files, its memory and -d DRAFT add. */
static pf_status report(const pf_options *options, pf_engine *engine, json_t *model, pf_error *error)
{
    char path[PF_MAX_PATH];
    PF_TRY(pf_hub_find_model(options->model, path, error));
    PF_TRY(pf_report_add_files(path, model, error));
    PF_TRY(pf_report_add_memory(engine, model, error));
    if (options->draft == NULL) return PF_OK;
    PF_TRY(pf_hub_find_model(options->draft, path, error));
    return pf_report_add_vocabulary(engine, options->draft, path, model, error);
}

static pf_status collect(const pf_options *options, json_t *root, pf_error *error)
{
    pf_topology topology;
    pf_kernels kernels;
    PF_TRY(pf_topology_read(&topology, error));
    PF_TRY(pf_kernels_select(options->isa, &kernels, error));
    json_object_set_new(root, "version", json_string(pf_version()));
    json_object_set_new(root, "cpu", cpu_json(&topology));
    json_t *threading;
    PF_TRY(default_threading_json(options->threading, &topology, &threading, error));
    json_object_set_new(root, "threading", threading);
    json_object_set_new(root, "cuda", cuda_json());
    json_object_set_new(root, "kernels", kernels_json(&kernels));
    json_object_set_new(root, "model", json_null());
    if (!options->model) return PF_OK;
    pf_engine *engine;
    PF_TRY(pf_setup_open_engine(options, options->max_sequences > 0 ? options->max_sequences : 1, &engine, error));
    const pf_team *team = pf_engine_team(engine);
    threading = threading_json(pf_team_threading(team), pf_team_runtime(team), pf_team_size(team));
    json_object_set_new(root, "threading", threading);
    json_t *model = model_json(options->model, engine);
    json_object_set_new(root, "model", model);
    const pf_status status = report(options, engine, model, error);
    pf_engine_close(engine);
    return status;
}

static int run(const pf_options *options, pf_out *out)
{
    if (options->draft && !options->model) return pf_options_misuse(&pf_command_info, "-d needs a model: -m MODEL");
    pf_error error = { 0 };
    json_t *root = json_object();
    const pf_status status = collect(options, root, &error);
    if (status != PF_OK) {
        json_decref(root);
        return status == PF_CANCELLED ? PF_EXIT_INTERRUPTED : pf_out_fail_error(status, &error);
    }
    pf_setup_warn_of_idle_options(options);
    if (options->json) return pf_out_json(out, root);
    print_cpu(out, json_object_get(root, "cpu"));
    print_threading(out, json_object_get(root, "threading"));
    print_cuda(out, json_object_get(root, "cuda"));
    print_kernels(out, json_object_get(root, "kernels"));
    if (options->model) print_model(out, json_object_get(root, "model"));
    json_decref(root);
    return PF_EXIT_DONE;
}

static const pf_option_group *const groups[] = { &pf_options_model,
                                                 &pf_options_info,
                                                 &pf_options_running,
                                                 &pf_options_head,
                                                 &pf_options_context,
                                                 &pf_options_json,
                                                 NULL };

const pf_command pf_command_info = {
    .name = "info",
    .summary = "the processor, the kernels, and for a model each tensor's format",
    .synopsis = "[-m MODEL [-d DRAFT]] [options]",
    .description =
        "Shows what this process may use of the machine, which implementation each operation gets, and with a\n"
        "model which tensors its files have, the memory that it needs for --context and --max-sequences, and how\n"
        "each tensor is held, what reads it, and why. With -d also which part of the vocabulary both share.\n",
    .examples = "  pilotfish info\n"
                "  pilotfish info -m models/target --isa avx2\n",
    .groups = groups,
    .run = run,
};
