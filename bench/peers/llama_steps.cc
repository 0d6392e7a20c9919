// llama.cpp on the other side of `pilotfish bench steps`: the same requests, the same answers.
//
//     llama_steps MODEL.gguf THREADS CONTEXT
//
// The fairest opponent: weights repacked and copied into memory rather than mapped, flash attention, one batch of 512.
// No sampler: a pass ends when the logits of its rows are there.
#include "llama.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

static const int MAX_BATCH = 512, MAX_ROWS = 16;

static double now_ms() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

[[noreturn]] static void fail(const char *what, const char *which) {
    fprintf(stderr, "llama_steps: %s: %s\n", what, which);
    exit(1);
}

struct session {
    llama_context *context;
    llama_batch batch;
    int n_vocab;
    int length;      // positions that are kept
    unsigned random;
};

// n rows behind what is kept; logits for all of them or for the last. Returns milliseconds.
static double pass(session &s, int n, bool all) {
    s.batch.n_tokens = n;
    for (int i = 0; i < n; i++) {
        s.random = s.random * 1664525u + 1013904223u;
        s.batch.token[i] = (int)((s.random >> 8) % (unsigned)s.n_vocab);
        s.batch.pos[i] = s.length + i;
        s.batch.n_seq_id[i] = 1;
        s.batch.seq_id[i][0] = 0;
        s.batch.logits[i] = all || i == n - 1;
    }
    const double begin = now_ms();
    if (llama_decode(s.context, s.batch) != 0) fail("a pass failed", "llama_decode");
    volatile float logit = llama_get_logits_ith(s.context, n - 1)[0];   // waits for the result
    (void)logit;
    return now_ms() - begin;
}

static void keep(session &s, int length) {
    llama_memory_seq_rm(llama_get_memory(s.context), 0, length, -1);
    s.length = length;
}

static double begin(session &s, int n) {
    double ms = 0.0;
    keep(s, 0);
    for (int done = 0; done < n;) {
        const int rows = n - done < MAX_BATCH ? n - done : MAX_BATCH;
        ms += pass(s, rows, false);
        s.length = done += rows;
    }
    return ms;
}

// Of each pass the first row is kept, as when nothing of a draft is accepted.
static double step(session &s, int n_rows, int n_passes) {
    double ms = 0.0;
    for (int i = 0; i < n_passes; i++) {
        ms += pass(s, n_rows, true);
        keep(s, s.length + 1);
    }
    return ms;
}

static void quiet(ggml_log_level level, const char *text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) fputs(text, stderr);
}

int main(int argc, char **argv) {
    if (argc != 4) fail("usage", "llama_steps MODEL.gguf THREADS CONTEXT");
    llama_log_set(quiet, nullptr);
    llama_backend_init();
    llama_model_params model_params = llama_model_default_params();
    model_params.n_gpu_layers = 0;
    model_params.load_mode = LLAMA_LOAD_MODE_NONE;
    llama_model *model = llama_model_load_from_file(argv[1], model_params);
    if (!model) fail("cannot load", argv[1]);
    llama_context_params params = llama_context_default_params();
    params.n_ctx = (uint32_t)atoi(argv[3]);
    params.n_batch = params.n_ubatch = MAX_BATCH;
    params.n_threads = params.n_threads_batch = atoi(argv[2]);
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
    llama_context *context = llama_init_from_model(model, params);
    if (!context) fail("no context for", argv[1]);

    session s = {context, llama_batch_init(MAX_BATCH, 0, 1), llama_vocab_n_tokens(llama_model_get_vocab(model)), 0, 1};
    printf("ready %llu\n", (unsigned long long)llama_model_size(model));
    fflush(stdout);
    char line[128];
    while (fgets(line, sizeof line, stdin)) {
        int a, b;
        if (sscanf(line, "begin %d", &a) == 1)
            printf("%.6f\n", begin(s, a));
        else if (sscanf(line, "step %d %d", &a, &b) == 2 && a >= 1 && a <= MAX_ROWS)
            printf("%.6f\n", step(s, a, b));
        else
            fail("not understood", line);
        fflush(stdout);
    }
    return 0;
}
