#include "engine/option_words.h"

#include <string.h>

typedef struct {
    const char *word;
    int value;
} choice;

static const choice KV_TYPES[] = { { "auto", PF_N_TYPES }, { "f32", PF_TYPE_F32 }, { "bf16", PF_TYPE_BF16 }, { 0 } };
static const choice HEADS[] = { { "auto", PF_HEAD_AUTO },
                                { "full", PF_HEAD_FULL },
                                { "bounded", PF_HEAD_BOUNDED },
                                { "screened", PF_HEAD_SCREENED },
                                { 0 } };
static const choice BACKENDS[] = {
    { "auto", PF_BACKEND_AUTO }, { "own", PF_BACKEND_OWN }, { "onednn", PF_BACKEND_ONEDNN }, { 0 }
};

static const choice THREADINGS[] = {
    { "auto", PF_THREADING_OWN }, { "own", PF_THREADING_OWN }, { "openmp", PF_THREADING_OPENMP }, { 0 }
};

static const choice DEVICES[] = { { "auto", 0 }, { "cpu", 0 }, { "cuda", 1 }, { 0 } };

static const char *word_of(const char *given)
{
    return given ? given : "auto";
}

static pf_status choose(const choice *choices, const char *option, const char *word, int *out, pf_error *error)
{
    char known[128] = "";
    for (const choice *c = choices; c->word; c++) {
        if (strcmp(c->word, word_of(word)) == 0) {
            *out = c->value;
            return PF_OK;
        }
        pf_list_word(known, sizeof known, ", ", c->word);
    }
    return pf_fail(error, PF_INVALID, "%s is \"%.40s\", expected one of %s", option, word, known);
}

pf_status pf_draft_passes_parse(const char *word, pf_passes *out, pf_error *error)
{
    static const choice PASSES[] = {
        { "auto", PF_PASSES_AUTO }, { "1", PF_PASSES_ONE }, { "2", PF_PASSES_TWO }, { "k", PF_PASSES_EACH }, { 0 }
    };
    int passes;
    PF_TRY(choose(PASSES, "draft_passes", word, &passes, error));
    *out = (pf_passes)passes;
    return PF_OK;
}

pf_status pf_option_words_parse(const pf_engine_options *o, pf_option_words *out, pf_error *error)
{
    pf_option_words words;
    int kv_type, head, backend, threading, device;
    PF_TRY(pf_dtype_parse(word_of(o->dtype), &words.dtype, error));
    PF_TRY(pf_activations_parse(word_of(o->activations), &words.activations, error));
    PF_TRY(choose(KV_TYPES, "kv_dtype", o->kv_dtype, &kv_type, error));
    PF_TRY(choose(HEADS, "head", o->head, &head, error));
    PF_TRY(choose(BACKENDS, "gemm", o->gemm, &backend, error));
    PF_TRY(choose(THREADINGS, "threading", o->threading, &threading, error));
    PF_TRY(choose(DEVICES, "backend", o->backend, &device, error));
    PF_TRY(pf_isa_parse(word_of(o->isa), &words.isa, error));
    words.kv_type = (pf_type)kv_type;
    words.head = (pf_head)head;
    words.backend = (pf_backend)backend;
    words.threading = (pf_threading)threading;
    words.runs_on_cuda = device == 1;
    *out = words;
    return PF_OK;
}
