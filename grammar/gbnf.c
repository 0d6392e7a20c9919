/*
 * Reads GBNF and adds to the automaton as it reads: `at` is the node behind what has been read. A part with a count is read once
 * without adding, to find its end and its count, and then as often as it occurs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "grammar/automaton.h"

typedef struct {
    const char *text;
    size_t n, at;
    pf_grammar *g;
    int32_t skips;    /* > 0: nothing is added */
    int32_t groups;   /* that are open */
    pf_status status; /* of adding */
    pf_error *error;
} parser;

static pf_status fail(const parser *p, const char *expected)
{
    int32_t line = 1;
    for (size_t i = 0; i < p->at && i < p->n; i++) line += p->text[i] == '\n';
    if (p->at >= p->n)
        return pf_fail(p->error, PF_FORMAT, "grammar, line %d: expected %s, found its end", line, expected);
    return pf_fail(p->error, PF_FORMAT, "grammar, line %d: expected %s before \"%.*s\"", line, expected,
                   (int)(p->n - p->at < 16 ? p->n - p->at : 16), p->text + p->at);
}

static pf_status added(const parser *p)
{
    if (p->status == PF_LIMIT)
        return pf_fail(p->error, PF_LIMIT, "the grammar needs more than %d states", PF_GRAMMAR_MAX_NODES);
    return p->status == PF_OK ? PF_OK : pf_fail(p->error, p->status, "no memory for the grammar");
}

/* ---- characters -------------------------------------------------------------------------------------------------- */

static bool sees(const parser *p, char c)
{
    return p->at < p->n && p->text[p->at] == c;
}

static bool takes(parser *p, char c)
{
    if (!sees(p, c)) return false;
    p->at++;
    return true;
}

static void skip_blanks(parser *p)
{
    while (p->at < p->n) {
        const char c = p->text[p->at];
        if (c == '#')
            while (p->at < p->n && p->text[p->at] != '\n') p->at++;
        else if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
            p->at++;
        else
            return;
    }
}

static bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static pf_status read_hex(parser *p, int32_t n_digits, uint32_t *out)
{
    uint32_t value = 0;
    for (int32_t i = 0; i < n_digits; i++) {
        const char c = p->at < p->n ? p->text[p->at] : '\0';
        const int32_t digit = c >= '0' && c <= '9'   ? c - '0'
                              : c >= 'a' && c <= 'f' ? c - 'a' + 10
                              : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                     : -1;
        if (digit < 0) return fail(p, "a hexadecimal digit");
        value = value << 4 | (uint32_t)digit;
        p->at++;
    }
    if (value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff)) return fail(p, "the number of a character");
    *out = value;
    return PF_OK;
}

static pf_status read_escape(parser *p, uint32_t *out)
{
    static const char names[] = "nrt\\\"[]-^.", values[] = "\n\r\t\\\"[]-^.";
    const char c = p->at < p->n ? p->text[p->at] : '\0';
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    if (!name && c != 'x' && c != 'u' && c != 'U')
        return fail(p, "an escape (n r t \\ \" [ ] - ^ . xHH uHHHH UHHHHHHHH)");
    p->at++;
    if (!name) return read_hex(p, c == 'x' ? 2 : c == 'u' ? 4 : 8, out);
    *out = (uint32_t)(unsigned char)values[name - names];
    return PF_OK;
}

/* One character of a literal or a class, an escape or itself. */
static pf_status read_character(parser *p, uint32_t *out)
{
    bool valid = false;
    if (takes(p, '\\')) return read_escape(p, out);
    const size_t length = p->at < p->n ? pf_utf8_length(p->text + p->at, p->n - p->at, &valid) : 0;
    if (!valid) return fail(p, "a character of UTF-8");
    const unsigned char *bytes = (const unsigned char *)p->text + p->at;
    uint32_t c = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) c = c << 6 | (bytes[i] & 0x3fu);
    p->at += length;
    *out = c;
    return PF_OK;
}

/* ---- adding ------------------------------------------------------------------------------------------------------ */

static int32_t new_node(parser *p)
{
    return p->skips > 0 ? 0 : pf_grammar_add_node(p->g, &p->status);
}

static void connect(parser *p, int32_t from, int32_t to)
{
    if (p->skips > 0) return;
    pf_grammar_add_edge(p->g, from, (pf_edge){ .kind = PF_EDGE_EMPTY, .to = to }, &p->status);
}

static void add_range(parser *p, int32_t from, int32_t to, uint32_t low, uint32_t high)
{
    if (p->skips == 0 && p->status == PF_OK) pf_grammar_add_characters(p->g, from, to, low, high, &p->status);
}

/* ---- parts: each begins at node *at and sets it to the node behind ------------------------------------------------- */

static pf_status read_alternatives(parser *p, int32_t *at);

static pf_status read_literal(parser *p, int32_t *at)
{
    p->at++;
    while (!takes(p, '"')) {
        uint32_t c;
        PF_TRY(read_character(p, &c));
        const int32_t next = new_node(p);
        add_range(p, *at, next, c, c);
        PF_TRY(added(p));
        *at = next;
    }
    return PF_OK;
}

typedef struct {
    uint32_t low, high;
} range;

static int by_low(const void *a, const void *b)
{
    const range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* What the ranges leave out. They are sorted here. */
static void add_others(parser *p, int32_t from, int32_t to, range *ranges, size_t n)
{
    uint32_t next = 0;
    qsort(ranges, n, sizeof *ranges, by_low);
    for (size_t i = 0; i < n; i++) {
        if (ranges[i].low > next) add_range(p, from, to, next, ranges[i].low - 1);
        if (ranges[i].high + 1 > next) next = ranges[i].high + 1;
    }
    if (next <= 0x10ffff) add_range(p, from, to, next, 0x10ffff);
}

static pf_status read_class(parser *p, int32_t *at)
{
    enum { MAX_RANGES = 256 };
    range ranges[MAX_RANGES];
    size_t n = 0;
    p->at++;
    const bool is_negated = takes(p, '^');
    while (!takes(p, ']')) {
        if (n == MAX_RANGES) return fail(p, "a class of at most 256 ranges");
        PF_TRY(read_character(p, &ranges[n].low));
        ranges[n].high = ranges[n].low;
        if (sees(p, '-') && p->at + 1 < p->n && p->text[p->at + 1] != ']') {
            p->at++;
            PF_TRY(read_character(p, &ranges[n].high));
            if (ranges[n].high < ranges[n].low) return fail(p, "a range from the smaller to the larger character");
        }
        n++;
    }
    if (n == 0 && !is_negated) return fail(p, "a class that has a character");
    const int32_t next = new_node(p);
    for (size_t i = 0; i < n && !is_negated; i++) add_range(p, *at, next, ranges[i].low, ranges[i].high);
    if (is_negated) add_others(p, *at, next, ranges, n);
    *at = next;
    return added(p);
}

static pf_status read_any(parser *p, int32_t *at)
{
    p->at++;
    const int32_t next = new_node(p);
    add_range(p, *at, next, 0, 0x10ffff);
    *at = next;
    return added(p);
}

static pf_status read_name(parser *p, int32_t *rule)
{
    pf_grammar *g = p->g;
    const size_t begin = p->at;
    while (p->at < p->n && is_name_byte(p->text[p->at])) p->at++;
    const size_t n = p->at - begin;
    if (n == 0) return fail(p, "a rule's name, a literal, a class or a group");
    if (n >= sizeof g->rules->name) return fail(p, "a name of at most 63 characters");
    for (int32_t i = 0; i < g->n_rules; i++) {
        if (strlen(g->rules[i].name) != n || memcmp(g->rules[i].name, p->text + begin, n) != 0) continue;
        *rule = i;
        return PF_OK;
    }
    if (g->n_rules == PF_GRAMMAR_MAX_RULES)
        return pf_fail(p->error, PF_LIMIT, "the grammar has more than %d rules", PF_GRAMMAR_MAX_RULES);
    if (g->n_rules == g->rules_capacity) {
        const int32_t more = g->rules_capacity > 0 ? 2 * g->rules_capacity : 64;
        pf_rule *grown = realloc(g->rules, (size_t)more * sizeof *grown);
        if (!grown) return pf_fail(p->error, PF_NOMEM, "no memory for the grammar");
        g->rules = grown;
        g->rules_capacity = more;
    }
    pf_rule *made = &g->rules[g->n_rules];
    *made = (pf_rule){ .begin = -1, .end = -1 };
    memcpy(made->name, p->text + begin, n);
    *rule = g->n_rules++;
    return PF_OK;
}

static pf_status read_reference(parser *p, int32_t *at)
{
    int32_t rule;
    PF_TRY(read_name(p, &rule));
    const int32_t next = new_node(p);
    if (p->skips == 0 && p->status == PF_OK)
        pf_grammar_add_edge(p->g, *at, (pf_edge){ .kind = PF_EDGE_CALL, .rule = rule, .to = next }, &p->status);
    *at = next;
    return added(p);
}

static pf_status read_group(parser *p, int32_t *at)
{
    if (++p->groups > PF_GRAMMAR_MAX_GROUPS)
        return pf_fail(p->error, PF_LIMIT, "the grammar has groups more than %d deep", PF_GRAMMAR_MAX_GROUPS);
    p->at++;
    PF_TRY(read_alternatives(p, at));
    p->groups--;
    return takes(p, ')') ? PF_OK : fail(p, "the end of a group, )");
}

static pf_status read_part(parser *p, int32_t *at)
{
    if (sees(p, '"')) return read_literal(p, at);
    if (sees(p, '[')) return read_class(p, at);
    if (sees(p, '(')) return read_group(p, at);
    if (sees(p, '.')) return read_any(p, at);
    return read_reference(p, at);
}

/* ---- counts ------------------------------------------------------------------------------------------------------ */

enum { NO_END = -1 };

static pf_status read_number(parser *p, int32_t *out)
{
    int32_t value = 0, n = 0;
    for (; p->at < p->n && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++, n++) {
        value = 10 * value + (p->text[p->at] - '0');
        if (value > PF_GRAMMAR_MAX_REPEAT)
            return pf_fail(p->error, PF_LIMIT, "the grammar repeats a part more than %d times", PF_GRAMMAR_MAX_REPEAT);
    }
    *out = value;
    return n > 0 ? PF_OK : fail(p, "a number");
}

/* The count behind a part; {1, 1}: there is none. */
static pf_status read_count(parser *p, int32_t *least, int32_t *most)
{
    *least = *most = 1;
    if (takes(p, '*')) {
        *least = 0;
        *most = NO_END;
    } else if (takes(p, '+')) {
        *most = NO_END;
    } else if (takes(p, '?')) {
        *least = 0;
    } else if (takes(p, '{')) {
        PF_TRY(read_number(p, least));
        *most = *least;
        if (takes(p, ',')) {
            *most = NO_END;
            if (!sees(p, '}')) PF_TRY(read_number(p, most));
        }
        if (!takes(p, '}') || (*most != NO_END && *most < *least)) return fail(p, "a count, {m}, {m,} or {m,n}");
    }
    return PF_OK;
}

/* The part at `begin`, once more. */
static pf_status read_again(parser *p, size_t begin, int32_t *at)
{
    p->at = begin;
    return read_part(p, at);
}

static pf_status read_counted(parser *p, int32_t *at)
{
    int32_t least, most, ignored = 0;
    const size_t begin = p->at;
    p->skips++;
    PF_TRY(read_part(p, &ignored));
    p->skips--;
    const size_t end_of_part = p->at;
    PF_TRY(read_count(p, &least, &most));
    const size_t end = p->at;
    if (p->skips > 0) return PF_OK;
    if (end == end_of_part) PF_TRY(read_again(p, begin, at));
    for (int32_t i = 0; i < least && end > end_of_part; i++) PF_TRY(read_again(p, begin, at));
    if (most == NO_END) {
        const int32_t loop = new_node(p), behind = new_node(p);
        int32_t last = loop;
        PF_TRY(added(p));
        connect(p, *at, loop);
        PF_TRY(read_again(p, begin, &last));
        connect(p, last, loop);
        connect(p, loop, behind);
        *at = behind;
    } else if (most > least) {
        const int32_t behind = new_node(p);
        PF_TRY(added(p));
        for (int32_t i = least; i < most; i++) {
            connect(p, *at, behind);
            PF_TRY(read_again(p, begin, at));
        }
        connect(p, *at, behind);
        *at = behind;
    }
    p->at = end;
    return added(p);
}

/* ---- rules ------------------------------------------------------------------------------------------------------- */

/* Whether a rule's definition begins here: NAME ::= */
static bool sees_definition(const parser *p)
{
    parser ahead = *p;
    while (ahead.at < ahead.n && is_name_byte(ahead.text[ahead.at])) ahead.at++;
    if (ahead.at == p->at) return false;
    skip_blanks(&ahead);
    return ahead.n - ahead.at >= 3 && memcmp(ahead.text + ahead.at, "::=", 3) == 0;
}

static pf_status read_sequence(parser *p, int32_t *at)
{
    for (;;) {
        skip_blanks(p);
        if (p->at >= p->n || sees(p, '|') || sees(p, ')') || sees_definition(p)) return PF_OK;
        PF_TRY(read_counted(p, at));
    }
}

static pf_status read_alternatives(parser *p, int32_t *at)
{
    const int32_t begin = *at, behind = new_node(p);
    PF_TRY(added(p));
    do {
        int32_t last = new_node(p);
        PF_TRY(added(p));
        connect(p, begin, last);
        PF_TRY(read_sequence(p, &last));
        connect(p, last, behind);
    } while (takes(p, '|'));
    *at = behind;
    return added(p);
}

static pf_status read_rule(parser *p)
{
    int32_t rule;
    PF_TRY(read_name(p, &rule));
    if (p->g->rules[rule].begin >= 0)
        return pf_fail(p->error, PF_FORMAT, "the grammar defines the rule %s twice", p->g->rules[rule].name);
    skip_blanks(p);
    if (p->n - p->at < 3 || memcmp(p->text + p->at, "::=", 3) != 0) return fail(p, "::= behind a rule's name");
    p->at += 3;
    int32_t at = new_node(p);
    PF_TRY(added(p));
    p->g->rules[rule].begin = at;
    PF_TRY(read_alternatives(p, &at));
    p->g->rules[rule].end = at;
    skip_blanks(p);
    return p->at < p->n && !sees_definition(p) ? fail(p, "another rule") : PF_OK;
}

static pf_status read_rules(parser *p)
{
    pf_grammar *g = p->g;
    for (skip_blanks(p); p->at < p->n; skip_blanks(p)) PF_TRY(read_rule(p));
    g->root = -1;
    for (int32_t i = 0; i < g->n_rules; i++) {
        if (g->rules[i].end < 0)
            return pf_fail(p->error, PF_FORMAT, "the grammar has no rule %s, which another calls", g->rules[i].name);
        if (strcmp(g->rules[i].name, "root") == 0) g->root = i;
    }
    if (g->root < 0) return pf_fail(p->error, PF_FORMAT, "the grammar has no rule root");
    return pf_grammar_finish(g, p->error);
}

pf_status pf_grammar_parse(const char *source, size_t n_bytes, pf_grammar **out, pf_error *error)
{
    if (n_bytes > PF_GRAMMAR_MAX_SOURCE_BYTES)
        return pf_fail(error, PF_LIMIT, "the grammar has %zu bytes, expected at most %d", n_bytes,
                       PF_GRAMMAR_MAX_SOURCE_BYTES);
    pf_grammar *g = calloc(1, sizeof *g);
    if (!g) return pf_fail(error, PF_NOMEM, "no memory for the grammar");
    parser p = { .text = source, .n = n_bytes, .g = g, .error = error };
    const pf_status status = read_rules(&p);
    if (status == PF_OK)
        *out = g;
    else
        pf_grammar_close(g);
    return status;
}
