/*
 * Cuts a template into tokens: text between tags, with Jinja's whitespace control applied, and the words within tags.
 * Internal to jinja/.
 */
#ifndef PF_JINJA_LEXER_H
#define PF_JINJA_LEXER_H

#include "jinja/heap.h"
#include "jinja/value.h"

typedef enum {
    PF_JINJA_TOKEN_TEXT,           /* to be printed as it is */
    PF_JINJA_TOKEN_STATEMENT,      /* {% */
    PF_JINJA_TOKEN_EXPRESSION,     /* {{ */
    PF_JINJA_TOKEN_END_STATEMENT,  /* %} */
    PF_JINJA_TOKEN_END_EXPRESSION, /* }} */
    PF_JINJA_TOKEN_NAME,
    PF_JINJA_TOKEN_STRING, /* text: its value */
    PF_JINJA_TOKEN_INT,
    PF_JINJA_TOKEN_FLOAT,
    PF_JINJA_TOKEN_OPERATOR,
    PF_JINJA_TOKEN_END,
} pf_jinja_token_kind;

typedef struct {
    pf_jinja_token_kind kind;
    int32_t line;
    pf_jinja_text text;
    int64_t integer;
    double real;
} pf_jinja_token;

typedef struct {
    pf_jinja_token *items;
    size_t n, capacity;
} pf_jinja_tokens;

/* All tokens of a source, END last, in the heap, which fails where a tag or a text in it does not end, or a character is none
 * of the language. The source must outlive them. */
void pf_jinja_tokenize(pf_jinja_heap *heap, pf_jinja_text source, pf_jinja_tokens *out);

#endif
