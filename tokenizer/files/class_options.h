/*
 * Reads what decides the ids of a tokenizer without a tokenizer.json: the class that tokenizer_config.json names and its options,
 * and the tokens that begin and end a text.
 *
 * Internal to tokenizer/.
 */
#ifndef PF_TOKENIZER_CLASS_OPTIONS_H
#define PF_TOKENIZER_CLASS_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/json.h"
#include "tokenizer/files/tokenizer_config.h"

enum { PF_CLASS_NAME_BYTES = 64 };

typedef enum { PF_UNSAID = -1, PF_NO = 0, PF_YES = 1 } pf_said;

typedef struct {
    char name[PF_CLASS_NAME_BYTES]; /* tokenizer_class without "Fast"; "": none */
    bool legacy;                    /* true where the file does not say */
    pf_said add_prefix_space, add_bos, add_eos;
    const char *bos, *eos; /* texts, borrowed from the documents; NULL: not named */
} pf_class_options;

/* PF_FORMAT: a field of another type, or a name that is too long. */
PF_MUST_USE pf_status pf_class_options_read(const pf_tokenizer_files *files, pf_class_options *out, pf_error *error);

/* The id of a token by its text: of vocab (texts to ids), else of added_tokens_decoder or added_tokens.json; -1: none. */
int64_t pf_class_find_id(const pf_tokenizer_files *files, const json_t *vocab, const char *text);

/* Sets root's template: bos and eos where the options say so, or the defaults. A token without an id is left out.
 * PF_NOMEM. */
PF_MUST_USE pf_status pf_class_set_template(const pf_tokenizer_files *files, const pf_class_options *options,
                                            bool adds_bos, bool adds_eos, const json_t *vocab, json_t *root,
                                            pf_error *error);

#endif
