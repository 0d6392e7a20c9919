/* The syntax tree of a template. Internal to jinja/. */
#ifndef PF_JINJA_SYNTAX_H
#define PF_JINJA_SYNTAX_H

#include "jinja/lexer.h"

typedef enum {
    /* Expressions. */
    PF_JINJA_NODE_CONSTANT,  /* value */
    PF_JINJA_NODE_NAME,      /* text */
    PF_JINJA_NODE_LIST,      /* items */
    PF_JINJA_NODE_TUPLE,     /* items */
    PF_JINJA_NODE_DICT,      /* items: key, value, key, value, ... */
    PF_JINJA_NODE_FIELD,     /* a.text */
    PF_JINJA_NODE_ITEM,      /* a[b] */
    PF_JINJA_NODE_SLICE,     /* a[b:c:d]; NULL where left out */
    PF_JINJA_NODE_CALL,      /* a(items, keywords) */
    PF_JINJA_NODE_FILTER,    /* a | text(items, keywords); a NULL: of a block */
    PF_JINJA_NODE_TEST,      /* a is text(items, keywords) */
    PF_JINJA_NODE_NOT,       /* not a */
    PF_JINJA_NODE_NEGATIVE,  /* -a */
    PF_JINJA_NODE_POSITIVE,  /* +a */
    PF_JINJA_NODE_AND,       /* a and b */
    PF_JINJA_NODE_OR,        /* a or b */
    PF_JINJA_NODE_BINARY,    /* a text b: + - * / // % ** ~ */
    PF_JINJA_NODE_COMPARE,   /* a, then items: operators and operands by turns, as COMPARE nodes with text and b */
    PF_JINJA_NODE_CONDITION, /* a if b else c; c NULL: undefined */

    /* Statements; `items` are those within. */
    PF_JINJA_NODE_TEXT,         /* prints text */
    PF_JINJA_NODE_PRINT,        /* prints a */
    PF_JINJA_NODE_IF,           /* if a: items, else other */
    PF_JINJA_NODE_FOR,          /* for a in b if c: items, else other; value: recursive or not */
    PF_JINJA_NODE_SET,          /* a = b */
    PF_JINJA_NODE_SET_BLOCK,    /* a = what items print, through the filters b */
    PF_JINJA_NODE_MACRO,        /* text(keywords: parameters with defaults): items */
    PF_JINJA_NODE_CALL_BLOCK,   /* calls a with caller(keywords): items */
    PF_JINJA_NODE_FILTER_BLOCK, /* prints what items print, through the filters b */
    PF_JINJA_NODE_WITH,         /* keywords: items */
    PF_JINJA_NODE_BLOCK,        /* items, in a scope of their own: generation */
    PF_JINJA_NODE_BREAK,
    PF_JINJA_NODE_CONTINUE,
} pf_jinja_node_kind;

typedef struct pf_jinja_node pf_jinja_node;

struct pf_jinja_node {
    pf_jinja_node_kind kind;
    int32_t line;
    pf_jinja_text text;
    pf_jinja_value value;
    pf_jinja_node *a, *b, *c, *d;
    pf_jinja_node *items, *other; /* lists by `next` */
    pf_jinja_node *keywords;      /* list of nodes with text and, where there is one, a */
    pf_jinja_node *next;
};

/* Parses all tokens into a list of statements; NULL for an empty template, or where the heap has failed. */
pf_jinja_node *pf_jinja_parse_tokens(pf_jinja_heap *heap, const pf_jinja_tokens *tokens);

#endif
