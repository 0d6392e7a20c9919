#include "tests/support/tiny_model.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/draw.h"

static _Noreturn void give_up(const char *what, const char *path)
{
    perror(path);
    fprintf(stderr, "tiny_model: cannot %s\n", what);
    abort();
}

static FILE *open_in(const char *directory, const char *name)
{
    char path[PF_TINY_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL) give_up("create a file", path);
    return file;
}

static void close_checked(FILE *file, const char *name)
{
    if (ferror(file) | fclose(file)) give_up("write a file", name);
}

static pf_tiny_model with_defaults(const pf_tiny_model *options)
{
    pf_tiny_model m = *options;
    if (m.hidden == 0) m.hidden = 64;
    if (m.layers == 0) m.layers = 2;
    if (m.heads == 0) m.heads = 4;
    if (m.kv_heads == 0) m.kv_heads = m.heads < 2 ? m.heads : 2;
    if (m.head_dim == 0) m.head_dim = 16;
    if (m.intermediate == 0) m.intermediate = 96;
    if (m.vocab == 0) m.vocab = 128;
    if (m.max_position == 0) m.max_position = 512;
    return m;
}

static void write_config(const char *directory, const pf_tiny_model *m)
{
    FILE *f = open_in(directory, "config.json");
    fprintf(
        f,
        "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_act\": \"silu\",\n"
        " \"hidden_size\": %d, \"num_hidden_layers\": %d, \"num_attention_heads\": %d, \"num_key_value_heads\": %d,\n"
        " \"head_dim\": %d, \"intermediate_size\": %d, \"vocab_size\": %d, \"max_position_embeddings\": %d,\n"
        " \"rms_norm_eps\": 1e-05, \"rope_theta\": 10000.0, \"rope_scaling\": %s,\n"
        " \"tie_word_embeddings\": %s, \"attention_bias\": %s, \"mlp_bias\": %s,\n"
        " \"bos_token_id\": 1, \"eos_token_id\": 2}\n",
        m->hidden, m->layers, m->heads, m->kv_heads, m->head_dim, m->intermediate, m->vocab, m->max_position,
        m->rope_scaling ? m->rope_scaling : "null", m->tied ? "true" : "false", m->attention_bias ? "true" : "false",
        m->mlp_bias ? "true" : "false");
    close_checked(f, "config.json");
}

/* ---- tensors --------------------------------------------------------------------------------------------------- */

/* How a tensor is filled: center + spread * uniform(-1, 1). */
typedef struct {
    char name[96];
    int64_t rows, columns; /* columns 0: a vector */
    double center, spread;
} tensor;

typedef struct {
    tensor *list;
    size_t n;
} tensors;

static void add(tensors *t, int32_t layer, const char *name, const char *part, int64_t rows, int64_t columns,
                double center, double spread)
{
    tensor *item = &t->list[t->n++];
    if (layer < 0)
        snprintf(item->name, sizeof item->name, "%s.%s", name, part);
    else
        snprintf(item->name, sizeof item->name, "model.layers.%d.%s.%s", layer, name, part);
    item->rows = rows;
    item->columns = columns;
    item->center = center;
    item->spread = spread;
}

/* A matrix that keeps the norm of its input, times `gain`, and its bias if there is one. */
static void add_linear(tensors *t, int32_t layer, const char *name, int64_t rows, int64_t columns, double gain,
                       bool bias)
{
    add(t, layer, name, "weight", rows, columns, 0.0, gain * sqrt(3.0 / (double)columns));
    if (bias) add(t, layer, name, "bias", rows, 0, 0.0, 0.5);
}

static void list_tensors(tensors *t, const pf_tiny_model *m)
{
    const int64_t q = (int64_t)m->heads * m->head_dim, kv = (int64_t)m->kv_heads * m->head_dim;
    add(t, -1, "model.embed_tokens", "weight", m->vocab, m->hidden, 0.0, 1.0);
    for (int32_t l = 0; l < m->layers; l++) {
        add(t, l, "input_layernorm", "weight", m->hidden, 0, 1.0, 0.3);
        add_linear(t, l, "self_attn.q_proj", q, m->hidden, 1.5, m->attention_bias);
        add_linear(t, l, "self_attn.k_proj", kv, m->hidden, 1.5, m->attention_bias);
        add_linear(t, l, "self_attn.v_proj", kv, m->hidden, 1.0, m->attention_bias);
        add_linear(t, l, "self_attn.o_proj", m->hidden, q, 1.0, m->attention_bias);
        if (m->rotary_buffers) add(t, l, "self_attn.rotary_emb", "inv_freq", m->head_dim / 2, 0, 0.0, 1.0);
        add(t, l, "post_attention_layernorm", "weight", m->hidden, 0, 1.0, 0.3);
        add_linear(t, l, "mlp.gate_proj", m->intermediate, m->hidden, 1.0, m->mlp_bias);
        add_linear(t, l, "mlp.up_proj", m->intermediate, m->hidden, 1.0, m->mlp_bias);
        add_linear(t, l, "mlp.down_proj", m->hidden, m->intermediate, 1.0, m->mlp_bias);
    }
    add(t, -1, "model.norm", "weight", m->hidden, 0, 1.0, 0.3);
    if (!m->tied) add_linear(t, -1, "lm_head", m->vocab, m->hidden, 2.0, false);
    if (m->extra) {
        const char *part = strrchr(m->extra, '.');
        add(t, -1, "", part + 1, m->hidden, 0, 0.0, 1.0);
        snprintf(t->list[t->n - 1].name, sizeof t->list->name, "%s", m->extra);
    }
}

static pf_type type_of(const pf_tiny_model *m, const tensor *t)
{
    return m->other != NULL && strstr(t->name, m->other) != NULL ? m->other_type : m->type;
}

static int64_t elements(const tensor *t)
{
    return t->rows * (t->columns ? t->columns : 1);
}

static double next_uniform(uint64_t *state)
{
    return (double)(draw(state) >> 11) * 0x1p-52 - 1.0;
}

static void write_element(FILE *f, pf_type type, float value)
{
    if (type == PF_TYPE_F32) {
        fwrite(&value, sizeof value, 1, f);
        return;
    }
    const uint16_t half = type == PF_TYPE_BF16 ? pf_bf16_from_f32(value) : pf_f16_from_f32(value);
    fwrite(&half, sizeof half, 1, f);
}

static void write_tensors(const char *directory, const pf_tiny_model *m)
{
    static const char *const type_names[PF_N_TYPES] = { "F32", "F16", "BF16" };
    tensors t = { calloc((size_t)m->layers * 16 + 8, sizeof(tensor)), 0 };
    if (t.list == NULL) give_up("allocate", directory);
    list_tensors(&t, m);

    char *header = NULL;
    size_t header_bytes = 0;
    FILE *h = open_memstream(&header, &header_bytes);
    if (h == NULL) give_up("allocate", directory);
    int64_t offset = 0;
    for (size_t i = 0; i < t.n; i++) {
        const pf_type type = type_of(m, &t.list[i]);
        const int64_t end = offset + elements(&t.list[i]) * (int64_t)pf_type_bytes(type);
        fprintf(h, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", i ? "," : "{", t.list[i].name, type_names[type],
                (long long)t.list[i].rows);
        if (t.list[i].columns) fprintf(h, ",%lld", (long long)t.list[i].columns);
        fprintf(h, "],\"data_offsets\":[%lld,%lld]}", (long long)offset, (long long)end);
        offset = end;
    }
    fputc('}', h);
    close_checked(h, "header");

    FILE *f = open_in(directory, "model.safetensors");
    const uint64_t length = header_bytes;
    fwrite(&length, sizeof length, 1, f);
    fwrite(header, 1, header_bytes, f);
    uint64_t state = m->seed;
    for (size_t i = 0; i < t.n; i++)
        for (int64_t e = 0; e < elements(&t.list[i]); e++) {
            const double value = t.list[i].center + t.list[i].spread * next_uniform(&state);
            const bool is_nan =
                i == 0 && m->nan_token > 0 && e / m->hidden == m->nan_token; /* the embedding is first */
            write_element(f, type_of(m, &t.list[i]), is_nan ? NAN : (float)value);
        }
    close_checked(f, "model.safetensors");
    free(header);
    free(t.list);
}

/* ---- the files ------------------------------------------------------------------------------------------------- */

void pf_tiny_model_write(const char *directory, const pf_tiny_model *options)
{
    const pf_tiny_model m = with_defaults(options);
    write_config(directory, &m);
    write_tensors(directory, &m);
}

void pf_tiny_model_create(const pf_tiny_model *options, char directory[PF_TINY_PATH])
{
    const char *base = getenv("TMPDIR");
    const int n = snprintf(directory, PF_TINY_PATH, "%s/pf-tiny-XXXXXX", base ? base : "/tmp");
    if (n >= PF_TINY_PATH || mkdtemp(directory) == NULL) give_up("make a directory", directory);
    pf_tiny_model_write(directory, options);
}

void pf_tiny_model_remove(const char *directory)
{
    DIR *dir = opendir(directory);
    if (dir == NULL) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.') unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    rmdir(directory);
}
