#include "tokenizer/files/sentencepiece_tokenizer.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/files/class_options.h"
#include "tokenizer/files/document_parts.h"

typedef enum { LIKE_LLAMA, LIKE_GEMMA, BY_THE_MODEL, LIKE_CHATGLM } style;

static const struct {
    const char *name;
    style style;
    bool adds_bos;
} CLASSES[] = {
    { "", LIKE_LLAMA, true },
    { "LlamaTokenizer", LIKE_LLAMA, true },
    { "CodeLlamaTokenizer", LIKE_LLAMA, true },
    { "GemmaTokenizer", LIKE_GEMMA, true },
    { "InternLMTokenizer", BY_THE_MODEL, true },
    { "InternLM2Tokenizer", BY_THE_MODEL, true },
    { "InternLM3Tokenizer", BY_THE_MODEL, true },
    { "BaiChuanTokenizer", BY_THE_MODEL, true },
    { "BaichuanTokenizer", BY_THE_MODEL, true },
    { "YiTokenizer", BY_THE_MODEL, false },
    { "OrionTokenizer", BY_THE_MODEL, true },
    { "MiniCPMTokenizer", BY_THE_MODEL, true },
    { "ChatGLMTokenizer", LIKE_CHATGLM, false },
};
enum { N_CLASSES = sizeof CLASSES / sizeof *CLASSES };

typedef struct {
    const char *name; /* of the file */
    const pf_tokenizer_files *files;
    pf_sentencepiece_model model;
    pf_class_options options;
    int row;       /* of CLASSES */
    json_t *vocab; /* texts to ids */
    json_t *added;
    pf_error *error;
} builder;

static pf_status no_memory(const builder *b)
{
    return pf_fail(b->error, PF_NOMEM, "%s: no memory for its tokenizer", b->name);
}

static pf_status find_class(builder *b)
{
    PF_TRY(pf_class_options_read(b->files, &b->options, b->error));
    for (b->row = 0; b->row < N_CLASSES; b->row++)
        if (strcmp(CLASSES[b->row].name, b->options.name) == 0) return PF_OK;
    return pf_fail(
        b->error, PF_UNSUPPORTED,
        "%s: tokenizer_class is %s, whose tokenizer.model is not read here (known: Llama, CodeLlama, Gemma, InternLM, "
        "InternLM2, InternLM3, BaiChuan, Baichuan, Yi, Orion, MiniCPM, ChatGLM, each with Tokenizer)",
        b->files->config->name, b->options.name);
}

/* ---- pieces ---- */

static pf_status add_piece(builder *b, int32_t id, const char *text)
{
    const json_t *other = json_object_get(b->vocab, text);
    if (other)
        return pf_fail(b->error, PF_FORMAT, "%s: piece %d is \"%.60s\", as piece %lld is", b->name, id, text,
                       (long long)json_integer_value(other));
    return json_object_set_new_nocheck(b->vocab, text, json_integer(id)) == 0 ? PF_OK : no_memory(b);
}

static bool is_turn(const builder *b, const char *text)
{
    return CLASSES[b->row].style == LIKE_GEMMA &&
           (strcmp(text, "<start_of_turn>") == 0 || strcmp(text, "<end_of_turn>") == 0);
}

static pf_status add_added(const builder *b, int32_t id, const char *text)
{
    const pf_piece_type type = b->model.pieces[id].type;
    if (type != PF_PIECE_CONTROL && type != PF_PIECE_UNKNOWN && type != PF_PIECE_USER_DEFINED) return PF_OK;
    const bool special = type != PF_PIECE_USER_DEFINED || is_turn(b, text);
    return json_array_append_new(b->added, pf_added_token_part(id, text, special)) == 0 ? PF_OK : no_memory(b);
}

/* A piece's text, NUL-terminated; the caller frees it. */
static char *text_of(const pf_piece *piece)
{
    return strndup(piece->text, piece->n_bytes);
}

static pf_status read_pieces(builder *b)
{
    pf_status status = PF_OK;
    for (int32_t id = 0; status == PF_OK && id < b->model.n_pieces; id++) {
        char *text = text_of(&b->model.pieces[id]);
        if (!text) return no_memory(b);
        status = add_piece(b, id, text);
        if (status == PF_OK) status = add_added(b, id, text);
        free(text);
    }
    return status;
}

/* Gemma's first files lack a tab, which takes the place of its byte. */
static pf_status rename_tab(builder *b)
{
    json_t *id = json_object_get(b->vocab, "<0x09>");
    if (CLASSES[b->row].style != LIKE_GEMMA || !id || json_object_get(b->vocab, "\t")) return PF_OK;
    if (json_object_set_nocheck(b->vocab, "\t", id) != 0) return no_memory(b);
    return json_object_del(b->vocab, "<0x09>") == 0 ? PF_OK : no_memory(b);
}

/* ---- the parts ---- */

static bool push(json_t *list, json_t *part)
{
    return json_array_append_new(list, part) == 0;
}

static json_t *prepend_mark(void)
{
    return json_pack("{s:s, s:s}", "type", "Prepend", "prepend", PF_SPACE_MARK);
}

static json_t *charsmap_part(const uint8_t *charsmap, size_t n)
{
    if (n > (size_t)PF_MAX_SENTENCEPIECE_BYTES) return NULL;
    char *text = malloc(4 * (n / 3) + 5);
    if (!text) return NULL;
    (void)EVP_EncodeBlock((unsigned char *)text, charsmap, (int)n);
    json_t *part =
        json_pack("{s:s, s:s, s:b}", "type", "Precompiled", "precompiled_charsmap", text, "longest_match", 1);
    free(text);
    return part;
}

json_t *pf_sentencepiece_normalizer(const uint8_t *charsmap, size_t n_charsmap, bool removes_spaces, bool adds_prefix)
{
    json_t *parts = json_array();
    bool fits = parts != NULL;
    if (fits && n_charsmap > 0) fits = push(parts, charsmap_part(charsmap, n_charsmap));
    if (fits && removes_spaces)
        fits = push(parts, pf_replace_part("Regex", "\\A +|[ " PF_SPACE_MARK "]+\\z", "")) &&
               push(parts, pf_replace_part("Regex", " {2,}", " "));
    if (fits && adds_prefix) fits = push(parts, prepend_mark());
    fits = fits && push(parts, pf_replace_part("String", " ", PF_SPACE_MARK));
    if (fits) return pf_sequence_part("normalizers", parts);
    json_decref(parts);
    return NULL;
}

static bool adds_prefix(const builder *b)
{
    switch (CLASSES[b->row].style) {
    case LIKE_LLAMA: return b->options.add_prefix_space != PF_NO;
    case LIKE_GEMMA: return false;
    case BY_THE_MODEL:
    case LIKE_CHATGLM: break;
    }
    return b->model.add_dummy_prefix;
}

static bool has_metaspace(const builder *b)
{
    return CLASSES[b->row].style == LIKE_LLAMA && !b->options.legacy;
}

static bool set_split(const builder *b, json_t *root)
{
    const pf_sentencepiece_model *m = &b->model;
    const bool by_model = CLASSES[b->row].style == BY_THE_MODEL || CLASSES[b->row].style == LIKE_CHATGLM;
    if (has_metaspace(b))
        return json_object_set_new(root, "pre_tokenizer",
                                   json_pack("{s:s, s:s, s:s, s:b}", "type", "Metaspace", "replacement", PF_SPACE_MARK,
                                             "prepend_scheme", adds_prefix(b) ? "first" : "never", "split", 0)) == 0;
    json_t *normalizer = by_model ? pf_sentencepiece_normalizer(m->charsmap, m->n_charsmap, m->remove_extra_whitespaces,
                                                                m->add_dummy_prefix)
                                  : pf_sentencepiece_normalizer(NULL, 0, false, adds_prefix(b));
    return json_object_set_new(root, "normalizer", normalizer) == 0;
}

static pf_status make_merges(const builder *b, json_t **out)
{
    double *scores = calloc((size_t)b->model.n_pieces, sizeof *scores);
    if (!scores) return no_memory(b);
    for (int32_t id = 0; id < b->model.n_pieces; id++) scores[id] = (double)b->model.pieces[id].score;
    const pf_status status = pf_score_merges(b->name, b->vocab, scores, out, b->error);
    free(scores);
    return status;
}

/* The converters of Llama and Gemma always fall back to bytes. */
static bool falls_back(const builder *b)
{
    const style s = CLASSES[b->row].style;
    return b->model.byte_fallback || s == LIKE_LLAMA || s == LIKE_GEMMA;
}

static pf_status make_bpe(const builder *b, json_t **out)
{
    json_t *merges = NULL;
    char *unknown = b->model.unk_id < 0 ? NULL : text_of(&b->model.pieces[b->model.unk_id]);
    pf_status status = b->model.unk_id >= 0 && !unknown ? no_memory(b) : make_merges(b, &merges);
    if (status == PF_OK) {
        *out = json_pack("{s:s, s:s?, s:b, s:b, s:O, s:o}", "type", "BPE", "unk_token", unknown, "fuse_unk", 1,
                         "byte_fallback", (int)falls_back(b), "vocab", b->vocab, "merges", merges);
        if (!*out) status = no_memory(b);
    }
    free(unknown);
    return status;
}

static pf_status make_unigram(const builder *b, json_t **out)
{
    json_t *list = json_array();
    bool fits = list != NULL;
    for (int32_t id = 0; fits && id < b->model.n_pieces; id++) {
        const pf_piece *piece = &b->model.pieces[id];
        fits = push(list, json_pack("[o, f]", json_stringn_nocheck(piece->text, piece->n_bytes), (double)piece->score));
    }
    json_t *unknown = b->model.unk_id < 0 ? json_null() : json_integer(b->model.unk_id);
    if (!fits) {
        json_decref(list);
        list = NULL;
    }
    *out = json_pack("{s:s, s:o, s:b, s:o}", "type", "Unigram", "unk_id", unknown, "byte_fallback", (int)falls_back(b),
                     "vocab", list);
    return *out ? PF_OK : no_memory(b);
}

/* ---- ChatGLM ---- */

/* The roles are tokens since version 3, whose configuration lists added tokens. */
static pf_status add_chatglm(builder *b)
{
    static const char *const texts[] = { "[MASK]",   "[gMASK]",       "[sMASK]",        "sop", "eop", "<|system|>",
                                         "<|user|>", "<|assistant|>", "<|observation|>" };
    const int n = pf_tokenizer_config_is_old(b->files->config) ? 5 : 9;
    for (int i = 0; i < n; i++)
        if (json_array_append_new(b->added, pf_added_token_part(b->model.n_pieces + i, texts[i], true)) != 0)
            return no_memory(b);
    return PF_OK;
}

static pf_status set_chatglm_template(const builder *b, json_t *root)
{
    const pf_template_token before[] = { { "[gMASK]", b->model.n_pieces + 1 }, { "sop", b->model.n_pieces + 3 } };
    return pf_set_template(root, before, 2, NULL, 0) ? PF_OK : no_memory(b);
}

/* ---- the document ---- */

/* The texts of BOS and EOS where no file names them. */
static pf_status set_template(builder *b, json_t *root)
{
    if (CLASSES[b->row].style == LIKE_CHATGLM) return set_chatglm_template(b, root);
    const pf_sentencepiece_model *m = &b->model;
    char *bos = m->bos_id < 0 || b->options.bos ? NULL : text_of(&m->pieces[m->bos_id]);
    char *eos = m->eos_id < 0 || b->options.eos ? NULL : text_of(&m->pieces[m->eos_id]);
    if (!b->options.bos) b->options.bos = bos;
    if (!b->options.eos) b->options.eos = eos;
    const pf_status status =
        pf_class_set_template(b->files, &b->options, CLASSES[b->row].adds_bos, false, b->vocab, root, b->error);
    free(bos);
    free(eos);
    return status;
}

static pf_status build(builder *b, json_t **out)
{
    json_t *model = NULL;
    b->vocab = json_object();
    b->added = json_array();
    if (!b->vocab || !b->added) return no_memory(b);
    PF_TRY(read_pieces(b));
    PF_TRY(rename_tab(b));
    if (CLASSES[b->row].style == LIKE_CHATGLM) PF_TRY(add_chatglm(b));
    PF_TRY(b->model.is_unigram ? make_unigram(b, &model) : make_bpe(b, &model));
    json_t *root = json_pack("{s:s, s:o, s:o, s:O}", "version", "1.0", "decoder",
                             pf_sentencepiece_decoder(adds_prefix(b)), "model", model, "added_tokens", b->added);
    pf_status status = root && set_split(b, root) ? PF_OK : no_memory(b);
    if (status == PF_OK) status = set_template(b, root);
    if (status != PF_OK) {
        json_decref(root);
        return status;
    }
    *out = root;
    return PF_OK;
}

pf_status pf_sentencepiece_document(const char *name, const uint8_t *data, size_t n, const pf_tokenizer_files *files,
                                    pf_json *out, pf_error *error)
{
    builder b = { .name = name, .files = files, .error = error };
    json_t *root = NULL;
    pf_status status = find_class(&b);
    if (status == PF_OK) status = pf_sentencepiece_model_read(name, data, n, &b.model, error);
    if (status == PF_OK) status = build(&b, &root);
    pf_sentencepiece_model_clear(&b.model);
    json_decref(b.vocab);
    json_decref(b.added);
    if (status != PF_OK) return status;
    out->root = root;
    snprintf(out->name, sizeof out->name, "%s", name);
    return PF_OK;
}
