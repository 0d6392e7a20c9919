/* Any bytes as the text of a model, whole and in pieces: the same parts, which cover the text in order, and calls of known tools alone. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/tool_calls.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition) abort();
}

typedef struct {
    size_t end, n_text;
    uint64_t hash; /* of texts and calls */
    int32_t n_calls;
} sum;

static void add(sum *s, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) s->hash = (s->hash ^ (unsigned char)bytes[i]) * UINT64_C(1099511628211);
}

static void take(pf_tool_scan *scan, const char *text, size_t n, bool is_whole, sum *s)
{
    pf_tool_part part;
    while (pf_tool_scan_next(scan, text, n, is_whole, &part)) {
        require(part.begin >= s->end && part.end >= part.begin && part.end <= n);
        s->end = part.end;
        if (!part.is_call) {
            add(s, text + part.begin, part.end - part.begin);
            s->n_text += part.end - part.begin;
            continue;
        }
        require(strcmp(part.name, "f") == 0 && part.arguments[0] == '{');
        add(s, part.arguments, strlen(part.arguments));
        s->n_calls++;
        free(part.name);
        free(part.arguments);
    }
}

static sum scan_by(pf_tool_format format, const json_t *tools, const char *text, size_t n, size_t step)
{
    pf_tool_scan scan;
    sum s = { .hash = 1 };
    pf_tool_scan_begin(&scan, format, tools);
    for (size_t at = step; at < n; at += step) take(&scan, text, at, false, &s);
    take(&scan, text, n, true, &s);
    require(scan.n_calls == s.n_calls);
    pf_tool_scan_end(&scan);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const pf_tool_format formats[] = { PF_TOOLS_NONE, PF_TOOLS_HERMES, PF_TOOLS_TAGS, PF_TOOLS_LLAMA,
                                              PF_TOOLS_MISTRAL };
    json_t *tools = json_pack("[{s:{s:s}}]", "function", "name", "f");
    char *text = malloc(size + 1);
    if (!text || !tools) {
        free(text);
        json_decref(tools);
        return 0;
    }
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < sizeof formats / sizeof *formats && size < 4096; i++) {
        const sum whole = scan_by(formats[i], tools, text, size, size + 1),
                  pieces = scan_by(formats[i], tools, text, size, 3);
        require(whole.hash == pieces.hash && whole.n_calls == pieces.n_calls && whole.n_text == pieces.n_text);
        require(formats[i] != PF_TOOLS_NONE || whole.n_text == size);
    }
    free(text);
    json_decref(tools);
    return 0;
}
