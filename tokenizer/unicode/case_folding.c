#include "tokenizer/unicode/case_folding.h"

#include <string.h>
#include <utf8proc.h>

#include "tokenizer/unicode/character_bytes.h"
#include "tokenizer/unicode/newer_characters.h"

/* Ranges that contain all characters that fold to several. */
static const pf_character_range SEVERAL[] = {
    { 0xDF, 0xDF },     { 0x130, 0x130 },   { 0x149, 0x149 },   { 0x1F0, 0x1F0 },   { 0x390, 0x390 },
    { 0x3B0, 0x3B0 },   { 0x587, 0x587 },   { 0x1E96, 0x1E9A }, { 0x1E9E, 0x1E9E }, { 0x1F50, 0x1F56 },
    { 0x1F80, 0x1FAF }, { 0x1FB2, 0x1FFC }, { 0xFB00, 0xFB06 }, { 0xFB13, 0xFB17 },
};
enum { N_SEVERAL = sizeof SEVERAL / sizeof *SEVERAL };

size_t pf_fold_case(int32_t c, int32_t out[PF_MAX_FOLDED])
{
    int boundary = 0;
    const utf8proc_ssize_t n = utf8proc_decompose_char(c, out, PF_MAX_FOLDED, UTF8PROC_CASEFOLD, &boundary);
    if (n >= 1) return (size_t)n;
    out[0] = c; /* not a character */
    return 1;
}

bool pf_folds_to_several(int32_t first, int32_t last)
{
    int32_t folded[PF_MAX_FOLDED];
    for (size_t i = 0; i < N_SEVERAL; i++)
        for (int32_t c = SEVERAL[i].first; c <= SEVERAL[i].last; c++)
            if (c >= first && c <= last && pf_fold_case(c, folded) > 1) return true;
    return false;
}

bool pf_ends_as_folded(const int32_t *folded, size_t n)
{
    int32_t one[PF_MAX_FOLDED];
    for (size_t i = 0; i < N_SEVERAL; i++) {
        for (int32_t c = SEVERAL[i].first; c <= SEVERAL[i].last; c++) {
            const size_t n_one = pf_fold_case(c, one);
            if (n_one > 1 && n_one <= n && memcmp(folded + n - n_one, one, n_one * sizeof *one) == 0) return true;
        }
    }
    return false;
}

bool pf_is_of_case(const char *property, size_t n)
{
    static const char *const known[] = { "Lu", "Ll", "Lt", "LC", "Uppercase", "Lowercase" };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (pf_is_property(known[i], property, n)) return true;
    return false;
}

bool pf_has_folding_letters(const char *property, size_t n, bool negated)
{
    static const char *const known[] = { "L", "Any", "Alphabetic", "Latin", "Greek", "Armenian" };
    enum { N_ALL = 3 }; /* the first of them contain all such letters */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (pf_is_property(known[i], property, n)) return !negated || i >= N_ALL;
    return negated;
}

const char *pf_folded_beside(const char *property, size_t n)
{
    static const struct {
        const char *property, *items;
    } known[] = {
        { "L", "\\x{345}-\\x{345}" },         { "M", "\\x{3B9}-\\x{3B9}" },
        { "Mn", "\\x{3B9}-\\x{3B9}" },        { "Greek", "\\x{B5}-\\x{B5}\\x{345}-\\x{345}" },
        { "Inherited", "\\x{3B9}-\\x{3B9}" }, { "Common", "\\x{3BC}-\\x{3BC}" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (pf_is_property(known[i].property, property, n)) return known[i].items;
    return "";
}
