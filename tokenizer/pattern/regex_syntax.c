/* Rewrites a pattern in one pass from left to right, without recursion. It keeps a stack of open groups, and the position of
 * the last atom, because {n,m}+ wraps its atom in a group. */
#include "tokenizer/pattern/regex_syntax.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tokenizer/unicode/case_folding.h"
#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/newer_characters.h"

enum {
    MAX_DEPTH = 200,
    MAX_WRITTEN_BYTES = 1 << 19, /* PCRE2 compiles only patterns that are several times shorter */
};

/* Word characters: Unicode's inside a class, and outside one also those of Oniguruma's table of Latin-1. */
#define WORD_IN_CLASS "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"
#define WORD          WORD_IN_CLASS "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}"

typedef struct {
    const char *name;
    bool newer; /* properties include characters newer than PCRE2 */
    const char *in;
    size_t n, at;
    char *out;
    size_t used, capacity;
    size_t atom;                /* where in `out` the last atom begins, to which a quantifier applies */
    size_t group[MAX_DEPTH];    /* where in `out` each open group begins; [0] is the pattern */
    size_t body[MAX_DEPTH];     /* where in `out` its contents begin */
    bool caseless[MAX_DEPTH];   /* whether (?i) is on in it */
    bool joins[MAX_DEPTH];      /* whether it only groups: (?:...) */
    int32_t run[PF_MAX_FOLDED]; /* [n_run] the last adjacent characters under (?i), folded; they end at run_end */
    size_t n_run, run_end;
    bool bounds[2]; /* whether \b has been written as the group b, and \B as the group B */
    bool class_negated;
    int32_t class_last,
        class_from; /* the character that may begin a range in a class, and that has begun one; -1: none */
    int depth;
    pf_error *error;
} rewriter;

static pf_status refuse(const rewriter *r, const char *what)
{
    return pf_fail(r->error, PF_UNSUPPORTED, "%s: the pattern has %s at byte %zu, which is not known here: %.120s",
                   r->name, what, r->at, r->in);
}

static pf_status reserve(rewriter *r, size_t more)
{
    if (r->used + more > MAX_WRITTEN_BYTES)
        return pf_fail(r->error, PF_UNSUPPORTED,
                       "%s: the pattern is longer than %d bytes when it is written for PCRE2, which is not known here: "
                       "%.120s",
                       r->name, MAX_WRITTEN_BYTES, r->in);
    if (r->capacity - r->used > more) return PF_OK;
    const size_t capacity = (r->capacity + more) * 2 + 64;
    char *grown = realloc(r->out, capacity);
    if (!grown) return pf_fail(r->error, PF_NOMEM, "%s: no memory for the pattern", r->name);
    r->out = grown;
    r->capacity = capacity;
    return PF_OK;
}

static pf_status put(rewriter *r, const char *text, size_t n)
{
    PF_TRY(reserve(r, n));
    memcpy(r->out + r->used, text, n);
    r->used += n;
    r->out[r->used] = '\0';
    return PF_OK;
}

static pf_status put_text(rewriter *r, const char *text)
{
    return put(r, text, strlen(text));
}

/* The next character after `ahead` others, 0 at the end. */
static char peek(const rewriter *r, size_t ahead)
{
    return r->at + ahead < r->n ? r->in[r->at + ahead] : '\0';
}

/* Copy n bytes of the pattern as they are. */
static pf_status copy(rewriter *r, size_t n)
{
    PF_TRY(put(r, r->in + r->at, n));
    r->at += n;
    return PF_OK;
}

/* Write `text` for n bytes of the pattern. */
static pf_status replace(rewriter *r, size_t n, const char *text)
{
    r->at += n;
    return put_text(r, text);
}

/* --- characters under (?i) --- */

/* A character outside classes that begins at `begin` and ends here. Under (?i) Oniguruma matches ss with the sharp s and
 * vice versa; PCRE2 does not. */
static pf_status literal(rewriter *r, size_t begin, int32_t c)
{
    int32_t folded[PF_MAX_FOLDED];
    const char behind = peek(r, 0);
    if (!r->caseless[r->depth]) return PF_OK;
    if (pf_fold_case(c, folded) > 1) return refuse(r, "a character that (?i) takes for several");
    if (behind == '*' || behind == '+' || behind == '?')
        return PF_OK; /* a repeated character does not fold with others */
    if (r->run_end != begin) r->n_run = 0;
    if (r->n_run == PF_MAX_FOLDED) memmove(r->run, r->run + 1, --r->n_run * sizeof *r->run);
    r->run[r->n_run++] = folded[0];
    r->run_end = r->at;
    return pf_ends_as_folded(r->run, r->n_run) ? refuse(r, "characters that (?i) takes for one") : PF_OK;
}

/* A construct that does not separate the characters around it: (?: or {1}. */
static void join_run(rewriter *r, size_t begin)
{
    if (r->run_end == begin) r->run_end = r->at;
}

/* A character in a class, or the end of a range there. */
static pf_status class_literal(rewriter *r, int32_t c)
{
    const int32_t first = r->class_from >= 0 ? r->class_from : c;
    r->class_last = r->class_from >= 0 ? -1 : c;
    if (r->caseless[r->depth] && !r->class_negated && pf_folds_to_several(first, c))
        return refuse(r, "a character in a class that (?i) takes for several");
    return PF_OK;
}

/* --- escapes --- */

/* Names of properties in Oniguruma, and in PCRE2; NULL: PCRE2's characters may be those of another Unicode version. A script
 * in Oniguruma has its own characters only, while PCRE2's \p{Han} has script extensions too. So a script, and a name that is
 * not listed, is written \p{sc:Name}, and PCRE2 refuses an unknown one. The listed scripts are the short names of those in
 * newer_characters.c and case_folding.c, and Yi, because its long name is as short as a general category. */
/* clang-format off */
static const struct {
    const char *name, *known;
    bool is_script;
} PROPERTIES[] = {
    { "Letter", "L", false },
    { "Cased_Letter", "LC", false },
    { "Uppercase_Letter", "Lu", false },
    { "Lowercase_Letter", "Ll", false },
    { "Titlecase_Letter", "Lt", false },
    { "Modifier_Letter", "Lm", false },
    { "Other_Letter", "Lo", false },
    { "Mark", "M", false },
    { "Combining_Mark", "M", false },
    { "Spacing_Mark", "Mc", false },
    { "Enclosing_Mark", "Me", false },
    { "Nonspacing_Mark", "Mn", false },
    { "Number", "N", false },
    { "Decimal_Number", "Nd", false },
    { "Letter_Number", "Nl", false },
    { "Other_Number", "No", false },
    { "Punctuation", "P", false },
    { "Connector_Punctuation", "Pc", false },
    { "Dash_Punctuation", "Pd", false },
    { "Open_Punctuation", "Ps", false },
    { "Close_Punctuation", "Pe", false },
    { "Initial_Punctuation", "Pi", false },
    { "Final_Punctuation", "Pf", false },
    { "Other_Punctuation", "Po", false },
    { "Symbol", "S", false },
    { "Currency_Symbol", "Sc", false },
    { "Modifier_Symbol", "Sk", false },
    { "Math_Symbol", "Sm", false },
    { "Other_Symbol", "So", false },
    { "Separator", "Z", false },
    { "Line_Separator", "Zl", false },
    { "Paragraph_Separator", "Zp", false },
    { "Space_Separator", "Zs", false },
    { "Other", "C", false },
    { "Control", "Cc", false },
    { "Cntrl", "Cc", false },
    { "Format", "Cf", false },
    { "Unassigned", "Cn", false },
    { "Private_Use", "Co", false },
    { "Surrogate", "Cs", false },
    { "Any", "Any", false },
    { "Alpha", "Alphabetic", false },
    { "Alphabetic", "Alphabetic", false },
    { "Digit", "Nd", false },
    { "Lower", "Lowercase", false },
    { "Lowercase", "Lowercase", false },
    { "Upper", "Uppercase", false },
    { "Uppercase", "Uppercase", false },
    { "Space", "White_Space", false },
    { "White_Space", "White_Space", false },
    { "Emoji", "Emoji", false },
    { "Extended_Pictographic", "Extended_Pictographic", false },
    { "Arab", "Arabic", true },
    { "Armn", "Armenian", true },
    { "Bali", "Balinese", true },
    { "Zyyy", "Common", true },
    { "Cyrl", "Cyrillic", true },
    { "Deva", "Devanagari", true },
    { "Egyp", "Egyptian_Hieroglyphs", true },
    { "Grek", "Greek", true },
    { "Hani", "Han", true },
    { "Hira", "Hiragana", true },
    { "Qaai", "Inherited", true },
    { "Zinh", "Inherited", true },
    { "Knda", "Kannada", true },
    { "Kana", "Katakana", true },
    { "Kits", "Khitan_Small_Script", true },
    { "Khoj", "Khojki", true },
    { "Laoo", "Lao", true },
    { "Latn", "Latin", true },
    { "Mymr", "Myanmar", true },
    { "Yi", "Yi", true },
    { "CI", NULL, false },
    { "SD", NULL, false },
    { "Unknown", NULL, false },
    { "Zzzz", NULL, false },
};
/* clang-format on */

/* The name of a property in PCRE2, without the "sc:" of a script; *n: its length. NULL: refused. */
static const char *property_name(const char *name, size_t *n, bool *is_script)
{
    for (size_t i = 0; i < sizeof PROPERTIES / sizeof *PROPERTIES; i++) {
        if (!pf_is_property(PROPERTIES[i].name, name, *n)) continue;
        *is_script = PROPERTIES[i].is_script;
        *n = PROPERTIES[i].known ? strlen(PROPERTIES[i].known) : 0;
        return PROPERTIES[i].known;
    }
    *is_script = *n > 2; /* shorter names are general categories */
    return name;
}

/* Under (?i) Oniguruma folds a whole class, PCRE2 only its characters and not its properties. PCRE2 then lacks the other
 * case of a case property, which is refused, and a few characters of other properties, which are added. */
static pf_status put_folded(rewriter *r, const char *property, size_t n, bool negated)
{
    if (!r->caseless[r->depth]) return PF_OK;
    if (pf_is_of_case(property, n)) return refuse(r, "a property of case in a character class under (?i)");
    if (!r->class_negated && pf_has_folding_letters(property, n, negated))
        return refuse(r, "a property in a class of characters that (?i) takes for several");
    return put_text(r, pf_folded_beside(property, n));
}

/* A single character is written as a range too, so that a following '-' cannot make it one. */
static pf_status put_newer(rewriter *r, const char *name, size_t n)
{
    pf_character_range range;
    char text[32];
    for (size_t at = 0; r->newer && pf_newer_next(name, n, &at, &range);) {
        snprintf(text, sizeof text, "\\x{%X}-\\x{%X}", (unsigned)range.first, (unsigned)range.last);
        PF_TRY(put_text(r, text));
    }
    return PF_OK;
}

/* A property or its negation, with the characters that are newer than PCRE2. A set that loses characters by them cannot be
 * written as one item of a class. */
static pf_status put_property(rewriter *r, const char *name, size_t n, bool negated, bool in_class)
{
    bool is_script;
    pf_character_range range;
    const char *known = property_name(name, &n, &is_script);
    if (!known) return refuse(r, "a property that PCRE2 may know of other characters");
    const bool changes = r->newer && pf_newer_next(known, n, &(size_t){ 0 }, &range);
    const bool shrinks = changes && negated != pf_newer_is_unassigned(known, n);
    if (in_class && shrinks) return refuse(r, "what is not in a property, inside a character class,");
    const bool guarded = !in_class && r->caseless[r->depth] && pf_is_of_case(known, n); /* not folded outside a class */
    if (guarded) PF_TRY(put_text(r, "(?-i:"));
    if (changes && !in_class) PF_TRY(put_text(r, shrinks ? "[^" : "["));
    PF_TRY(put_text(r, negated != shrinks ? "\\P{" : "\\p{"));
    if (is_script) PF_TRY(put_text(r, "sc:"));
    PF_TRY(put(r, known, n));
    PF_TRY(put_text(r, "}"));
    PF_TRY(put_newer(r, known, n));
    if (in_class) return put_folded(r, known, n, negated);
    if (changes) PF_TRY(put_text(r, "]"));
    return guarded ? put_text(r, ")") : PF_OK;
}

/* \p{Name}, \P{Name}, \p{^Name}. */
static pf_status property(rewriter *r, bool in_class)
{
    if (peek(r, 2) != '{') return refuse(r, "\\p without braces");
    size_t n = 3;
    while (isalnum((unsigned char)peek(r, n)) || peek(r, n) == '_' || peek(r, n) == '^') n++;
    if (peek(r, n) != '}') return refuse(r, "\\p{ without a name and an end");
    const size_t head = peek(r, 3) == '^' ? 4 : 3;
    PF_TRY(put_property(r, r->in + r->at + head, n - head, (peek(r, 1) == 'P') != (head == 4), in_class));
    r->at += n + 1;
    return PF_OK;
}

/* Write class items for n bytes of the pattern, with the characters of their properties that are newer than PCRE2. */
static pf_status items(rewriter *r, size_t n, const char *text)
{
    PF_TRY(replace(r, n, text));
    for (const char *name = strstr(text, "\\p{"); name; name = strstr(name, "\\p{")) {
        name += 3;
        PF_TRY(put_newer(r, name, strcspn(name, "}")));
        PF_TRY(put_folded(r, name, strcspn(name, "}"), false));
    }
    return PF_OK;
}

/* Write `text` for two bytes of the pattern, with word characters in each of its classes. */
static pf_status words(rewriter *r, const char *text)
{
    for (const char *open = strchr(text, '['); open; open = strchr(text, '[')) {
        const size_t n = (size_t)(open - text) + (open[1] == '^' ? 2 : 1);
        PF_TRY(put(r, text, n));
        PF_TRY(items(r, 0, WORD));
        text += n;
    }
    return replace(r, 2, text);
}

/* \b, \B. The first one is written as a named group that later ones call, because its four classes take 2.6 of the 64 KiB
 * that PCRE2 compiles. Under (?i) the classes have other characters, and each is written out. */
static pf_status boundary(rewriter *r, bool negated)
{
    const bool named = !r->caseless[r->depth];
    if (named && r->bounds[negated]) return replace(r, 2, negated ? "(?&B)" : "(?&b)");
    if (named) r->bounds[negated] = true;
    PF_TRY(put_text(r, !named ? "(?:" : negated ? "(?<B>" : "(?<b>"));
    return words(r, negated ? "(?<=[])(?=[])|(?<![])(?![]))" : "(?<=[])(?![])|(?<![])(?=[]))");
}

/* Write a character for `length` bytes of the pattern: its n hexadecimal digits begin `digits` bytes after the backslash. */
static pf_status put_code_point(rewriter *r, size_t digits, size_t n, size_t length, bool in_class)
{
    const size_t begin = r->at;
    const unsigned long c = strtoul(r->in + r->at + digits, NULL, 16);
    PF_TRY(put_text(r, "\\x{"));
    PF_TRY(put(r, r->in + r->at + digits, n));
    PF_TRY(replace(r, length, "}"));
    if (c > INT32_MAX) return PF_OK; /* PCRE2 refuses it */
    return in_class ? class_literal(r, (int32_t)c) : literal(r, begin, (int32_t)c);
}

static pf_status code_point(rewriter *r, bool in_class)
{
    size_t n = 2;
    if (r->in[r->at + 1] == 'u') {
        while (n < 6 && isxdigit((unsigned char)peek(r, n))) n++;
        return n == 6 ? put_code_point(r, 2, 4, 6, in_class) : refuse(r, "\\u without four hexadecimal digits");
    }
    if (peek(r, 2) == '{') {
        n = 3;
        while (isxdigit((unsigned char)peek(r, n))) n++;
        if (n == 3 || n > 11 || peek(r, n) != '}') return refuse(r, "a list of code points");
        return put_code_point(r, 3, n - 3, n + 1, in_class);
    }
    if (!isxdigit((unsigned char)peek(r, 2)) || !isxdigit((unsigned char)peek(r, 3)) || peek(r, 2) >= '8')
        return refuse(r, "\\x of a byte that is no ASCII character");
    return put_code_point(r, 2, 2, 4, in_class);
}

/* An escaped literal: punctuation. */
static pf_status quoted(rewriter *r, bool in_class)
{
    const char c = peek(r, 1);
    if (isalnum((unsigned char)c) || (unsigned char)c >= 0x80) {
        const char what[] = { '\\', (unsigned char)c < 0x80 ? c : '?', '\0' };
        return refuse(r, what);
    }
    PF_TRY(copy(r, 2));
    return in_class ? class_literal(r, c) : PF_OK;
}

/* Escapes that are known only outside classes. */
static pf_status outer_escape(rewriter *r)
{
    switch (peek(r, 1)) {
    case 'W': return words(r, "[^]");
    case 'H': return replace(r, 2, "[^0-9A-Fa-f]");
    case 'b':
    case 'B': return boundary(r, peek(r, 1) == 'B');
    case 'A':
    case 'z':
    case 'Z':
    case 'G':
    case 'K':
    case 'R': return copy(r, 2);
    default: return quoted(r, false);
    }
}

static pf_status escape(rewriter *r, bool in_class)
{
    const char c = peek(r, 1);
    switch (c) {
    case 's':
    case 'S': PF_TRY(put_property(r, "White_Space", 11, c == 'S', in_class)); return replace(r, 2, "");
    case 'd':
    case 'D': PF_TRY(put_property(r, "Nd", 2, c == 'D', in_class)); return replace(r, 2, "");
    case 'v': return replace(r, 2, "\\x0B");
    case 'w': return in_class ? items(r, 2, WORD_IN_CLASS) : words(r, "[]");
    case 'h': return replace(r, 2, in_class ? "0-9A-Fa-f" : "[0-9A-Fa-f]");
    case 'p':
    case 'P': return property(r, in_class);
    case 'x':
    case 'u': return code_point(r, in_class);
    case 'a':
    case 'e':
    case 'f':
    case 'n':
    case 'r':
    case 't': PF_TRY(copy(r, 2)); return in_class ? class_literal(r, '\n') : PF_OK; /* none of them has a case */
    case '\0': return refuse(r, "a backslash at its end");
    default: break;
    }
    if (!in_class) return outer_escape(r);
    return c == 'b' ? replace(r, 2, "\\x08") : quoted(r, true);
}

/* --- classes --- */

static pf_status posix_bracket(rewriter *r)
{
    static const struct {
        const char *name, *items;
    } known[] = {
        { "[:alpha:]", "\\p{Alphabetic}" },        { "[:digit:]", "\\p{Nd}" },
        { "[:upper:]", "\\p{Uppercase}" },         { "[:lower:]", "\\p{Lowercase}" },
        { "[:space:]", "\\p{White_Space}" },       { "[:xdigit:]", "0-9A-Fa-f" },
        { "[:alnum:]", "\\p{Alphabetic}\\p{Nd}" }, { "[:word:]", WORD_IN_CLASS },
        { "[:punct:]", "\\p{P}\\p{S}" },           { "[:cntrl:]", "\\p{Cc}" },
        { "[:blank:]", "\\p{Zs}\\x09" },           { "[:ascii:]", "\\x00-\\x7F" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const size_t n = strlen(known[i].name);
        if (r->n - r->at >= n && memcmp(r->in + r->at, known[i].name, n) == 0) return items(r, n, known[i].items);
    }
    return refuse(r, "a POSIX bracket");
}

/* A bracket of a nested class. A nested class is a union, so its brackets are omitted; a '-' next to one is refused, since it
 * would become a range. */
static pf_status inner_bracket(rewriter *r, int *depth)
{
    const bool opens = peek(r, 0) == '[';
    if (r->in[r->at - 1] == '-' || peek(r, 1) == '-') return refuse(r, "a '-' beside a character class inside another");
    if (opens && peek(r, 1) == '^') return refuse(r, "a negated character class inside another");
    if (opens && peek(r, 1) == ']') return refuse(r, "an empty character class inside another");
    *depth += opens ? 1 : -1;
    r->at++;
    return PF_OK;
}

/* One item of a class, or a bracket of a nested class. */
static pf_status class_item(rewriter *r, int *depth)
{
    const char c = peek(r, 0);
    if (c == '\\') return escape(r, true);
    if (c == '[' && peek(r, 1) == ':') return posix_bracket(r);
    if (c == '[' || c == ']') return inner_bracket(r, depth);
    if (c == '&' && peek(r, 1) == '&') return refuse(r, "an intersection of character classes, &&,");
    size_t end;
    const int32_t character = pf_character_at(r->in, r->at, &end);
    PF_TRY(copy(r, end - r->at));
    return class_literal(r, character);
}

static pf_status character_class(rewriter *r)
{
    int depth = 0; /* of nested classes */
    PF_TRY(copy(r, 1));
    r->class_negated = peek(r, 0) == '^';
    if (r->class_negated) PF_TRY(copy(r, 1));
    r->class_last = r->class_from = -1;
    if (peek(r, 0) == ']') {
        PF_TRY(replace(r, 1, "\\]"));
        r->class_last = ']';
    }
    while (r->at < r->n && (peek(r, 0) != ']' || depth > 0)) {
        const bool ranges = peek(r, 0) == '-' && r->class_last >= 0;
        r->class_from = ranges ? r->class_last : r->class_from;
        r->class_last = -1;
        PF_TRY(ranges ? copy(r, 1) : class_item(r, &depth));
        if (!ranges) r->class_from = -1;
    }
    if (r->at >= r->n) return refuse(r, "a character class that does not end");
    return copy(r, 1);
}

/* --- groups --- */

static pf_status open_body(rewriter *r, size_t begin, bool caseless, bool joins)
{
    r->depth++;
    r->group[r->depth] = begin;
    r->body[r->depth] = r->used;
    r->joins[r->depth] = joins;
    r->caseless[r->depth] = caseless;
    return PF_OK;
}

/* (?i:  (?m-i)  ...: `m` is PCRE2's `s`. Flags without a body apply to the end of their group. In the middle of a group
 * Oniguruma also applies them to the following alternatives, so they are supported only at its start. */
static pf_status flags(rewriter *r)
{
    const size_t begin = r->used;
    const bool at_start = r->used == r->body[r->depth];
    bool caseless = r->caseless[r->depth], on = true;
    PF_TRY(copy(r, 2));
    while (peek(r, 0) == 'i' || peek(r, 0) == 'm' || peek(r, 0) == '-') {
        if (peek(r, 0) == '-') on = false;
        if (peek(r, 0) == 'i') caseless = on;
        if (peek(r, 0) == 'm')
            PF_TRY(replace(r, 1, "s"));
        else
            PF_TRY(copy(r, 1));
    }
    if (peek(r, 0) == ':') {
        PF_TRY(copy(r, 1));
        return open_body(r, begin, caseless, false);
    }
    if (peek(r, 0) != ')' || !at_start) return refuse(r, "flags where they are");
    PF_TRY(copy(r, 1));
    r->body[r->depth] = r->used; /* still the start of the group */
    r->caseless[r->depth] = caseless;
    return PF_OK;
}

static pf_status open_group(rewriter *r)
{
    const size_t begin = r->used;
    if (r->depth + 1 >= MAX_DEPTH) return refuse(r, "groups nested too deeply");
    if (peek(r, 1) == '*') return refuse(r, "(*");
    const char kind = peek(r, 2);
    if (peek(r, 1) != '?') {
        PF_TRY(copy(r, 1));
    } else if (kind == ':' || kind == '=' || kind == '!' || kind == '>') {
        const size_t at = r->at;
        PF_TRY(copy(r, 3));
        if (kind == ':') join_run(r, at);
    } else if (kind == '<' && (peek(r, 3) == '=' || peek(r, 3) == '!')) {
        PF_TRY(copy(r, 4));
    } else if (kind == 'i' || kind == 'm' || kind == '-') {
        return flags(r);
    } else {
        const char what[] = { '(', '?', (unsigned char)kind < 0x80 ? kind : '?', '\0' };
        return refuse(r, what);
    }
    return open_body(r, begin, r->caseless[r->depth], kind == ':');
}

/* --- quantifiers --- */

/* The length of a well-formed {n}, {n,}, {n,m} or {,m} here, 0 otherwise. */
static size_t interval_length(const rewriter *r, bool *exact)
{
    size_t n = 1, digits = 0;
    for (; isdigit((unsigned char)peek(r, n)); n++) digits++;
    *exact = peek(r, n) != ',';
    if (!*exact)
        for (n++; isdigit((unsigned char)peek(r, n)); n++) digits++;
    return digits > 0 && peek(r, n) == '}' ? n + 1 : 0;
}

static pf_status interval(rewriter *r)
{
    bool exact;
    const size_t n = interval_length(r, &exact), atom = r->atom;
    if (n == 0) {
        r->atom = r->used;
        return replace(r, 1, "\\{");
    }
    if (exact && peek(r, n) == '?') return refuse(r, "{n}?");
    const size_t begin = r->at;
    if (peek(r, 1) == ',') {
        PF_TRY(put_text(r, "{0"));
        r->at += 1;
        PF_TRY(copy(r, n - 1));
    } else {
        PF_TRY(copy(r, n));
    }
    join_run(r, begin);
    if (peek(r, 0) != '+') return PF_OK;
    PF_TRY(reserve(r, 8)); /* (?:X{n,m})+ */
    memmove(r->out + atom + 3, r->out + atom, r->used - atom);
    memcpy(r->out + atom, "(?:", 3);
    r->used += 3;
    return replace(r, 1, ")+");
}

static pf_status next(rewriter *r)
{
    const char c = peek(r, 0);
    if (c == '(') return open_group(r);
    if (c == ')') {
        if (r->depth == 0) return refuse(r, "an unmatched )");
        PF_TRY(copy(r, 1));
        if (r->joins[r->depth]) join_run(r, r->at - 1);
        r->atom = r->group[r->depth--];
        return PF_OK;
    }
    if (c == '{') return interval(r);
    if (c == '*' || c == '+' || c == '?' || c == '|') return copy(r, 1);

    r->atom = r->used;
    if (c == '\\') return escape(r, false);
    if (c == '[') return character_class(r);
    size_t end;
    const size_t begin = r->at;
    const int32_t character = pf_character_at(r->in, begin, &end);
    PF_TRY(copy(r, end - begin)); /* a character is one atom */
    return literal(r, begin, character);
}

pf_status pf_regex_from_oniguruma(const char *name, const char *pattern, size_t n_bytes, bool newer, char **out,
                                  size_t *out_bytes, pf_error *error)
{
    if (n_bytes > PF_MAX_PATTERN_BYTES)
        return pf_fail(error, PF_LIMIT, "%s: a pattern of %zu bytes, expected at most %d", name, n_bytes,
                       PF_MAX_PATTERN_BYTES);
    if (memchr(pattern, '\0', n_bytes)) return pf_fail(error, PF_UNSUPPORTED, "%s: a pattern that holds a NUL", name);
    rewriter r = { .name = name, .newer = newer, .in = pattern, .n = n_bytes, .error = error };
    pf_status status = reserve(&r, n_bytes);
    if (status == PF_OK) r.out[0] = '\0';
    while (status == PF_OK && r.at < r.n) status = next(&r);
    if (status == PF_OK && r.depth > 0) status = refuse(&r, "an unmatched (");
    if (status != PF_OK) {
        free(r.out);
        return status;
    }
    *out = r.out;
    *out_bytes = r.used;
    return PF_OK;
}
