/*
 * trim_blocks: the first line end behind a statement or a comment is dropped. lstrip_blocks: spaces before them are, from the
 * beginning of their line. "-" at either end of a tag drops all white space there, "+" keeps what would be dropped.
 * Source: Jinja 2, lexer.py (the rules), chat templates' environment in transformers (the settings).
 */
#include "jinja/lexer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

typedef struct {
    pf_jinja_heap *heap;
    pf_jinja_text source;
    size_t at;
    int32_t line;
    bool line_begins; /* what stands before `at` ended a line, as a tag's dropped line end does */
    pf_jinja_tokens *out;
} lexer;

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char peek(const lexer *x, size_t ahead)
{
    return x->at + ahead < x->source.n ? x->source.data[x->at + ahead] : '\0';
}

static bool follows(const lexer *x, const char *word)
{
    const size_t n = strlen(word);
    return x->source.n - x->at >= n && memcmp(x->source.data + x->at, word, n) == 0;
}

static void skip(lexer *x, size_t n)
{
    for (size_t i = 0; i < n; i++) x->line += x->source.data[x->at + i] == '\n';
    x->at += n;
    x->heap->line = x->line;
}

static pf_jinja_token *push(lexer *x, pf_jinja_token_kind kind, pf_jinja_text text)
{
    pf_jinja_tokens *out = x->out;
    if (!pf_jinja_is_well(x->heap)) return NULL;
    if (out->n == out->capacity) {
        const size_t capacity = out->capacity > 0 ? 2 * out->capacity : 64;
        pf_jinja_token *grown = pf_jinja_take(x->heap, capacity, sizeof *grown);
        if (grown == NULL) return NULL;
        if (out->n > 0) memcpy(grown, out->items, out->n * sizeof *grown);
        out->items = grown;
        out->capacity = capacity;
    }
    out->items[out->n] = (pf_jinja_token){ .kind = kind, .line = x->line, .text = text };
    return &out->items[out->n++];
}

/* ---- tags ---------------------------------------------------------------------------------------------------------- */

/* Behind the end of a tag: a line end of a statement or a comment, or with "-" all white space. */
static void skip_behind(lexer *x, bool strips, bool trims)
{
    const size_t begin = x->at;
    if (strips)
        while (x->at < x->source.n && is_space(peek(x, 0))) skip(x, 1);
    else if (trims && follows(x, "\r\n"))
        skip(x, 2);
    else if (trims && peek(x, 0) == '\n')
        skip(x, 1);
    x->line_begins = x->at > begin && x->source.data[x->at - 1] == '\n';
}

static void fail_open(lexer *x, const char *what)
{
    pf_jinja_fail(x->heap, PF_FORMAT, "%s does not end", what);
}

static void skip_comment(lexer *x)
{
    const size_t begin = x->at;
    while (x->at < x->source.n && !follows(x, "#}")) skip(x, 1);
    if (x->at >= x->source.n) {
        fail_open(x, "a comment");
        return;
    }
    const char last = x->at > begin ? x->source.data[x->at - 1] : '\0';
    skip(x, 2);
    skip_behind(x, last == '-', last != '+');
}

/* The value of a quoted text: escapes as in Python. */
static void unescape(lexer *x, const char *from, size_t n, pf_jinja_builder *b)
{
    static const char letters[] = "ntrbfva0", values[] = "\n\t\r\b\f\v\a";
    for (size_t i = 0; i < n; i++) {
        if (from[i] != '\\' || i + 1 == n) {
            pf_jinja_add(x->heap, b, from + i, 1);
            continue;
        }
        const char c = from[++i];
        const char *letter = strchr(letters, c);
        const size_t n_digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
        if (c == '\n') continue; /* a line goes on */
        if (n_digits > 0 && i + n_digits < n) {
            char digits[9] = "", *end;
            memcpy(digits, from + i + 1, n_digits);
            const unsigned long code = strtoul(digits, &end, 16);
            if (*end == '\0' && is_letter(digits[0]) + is_digit(digits[0]) > 0 && code < 0x110000) {
                utf8proc_uint8_t utf8[4];
                const utf8proc_ssize_t k = utf8proc_encode_char((utf8proc_int32_t)code, utf8);
                pf_jinja_add(x->heap, b, (const char *)utf8, (size_t)k);
                i += n_digits;
                continue;
            }
        }
        if (c == '\\' || c == '\'' || c == '"')
            pf_jinja_add(x->heap, b, &c, 1);
        else if (c != '\0' && letter != NULL)
            pf_jinja_add(x->heap, b, &values[letter - letters], 1);
        else /* not an escape: both characters stay, as in Python */
            pf_jinja_add(x->heap, b, from + i - 1, 2);
    }
}

static void read_string(lexer *x)
{
    const char quote = peek(x, 0);
    size_t n = 1;
    while (x->at + n < x->source.n && peek(x, n) != quote)
        n += peek(x, n) == '\\' && x->at + n + 1 < x->source.n ? 2 : 1;
    if (x->at + n >= x->source.n) {
        fail_open(x, "a quoted text");
        return;
    }
    pf_jinja_builder b = { .n = 0 };
    unescape(x, x->source.data + x->at + 1, n - 1, &b);
    push(x, PF_JINJA_TOKEN_STRING, (pf_jinja_text){ b.data, b.n });
    skip(x, n + 1);
}

static void read_number(lexer *x)
{
    enum { LONGEST = 64 };
    char digits[LONGEST], *end;
    size_t n = 0, k = 0;
    bool is_real = false;
    while (is_digit(peek(x, n)) || peek(x, n) == '_' || (peek(x, n) == '.' && is_digit(peek(x, n + 1))) ||
           ((peek(x, n) == 'e' || peek(x, n) == 'E') &&
            (is_digit(peek(x, n + 1)) ||
             ((peek(x, n + 1) == '-' || peek(x, n + 1) == '+') && is_digit(peek(x, n + 2)))))) {
        const char c = peek(x, n);
        is_real |= c == '.' || c == 'e' || c == 'E';
        if (c != '_' && k < LONGEST - 2) digits[k++] = c;
        n++;
        if ((c == 'e' || c == 'E') && k < LONGEST - 2) digits[k++] = peek(x, n++);
    }
    digits[k] = '\0';
    pf_jinja_token *token =
        push(x, is_real ? PF_JINJA_TOKEN_FLOAT : PF_JINJA_TOKEN_INT, (pf_jinja_text){ x->source.data + x->at, n });
    errno = 0;
    if (token != NULL && is_real) token->real = strtod(digits, &end);
    if (token != NULL && !is_real) token->integer = strtoll(digits, &end, 10);
    if (errno == ERANGE && !is_real) pf_jinja_fail(x->heap, PF_LIMIT, "the number %s is too large", digits);
    skip(x, n);
}

static bool read_operator(lexer *x, int32_t *depth)
{
    static const char *const operators[] = { "//", "**", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "~", "[",
                                             "]",  "(",  ")",  "{",  "}",  ",",  ".", ":", "|", "=", ";", "<", ">" };
    for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
        const char *op = operators[i];
        if (!follows(x, op)) continue;
        if (strchr("([{", *op) != NULL) (*depth)++;
        if (strchr(")]}", *op) != NULL) (*depth)--;
        push(x, PF_JINJA_TOKEN_OPERATOR, (pf_jinja_text){ op, strlen(op) });
        skip(x, strlen(op));
        return true;
    }
    return false;
}

/* The end of a tag here: the bytes that it takes, with its "-" or "+"; 0: none. */
static size_t tag_end(const lexer *x, const char *end)
{
    if (follows(x, end)) return 2;
    const char c = peek(x, 0);
    lexer behind = *x;
    behind.at++;
    return (c == '-' || c == '+') && behind.at < x->source.n && follows(&behind, end) ? 3 : 0;
}

/* The words of a tag, up to its end and what that drops. */
static void read_tag(lexer *x, const char *end, pf_jinja_token_kind kind)
{
    int32_t depth = 0;
    while (x->at < x->source.n && pf_jinja_step(x->heap, 1)) {
        const char c = peek(x, 0);
        const size_t n_end = depth <= 0 ? tag_end(x, end) : 0;
        if (n_end > 0) {
            push(x, kind, PF_JINJA_TEXT(""));
            skip(x, n_end);
            skip_behind(x, n_end == 3 && c == '-', kind == PF_JINJA_TOKEN_END_STATEMENT && !(n_end == 3 && c == '+'));
            return;
        }
        if (is_space(c)) {
            skip(x, 1);
        } else if (is_letter(c)) {
            size_t n = 1;
            while (is_letter(peek(x, n)) || is_digit(peek(x, n))) n++;
            push(x, PF_JINJA_TOKEN_NAME, (pf_jinja_text){ x->source.data + x->at, n });
            skip(x, n);
        } else if (is_digit(c)) {
            read_number(x);
        } else if (c == '"' || c == '\'') {
            read_string(x);
        } else if (!read_operator(x, &depth)) {
            pf_jinja_fail(x->heap, PF_FORMAT, "'%c' is no part of an expression", c);
        }
    }
    fail_open(x, kind == PF_JINJA_TOKEN_END_STATEMENT ? "a statement, {%," : "an expression, {{,");
}

/* ---- text ----------------------------------------------------------------------------------------------------------- */

/* The end of a text before a tag: without its white space where the tag has "-"; without the spaces of its last line before a
 * statement or a comment. */
static size_t text_end(const lexer *x, size_t begin, size_t end, char mark, bool is_expression)
{
    size_t to = end;
    if (mark == '-') {
        while (to > begin && is_space(x->source.data[to - 1])) to--;
        return to;
    }
    if (is_expression || mark == '+') return end;
    while (to > begin && (x->source.data[to - 1] == ' ' || x->source.data[to - 1] == '\t')) to--;
    const bool line_begins = to > begin ? x->source.data[to - 1] == '\n' : x->line_begins;
    return line_begins ? to : end;
}

/* "{% raw %} ... {% endraw %}" is text. True: there was one. */
static bool read_raw(lexer *x)
{
    lexer y = *x;
    size_t n = peek(x, 2) == '-' || peek(x, 2) == '+' ? 3 : 2;
    while (is_space(peek(x, n))) n++;
    y.at += n;
    if (y.at >= x->source.n || !follows(&y, "raw") || is_letter(peek(&y, 3)) || is_digit(peek(&y, 3))) return false;
    n += 3;
    while (is_space(peek(x, n))) n++;
    y.at = x->at + n;
    const size_t n_end = tag_end(&y, "%}");
    if (n_end == 0) return false;
    const bool strips = n_end == 3 && peek(&y, 0) == '-';
    skip(x, n + n_end);
    skip_behind(x, strips, !(n_end == 3 && !strips));
    const size_t begin = x->at;
    for (; x->at < x->source.n && pf_jinja_step(x->heap, 1); skip(x, 1)) {
        if (!follows(x, "{%")) continue;
        y = *x;
        const char mark = peek(x, 2);
        y.at += mark == '-' || mark == '+' ? 3 : 2;
        while (is_space(peek(&y, 0))) y.at++;
        if (y.at >= x->source.n || !follows(&y, "endraw")) continue;
        y.at += 6;
        while (is_space(peek(&y, 0))) y.at++;
        const size_t n_close = y.at < x->source.n ? tag_end(&y, "%}") : 0;
        if (n_close == 0) continue;
        const bool strips_behind = n_close == 3 && peek(&y, 0) == '-';
        const size_t to = text_end(x, begin, x->at, mark, false);
        push(x, PF_JINJA_TOKEN_TEXT, (pf_jinja_text){ x->source.data + begin, to - begin });
        skip(x, y.at + n_close - x->at);
        skip_behind(x, strips_behind, !(n_close == 3 && !strips_behind));
        return true;
    }
    fail_open(x, "{% raw %}");
    return true;
}

void pf_jinja_tokenize(pf_jinja_heap *heap, pf_jinja_text source, pf_jinja_tokens *out)
{
    lexer x = { .heap = heap, .source = source, .line = 1, .line_begins = true, .out = out };
    /* one line end at the end of a template is not part of it */
    if (x.source.n > 0 && x.source.data[x.source.n - 1] == '\n') x.source.n--;
    if (x.source.n < source.n && x.source.n > 0 && x.source.data[x.source.n - 1] == '\r') x.source.n--;
    *out = (pf_jinja_tokens){ .n = 0 };
    while (x.at < x.source.n && pf_jinja_step(heap, 1)) {
        const size_t begin = x.at;
        while (x.at < x.source.n && !follows(&x, "{{") && !follows(&x, "{%") && !follows(&x, "{#")) skip(&x, 1);
        const bool is_expression = x.at < x.source.n && peek(&x, 1) == '{';
        const char mark = x.at < x.source.n ? peek(&x, 2) : '\0';
        const size_t to = x.at < x.source.n ? text_end(&x, begin, x.at, mark, is_expression) : x.at;
        if (to > begin) push(&x, PF_JINJA_TOKEN_TEXT, (pf_jinja_text){ x.source.data + begin, to - begin });
        if (x.at >= x.source.n) break;
        const size_t n_begin = mark == '-' || mark == '+' ? 3 : 2;
        if (peek(&x, 1) == '#') {
            skip(&x, 2);
            skip_comment(&x);
        } else if (is_expression) {
            push(&x, PF_JINJA_TOKEN_EXPRESSION, PF_JINJA_TEXT(""));
            skip(&x, mark == '-' ? 3 : 2);
            read_tag(&x, "}}", PF_JINJA_TOKEN_END_EXPRESSION);
        } else if (!read_raw(&x)) {
            push(&x, PF_JINJA_TOKEN_STATEMENT, PF_JINJA_TEXT(""));
            skip(&x, n_begin);
            read_tag(&x, "%}", PF_JINJA_TOKEN_END_STATEMENT);
        }
    }
    push(&x, PF_JINJA_TOKEN_END, PF_JINJA_TEXT(""));
}
