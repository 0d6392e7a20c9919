#include "grammar/schema_pattern.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "grammar/grammar.h"

enum { N_ASCII = 128 };

typedef struct {
    const char *begin, *at;
    int32_t depth;
    pf_bytes *out;
    pf_error *error;
} reader;

/* Of characters: those of ASCII one by one, all others together. */
typedef struct {
    bool ascii[N_ASCII], others;
} character_set;

static pf_status fail(const reader *r, pf_status status, const char *what)
{
    return pf_fail(r->error, status, "%s at byte %d of the pattern \"%.60s\"", what, (int)(r->at - r->begin), r->begin);
}

static pf_status no_memory(const reader *r)
{
    return pf_fail(r->error, PF_NOMEM, "no memory for a pattern");
}

static pf_status add(const reader *r, const char *text)
{
    return pf_bytes_append(r->out, text, strlen(text)) == PF_OK ? PF_OK : no_memory(r);
}

/* ---- characters ------------------------------------------------------------------------------------------------------- */

static void add_range(character_set *s, int32_t first, int32_t last)
{
    for (int32_t c = first; c <= last; c++) s->ascii[c] = true;
}

static void invert(character_set *s)
{
    for (int32_t c = 0; c < N_ASCII; c++) s->ascii[c] = !s->ascii[c];
    s->others = !s->others;
}

static void add_all_of(character_set *s, const character_set *more)
{
    for (int32_t c = 0; c < N_ASCII; c++) s->ascii[c] = s->ascii[c] || more->ascii[c];
    s->others = s->others || more->others;
}

/* \d, \W, ...; false: it is none of these. */
static bool add_named(character_set *s, char name)
{
    character_set named = { 0 };
    switch (name) {
    case 'd':
    case 'D': add_range(&named, '0', '9'); break;
    case 'w':
    case 'W':
        add_range(&named, '0', '9');
        add_range(&named, 'A', 'Z');
        add_range(&named, 'a', 'z');
        named.ascii['_'] = true;
        break;
    case 's':
    case 'S':
        add_range(&named, '\t', '\r');
        named.ascii[' '] = true;
        break;
    default: return false;
    }
    if (name < 'a') invert(&named);
    add_all_of(s, &named);
    return true;
}

/* The character behind a backslash; -1: it is no single one. */
static int32_t escaped(char c)
{
    switch (c) {
    case 't': return '\t';
    case 'n': return '\n';
    case 'r': return '\r';
    case 'f': return '\f';
    default: return c != '\0' && strchr("\\^$.*+?()[]{}|/-\"'#&,:;<=>@`~!% _", c) ? c : -1;
    }
}

/* The two characters of a JSON string that stand for one that it may not hold as it is; NULL: there is another way or none. */
static const char *json_escape(int32_t c)
{
    switch (c) {
    case '"': return "\"\\\\\\\"\"";
    case '\\': return "\"\\\\\\\\\"";
    case '\t': return "\"\\\\t\"";
    case '\n': return "\"\\\\n\"";
    case '\r': return "\"\\\\r\"";
    case '\f': return "\"\\\\f\"";
    default: return NULL;
    }
}

static bool is_raw(int32_t c)
{
    return c >= 0x20 && c != 0x7f && c != '"' && c != '\\';
}

/* The class of those that stand for themselves. Where the others belong to it, all are excluded that do not. */
static pf_status write_class(const reader *r, const character_set *s)
{
    PF_TRY(add(r, s->others ? "[^" : "["));
    for (int32_t c = 0; c < N_ASCII; c++) {
        char text[8];
        if ((s->ascii[c] && is_raw(c)) == s->others) continue;
        snprintf(text, sizeof text, "\\x%02x", (unsigned)c);
        PF_TRY(add(r, text));
    }
    return add(r, "]");
}

static pf_status write_set(const reader *r, const character_set *s)
{
    bool has_raw = s->others, is_first = true;
    for (int32_t c = 0; c < N_ASCII; c++) has_raw = has_raw || (s->ascii[c] && is_raw(c));
    PF_TRY(add(r, "("));
    if (has_raw) {
        PF_TRY(write_class(r, s));
        is_first = false;
    }
    for (int32_t c = 0; c < N_ASCII; c++) {
        const char *escape = s->ascii[c] ? json_escape(c) : NULL;
        if (!escape) continue;
        if (!is_first) PF_TRY(add(r, " | "));
        PF_TRY(add(r, escape));
        is_first = false;
    }
    return is_first ? fail(r, PF_INVALID, "no character that is ever made") : add(r, ")");
}

/* One character of a class, or a set such as \d: *c is then -1. */
static pf_status read_class_atom(reader *r, character_set *s, int32_t *c)
{
    *c = (uint8_t)*r->at;
    if (*c >= N_ASCII) return fail(r, PF_UNSUPPORTED, "a character outside of ASCII in brackets is not supported");
    if (*c != '\\') {
        r->at++;
        return PF_OK;
    }
    if (add_named(s, r->at[1]))
        *c = -1;
    else if ((*c = escaped(r->at[1])) < 0)
        return fail(r, PF_UNSUPPORTED, "an escape that is not supported");
    r->at += 2;
    return PF_OK;
}

/* [...], from behind the bracket on. */
static pf_status read_class(reader *r)
{
    character_set s = { 0 };
    const bool is_inverse = *r->at == '^';
    if (is_inverse) r->at++;
    while (*r->at != ']') {
        int32_t first, last;
        if (*r->at == '\0') return fail(r, PF_INVALID, "a bracket that is not closed");
        PF_TRY(read_class_atom(r, &s, &first));
        last = first;
        if (*r->at == '-' && r->at[1] != ']' && r->at[1] != '\0') {
            r->at++;
            PF_TRY(read_class_atom(r, &s, &last));
            if (first < 0 || last < first) return fail(r, PF_INVALID, "a range that is none");
        }
        if (first >= 0) add_range(&s, first, last);
    }
    r->at++;
    if (is_inverse) invert(&s);
    return write_set(r, &s);
}

static pf_status read_escape(reader *r)
{
    character_set s = { 0 };
    const char c = r->at[1];
    if (!add_named(&s, c)) {
        const int32_t one = escaped(c);
        if (one < 0) return fail(r, PF_UNSUPPORTED, "an escape that is not supported");
        s.ascii[one] = true;
    }
    r->at += 2;
    return write_set(r, &s);
}

/* A character that stands for itself: of several bytes outside of ASCII. */
static pf_status read_literal(reader *r)
{
    const uint8_t c = (uint8_t)*r->at;
    if (c < N_ASCII) {
        character_set s = { 0 };
        s.ascii[c] = true;
        r->at++;
        return write_set(r, &s);
    }
    PF_TRY(add(r, "\""));
    do {
        if (pf_bytes_append(r->out, r->at++, 1) != PF_OK) return no_memory(r);
    } while (((uint8_t)*r->at & 0xc0) == 0x80);
    return add(r, "\"");
}

/* ---- structure -------------------------------------------------------------------------------------------------------- */

static pf_status read_alternatives(reader *r);

static pf_status read_group(reader *r)
{
    r->at++;
    if (*r->at == '?') {
        if (r->at[1] != ':') return fail(r, PF_UNSUPPORTED, "a group of this kind is not supported");
        r->at += 2;
    }
    if (++r->depth > PF_SCHEMA_PATTERN_MAX_DEPTH) return fail(r, PF_LIMIT, "groups that are too deep");
    PF_TRY(add(r, "("));
    PF_TRY(read_alternatives(r));
    if (*r->at != ')') return fail(r, PF_INVALID, "a group that is not closed");
    r->at++;
    r->depth--;
    return add(r, ")");
}

static pf_status read_atom(reader *r)
{
    character_set dot = { 0 };
    switch (*r->at) {
    case '(': return read_group(r);
    case '[': r->at++; return read_class(r);
    case '\\': return read_escape(r);
    case '.':
        dot.ascii['\n'] = dot.ascii['\r'] = true;
        invert(&dot);
        r->at++;
        return write_set(r, &dot);
    case '*':
    case '+':
    case '?':
    case '{':
    case '}':
    case ']': return fail(r, PF_INVALID, "a character that must be escaped");
    case '^':
    case '$': return fail(r, PF_UNSUPPORTED, "an anchor inside of a text is not supported");
    default: return read_literal(r);
    }
}

static bool read_number(reader *r, int32_t *out)
{
    const char *before = r->at;
    for (*out = 0; *r->at >= '0' && *r->at <= '9' && *out <= PF_GRAMMAR_MAX_REPEAT; r->at++)
        *out = 10 * *out + (*r->at - '0');
    return r->at > before;
}

/* {2}, {2,} or {2,5}, from behind the brace on. */
static pf_status read_count(reader *r)
{
    int32_t least, most;
    char text[32];
    if (!read_number(r, &least)) return fail(r, PF_INVALID, "a brace without a number");
    most = least;
    bool is_open = false;
    if (*r->at == ',') {
        r->at++;
        is_open = !read_number(r, &most);
    }
    if (*r->at != '}') return fail(r, PF_INVALID, "a brace that is not closed, or a number above 4096");
    r->at++;
    if (least > PF_GRAMMAR_MAX_REPEAT || (!is_open && (most < least || most > PF_GRAMMAR_MAX_REPEAT)))
        return fail(r, PF_INVALID, "a number of times that is none");
    if (is_open)
        snprintf(text, sizeof text, "{%d,}", least);
    else
        snprintf(text, sizeof text, "{%d,%d}", least, most);
    return add(r, text);
}

static pf_status read_times(reader *r)
{
    const char c = *r->at;
    if (c != '*' && c != '+' && c != '?' && c != '{') return PF_OK;
    r->at++;
    PF_TRY(c == '{' ? read_count(r) : add(r, (const char[]){ c, '\0' }));
    if (*r->at == '?') r->at++; /* lazy: the same texts */
    return PF_OK;
}

static bool ends_alternative(const reader *r)
{
    return *r->at == '\0' || *r->at == '|' || (*r->at == ')' && r->depth > 0);
}

/* Of the whole pattern, where it has no anchor anything may stand before and behind it. */
static pf_status read_sequence(reader *r)
{
    const bool is_whole = r->depth == 0;
    bool is_empty = true;
    if (is_whole && *r->at == '^')
        r->at++;
    else if (is_whole)
        PF_TRY(add(r, "json-char* "));
    while (!ends_alternative(r) && !(is_whole && *r->at == '$' && (r->at[1] == '\0' || r->at[1] == '|'))) {
        if (*r->at == ')') return fail(r, PF_INVALID, "a group that is not open");
        PF_TRY(read_atom(r));
        PF_TRY(read_times(r));
        PF_TRY(add(r, " "));
        is_empty = false;
    }
    if (is_empty) PF_TRY(add(r, "\"\" "));
    if (is_whole && *r->at == '$')
        r->at++;
    else if (is_whole)
        PF_TRY(add(r, "json-char*"));
    return PF_OK;
}

static pf_status read_alternatives(reader *r)
{
    for (;;) {
        PF_TRY(read_sequence(r));
        if (*r->at != '|') return PF_OK;
        r->at++;
        PF_TRY(add(r, " | "));
    }
}

pf_status pf_schema_pattern_write(const char *pattern, pf_bytes *out, pf_error *error)
{
    reader r = { .begin = pattern, .at = pattern, .out = out, .error = error };
    if (strlen(pattern) > PF_SCHEMA_PATTERN_MAX_BYTES) return fail(&r, PF_LIMIT, "more than 1024 bytes");
    PF_TRY(add(&r, "("));
    PF_TRY(read_alternatives(&r));
    return add(&r, ")");
}
