#include "tokenizer/files/document_parts.h"

static bool push(json_t *list, json_t *part)
{
    return json_array_append_new(list, part) == 0;
}

static bool push_special(json_t *single, json_t *special, pf_template_token token)
{
    return push(single, json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", token.text, "type_id", 0)) &&
           json_object_set_new_nocheck(special, token.text,
                                       json_pack("{s:s, s:[I], s:[s]}", "id", token.text, "ids", (json_int_t)token.id,
                                                 "tokens", token.text)) == 0;
}

bool pf_set_template(json_t *root, const pf_template_token *before, int n_before, const pf_template_token *after,
                     int n_after)
{
    json_t *single = json_array(), *special = json_object();
    bool fits = single != NULL && special != NULL;
    for (int i = 0; fits && i < n_before; i++) fits = push_special(single, special, before[i]);
    fits = fits && push(single, json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    for (int i = 0; fits && i < n_after; i++) fits = push_special(single, special, after[i]);
    json_t *part =
        json_pack("{s:s, s:o?, s:o?}", "type", "TemplateProcessing", "single", single, "special_tokens", special);
    if (fits && part != NULL) return json_object_set_new(root, "post_processor", part) == 0;
    json_decref(part);
    return false;
}

json_t *pf_added_token_part(int64_t id, const char *text, bool special)
{
    return json_pack("{s:I, s:s, s:b, s:b, s:b, s:b, s:b}", "id", (json_int_t)id, "content", text, "single_word", 0,
                     "lstrip", 0, "rstrip", 0, "normalized", 0, "special", (int)special);
}

json_t *pf_sequence_part(const char *list, json_t *parts)
{
    return json_pack("{s:s, s:o}", "type", "Sequence", list, parts);
}

json_t *pf_replace_part(const char *pattern_kind, const char *pattern, const char *content)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", pattern_kind, pattern, "content", content);
}

json_t *pf_split_part(const char *regex)
{
    return json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split", "pattern", "Regex", regex, "behavior", "Isolated",
                     "invert", 0);
}

json_t *pf_byte_level_part(bool add_prefix_space, bool use_regex)
{
    return json_pack("{s:s, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", (int)add_prefix_space, "use_regex",
                     (int)use_regex);
}

json_t *pf_sentencepiece_decoder(bool strips)
{
    json_t *parts = json_array();
    bool fits = parts != NULL && push(parts, pf_replace_part("String", PF_SPACE_MARK, " ")) &&
                push(parts, json_pack("{s:s}", "type", "ByteFallback")) &&
                push(parts, json_pack("{s:s}", "type", "Fuse"));
    if (fits && strips)
        fits = push(parts, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    if (fits) return pf_sequence_part("decoders", parts);
    json_decref(parts);
    return NULL;
}

json_t *pf_byte_level_document(json_t *vocab, json_t *merges, bool ignore_merges, json_t *normalizer,
                               json_t *pre_tokenizer, json_t *added)
{
    return json_pack("{s:s, s:o?, s:o, s:{s:s}, s:{s:s, s:b, s:o, s:o}, s:o}", "version", "1.0", "normalizer",
                     normalizer, "pre_tokenizer", pre_tokenizer, "decoder", "type", "ByteLevel", "model", "type", "BPE",
                     "ignore_merges", (int)ignore_merges, "vocab", vocab, "merges", merges, "added_tokens", added);
}
