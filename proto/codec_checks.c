#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "proto/codec_parts.h"

pf_status pf_codec_refuse(const pf_codec_place *at, pf_status status, const char *field, const char *format, ...)
{
    char what[128];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    const char *gap = what[0] == '[' ? "" : " "; /* an entry of the field */
    if (at->index == PF_CODEC_SINGLE) return pf_fail(at->error, status, "%s.%s%s%s", at->kind, field, gap, what);
    return pf_fail(at->error, status, "%s[%zu].%s%s%s", at->kind, at->index, field, gap, what);
}

pf_status pf_codec_check_range(const pf_codec_place *at, const char *field, int64_t value, int64_t low, int64_t high)
{
    if (value >= low && value <= high) return PF_OK;
    return pf_codec_refuse(at, PF_FORMAT, field, "is %lld, expected %lld to %lld", (long long)value, (long long)low,
                           (long long)high);
}

pf_status pf_codec_check_count(const pf_codec_place *at, const char *field, size_t n, size_t low, size_t high)
{
    if (n >= low && n <= high) return PF_OK;
    return pf_codec_refuse(at, PF_FORMAT, field, "has %zu entries, expected %zu to %zu", n, low, high);
}

pf_status pf_codec_check_text(const pf_codec_place *at, const char *field, const char *text, size_t most_bytes)
{
    const size_t n = strlen(text);
    if (n <= most_bytes) return PF_OK;
    return pf_codec_refuse(at, PF_FORMAT, field, "has %zu bytes, expected at most %zu", n, most_bytes);
}
