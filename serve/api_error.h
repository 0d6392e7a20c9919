/* Says why a request is refused, as the API of OpenAI does: a status of HTTP, a type, the parameter, a sentence. */
#ifndef PF_SERVE_API_ERROR_H
#define PF_SERVE_API_ERROR_H

#include <jansson.h>
#include <stdint.h>

#include "base/status.h"

typedef struct {
    int32_t status;   /* of HTTP; 0: nothing was refused */
    const char *code; /* static; NULL: none */
    char param[96];   /* empty: none */
    char text[512];
} pf_api_error;

/* Fills in *error; param NULL: none. Returns false, so that a failing check reads `return pf_api_refuse(...)`. */
bool pf_api_refuse(pf_api_error *error, int32_t status, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The status of HTTP for a failure of the library. */
int32_t pf_api_status_of(pf_status status);

/* {"error": {"message", "type", "param", "code"}}; NULL: no memory. */
json_t *pf_api_error_document(const pf_api_error *error);

/* The same as Anthropic has it: {"type": "error", "error": {"type", "message"}}. */
json_t *pf_api_error_message(const pf_api_error *error);

#endif
