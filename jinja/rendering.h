/* One rendering: its scopes, and what evaluates, executes, calls. Internal to jinja/. */
#ifndef PF_JINJA_RENDERING_H
#define PF_JINJA_RENDERING_H

#include "jinja/syntax.h"

/* Names and their values; what is not here is looked up in the scope around it. */
typedef struct pf_jinja_scope {
    pf_jinja_value names; /* DICT */
    struct pf_jinja_scope *around;
} pf_jinja_scope;

typedef enum { PF_JINJA_JUMP_NONE, PF_JINJA_JUMP_BREAK, PF_JINJA_JUMP_CONTINUE } pf_jinja_jump;

typedef struct {
    pf_jinja_heap *heap;
    pf_jinja_scope *scope;
    pf_jinja_builder *out; /* what statements print to */
    pf_jinja_jump jump;    /* the loop that runs is to end, or to go on with its next item */
} pf_jinja_run;

/* Arguments of a call. */
typedef struct {
    pf_jinja_value *items; /* [n] */
    size_t n;
    pf_jinja_text *names;  /* [n_named] */
    pf_jinja_value *named; /* [n_named] */
    size_t n_named;
} pf_jinja_arguments;

typedef pf_jinja_value pf_jinja_function(pf_jinja_run *run, const pf_jinja_value *self, const pf_jinja_arguments *args);

struct pf_jinja_callable {
    pf_jinja_function *function; /* NULL: a macro */
    pf_jinja_value self;         /* of a method; a function's own state */
    const pf_jinja_node *macro;  /* MACRO or CALL_BLOCK; FOR: the body of a recursive loop */
    pf_jinja_scope *scope;       /* where it was defined */
};

/* The argument at a position, or by its name; NULL: not given. */
const pf_jinja_value *pf_jinja_argument(const pf_jinja_arguments *args, size_t position, const char *name);

/* The same as an integer; `otherwise` where it is not given, or no number. */
int64_t pf_jinja_integer_argument(const pf_jinja_arguments *args, size_t position, const char *name, int64_t otherwise);

pf_jinja_value pf_jinja_new_callable(pf_jinja_run *run, pf_jinja_function *function, pf_jinja_value self);

/* The arguments of a CALL, FILTER or TEST. */
pf_jinja_arguments pf_jinja_arguments_of(pf_jinja_run *run, const pf_jinja_node *node);

pf_jinja_value pf_jinja_evaluate(pf_jinja_run *run, const pf_jinja_node *node);
pf_jinja_value pf_jinja_call(pf_jinja_run *run, const pf_jinja_value *callee, const pf_jinja_arguments *args);

/* a.name; a[key]: undefined where there is none. */
pf_jinja_value pf_jinja_field(pf_jinja_run *run, const pf_jinja_value *of, pf_jinja_text name);
pf_jinja_value pf_jinja_item(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_value *key);

/* a + b and so on: `op` is that of a BINARY node. */
pf_jinja_value pf_jinja_arithmetic(pf_jinja_run *run, pf_jinja_text op, const pf_jinja_value *a,
                                   const pf_jinja_value *b);

/* "item in of" */
bool pf_jinja_contains(pf_jinja_run *run, const pf_jinja_value *of, const pf_jinja_value *item);

/* The items that a loop over the value goes through, as a list: those of a sequence, keys, characters. */
pf_jinja_value pf_jinja_items(pf_jinja_run *run, const pf_jinja_value *of);

/* A method of a value, bound to it; undefined: it has none of this name. */
pf_jinja_value pf_jinja_method(pf_jinja_run *run, const pf_jinja_value *self, pf_jinja_text name);

/* A function or constant that every template has; undefined: there is none of this name. */
pf_jinja_value pf_jinja_global(pf_jinja_run *run, pf_jinja_text name);

pf_jinja_value pf_jinja_filter(pf_jinja_run *run, pf_jinja_text name, const pf_jinja_value *of,
                               const pf_jinja_arguments *args);
bool pf_jinja_test(pf_jinja_run *run, pf_jinja_text name, const pf_jinja_value *of, const pf_jinja_arguments *args);

/* Statements, printed to run->out. */
void pf_jinja_execute(pf_jinja_run *run, const pf_jinja_node *statements);
pf_jinja_value pf_jinja_call_macro(pf_jinja_run *run, const pf_jinja_callable *macro, const pf_jinja_arguments *args);

pf_jinja_value *pf_jinja_look_up(pf_jinja_run *run, pf_jinja_text name);
void pf_jinja_assign(pf_jinja_run *run, pf_jinja_text name, pf_jinja_value value);

/* What `loop` of a recursive loop is called by: its field of this name. */
#define PF_JINJA_LOOP_CALL PF_JINJA_TEXT(" call")

/* A new scope within the present one, which becomes the present one; false: the heap has failed. */
bool pf_jinja_open_scope(pf_jinja_run *run, pf_jinja_scope *scope);

/* Substrings, for methods and filters: the byte where `part` begins in text at or behind `from`; text.n: nowhere. */
size_t pf_jinja_find(pf_jinja_heap *heap, pf_jinja_text text, pf_jinja_text part, size_t from);
pf_jinja_text pf_jinja_replace(pf_jinja_heap *heap, pf_jinja_text text, pf_jinja_text from, pf_jinja_text to,
                               int64_t most);
pf_jinja_text pf_jinja_strip(pf_jinja_heap *heap, pf_jinja_text text, const pf_jinja_value *characters, bool left,
                             bool right);

/* upper, lower, capitalize, title of a text. */
typedef enum {
    PF_JINJA_CASE_UPPER,
    PF_JINJA_CASE_LOWER,
    PF_JINJA_CASE_CAPITAL, /* the first character */
    PF_JINJA_CASE_TITLE,   /* each letter behind no letter: Python's str.title */
    PF_JINJA_CASE_WORDS,   /* each character behind a space or an opening bracket: Jinja's filter */
} pf_jinja_case;
bool pf_jinja_is_cased(pf_jinja_heap *heap, pf_jinja_text text,
                       pf_jinja_case wanted); /* UPPER or LOWER, and not both */
pf_jinja_text pf_jinja_cased(pf_jinja_heap *heap, pf_jinja_text text, pf_jinja_case wanted);

/* "'int' object ..." */
#define PF_JINJA_FAIL_KIND(run, v, ...) \
    pf_jinja_fail((run)->heap, PF_INVALID, "'%s' object %s", pf_jinja_kind_name((v)->kind), __VA_ARGS__)

#endif
