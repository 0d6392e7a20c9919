/* Reads benchmark prompts. */
#include "bench/prompts.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

enum { MAX_LINE_BYTES = 16 << 20, MAX_TURNS = 64, MAX_PROMPTS = 1 << 20 };

static void clear_prompt(pf_prompt *prompt)
{
    for (size_t i = 0; i < prompt->n_turns; i++) free(prompt->turns[i]);
    free(prompt->turns);
    free(prompt->category);
    *prompt = (pf_prompt){ 0 };
}

void pf_prompts_clear(pf_prompts *prompts)
{
    for (size_t i = 0; i < prompts->n; i++) clear_prompt(&prompts->items[i]);
    free(prompts->items);
    *prompts = (pf_prompts){ 0 };
}

/* ---- one line --------------------------------------------------------------------------------------------------- */

static pf_status no_memory(const char *path, size_t line, pf_error *error)
{
    return pf_fail(error, PF_NOMEM, "%s, line %zu: no memory for the prompt", path, line);
}

static pf_status take_turns(const json_t *turns, const char *path, size_t line, pf_prompt *out, pf_error *error)
{
    const size_t n = json_array_size(turns);
    if (n < 1 || n > MAX_TURNS)
        return pf_fail(error, PF_FORMAT, "%s, line %zu: \"turns\" must be a list of 1 to %d texts", path, line,
                       MAX_TURNS);
    out->turns = calloc(n, sizeof *out->turns);
    if (!out->turns) return no_memory(path, line, error);
    for (size_t i = 0; i < n; i++) {
        const json_t *turn = json_array_get(turns, i);
        if (!pf_json_is_text(turn))
            return pf_fail(error, PF_FORMAT, "%s, line %zu: turn %zu is not a text, or has a NUL", path, line, i + 1);
        out->turns[i] = strdup(json_string_value(turn));
        if (!out->turns[i]) return no_memory(path, line, error);
        out->n_turns = i + 1;
    }
    return PF_OK;
}

static pf_status take_category(const json_t *category, const char *path, size_t line, pf_prompt *out, pf_error *error)
{
    const bool is_none = !category || json_is_null(category);
    if (!is_none && !pf_json_is_text(category))
        return pf_fail(error, PF_FORMAT, "%s, line %zu: \"category\" is not a text, or has a NUL", path, line);
    out->category = strdup(is_none ? "" : json_string_value(category));
    return out->category ? PF_OK : no_memory(path, line, error);
}

static pf_status parse_object(const char *text, size_t n_bytes, const char *path, size_t line, pf_prompt *out,
                              pf_error *error)
{
    char name[512];
    snprintf(name, sizeof name, "%.480s, line %zu", path, line);
    pf_json object;
    PF_TRY(pf_json_parse(name, text, n_bytes, MAX_LINE_BYTES, &object, error));
    pf_status status = take_category(json_object_get(object.root, "category"), path, line, out, error);
    if (status == PF_OK) status = take_turns(json_object_get(object.root, "turns"), path, line, out, error);
    pf_json_close(&object);
    return status;
}

static pf_status take_line(const char *text, size_t n_bytes, const char *path, size_t line, pf_prompt *out,
                           pf_error *error)
{
    out->category = strdup("");
    out->turns = calloc(1, sizeof *out->turns);
    char *turn = strndup(text, n_bytes);
    if (!out->category || !out->turns || !turn) {
        free(turn);
        return no_memory(path, line, error);
    }
    out->turns[0] = turn;
    out->n_turns = 1;
    return PF_OK;
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static pf_status append(pf_prompts *prompts, const pf_prompt *prompt, const char *path, size_t line, pf_error *error)
{
    if (prompts->n == MAX_PROMPTS)
        return pf_fail(error, PF_LIMIT, "%s, line %zu: expected at most %d prompts", path, line, MAX_PROMPTS);
    pf_prompt *items = realloc(prompts->items, (prompts->n + 1) * sizeof *items);
    if (!items) return no_memory(path, line, error);
    prompts->items = items;
    prompts->items[prompts->n++] = *prompt;
    return PF_OK;
}

static const char SPACES[] = " \t\r\n";

/* Whether the text is one JSON array, unlike lines that begin with a bracket such as "[INST]". */
static bool is_array(const char *text)
{
    const char *first = text + strspn(text, SPACES);
    if (*first != '[') return false;
    size_t n = strlen(first);
    while (strchr(SPACES, first[n - 1])) n--;
    const char inner = first[1 + strspn(first + 1, SPACES)];
    return first[n - 1] == ']' && (inner == '{' || inner == '[' || inner == '"');
}

static pf_status read_lines(const char *text, const char *path, size_t limit, pf_prompts *out, pf_error *error)
{
    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0) text += 3; /* a byte order mark */
    if (is_array(text))
        return pf_fail(error, PF_FORMAT,
                       "%s: is a JSON array, expected an object with \"turns\" on each line, or a text on each", path);
    const bool is_jsonl = text[strspn(text, SPACES)] == '{';
    size_t line = 0;
    for (const char *at = text; *at && out->n < limit;) {
        const size_t n_line = strcspn(at, "\n");
        size_t n_bytes = n_line;
        while (n_bytes > 0 && strchr(SPACES, at[n_bytes - 1])) n_bytes--;
        line++;
        if (n_bytes > 0) {
            pf_prompt prompt = { 0 };
            pf_status status = (is_jsonl ? parse_object : take_line)(at, n_bytes, path, line, &prompt, error);
            prompt.line = line;
            if (status == PF_OK) status = append(out, &prompt, path, line, error);
            if (status != PF_OK) {
                clear_prompt(&prompt);
                return status;
            }
        }
        at += n_line + (at[n_line] == '\n');
    }
    return out->n > 0 ? PF_OK : pf_fail(error, PF_INVALID, "%s: there is no prompt in it", path);
}

pf_status pf_prompts_parse(const char *path, const char *text, size_t n_bytes, size_t limit, pf_prompts *out,
                           pf_error *error)
{
    if (strlen(text) != n_bytes)
        return pf_fail(error, PF_FORMAT, "%s: byte %zu is NUL, expected text", path, strlen(text));
    pf_prompts prompts = { 0 };
    const pf_status status = read_lines(text, path, limit, &prompts, error);
    if (status != PF_OK)
        pf_prompts_clear(&prompts);
    else
        *out = prompts;
    return status;
}

static int compare_prompts(const void *a, const void *b)
{
    const pf_prompt *p = *(const pf_prompt *const *)a, *q = *(const pf_prompt *const *)b;
    int order = strcmp(p->category, q->category);
    for (size_t i = 0; order == 0 && i < p->n_turns && i < q->n_turns; i++) order = strcmp(p->turns[i], q->turns[i]);
    return order != 0 ? order : (p->n_turns > q->n_turns) - (p->n_turns < q->n_turns);
}

pf_status pf_prompts_check_repeats(const char *path, const pf_prompts *prompts, pf_error *error)
{
    const pf_prompt **sorted = malloc((prompts->n + 1) * sizeof *sorted);
    if (!sorted) return pf_fail(error, PF_NOMEM, "%s: no memory to compare %zu prompts", path, prompts->n);
    for (size_t i = 0; i < prompts->n; i++) sorted[i] = &prompts->items[i];
    qsort(sorted, prompts->n, sizeof *sorted, compare_prompts);
    pf_status status = PF_OK;
    for (size_t i = 1; i < prompts->n && status == PF_OK; i++) {
        if (compare_prompts(&sorted[i - 1], &sorted[i]) != 0) continue;
        const size_t a = sorted[i - 1]->line, b = sorted[i]->line, first = a < b ? a : b;
        status = pf_fail(error, PF_INVALID,
                         "%s: the prompt of line %zu repeats line %zu, expected each once: a repeated one inflates "
                         "acceptance",
                         path, a + b - first, first);
    }
    free(sorted);
    return status;
}
