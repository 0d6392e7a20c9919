/* Errors of the API. */
#include "serve/api_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/json_values.h"

bool pf_api_refuse(pf_api_error *error, int32_t status, const char *param, const char *format, ...)
{
    *error = (pf_api_error){ .status = status };
    if (param) strncpy(error->param, param, sizeof error->param - 1);
    va_list values;
    va_start(values, format);
    vsnprintf(error->text, sizeof error->text, format, values);
    va_end(values);
    return false;
}

int32_t pf_api_status_of(pf_status status)
{
    switch (status) {
    case PF_OK: return 200;
    case PF_INVALID:
    case PF_FORMAT:
    case PF_UNSUPPORTED: return 400;
    case PF_LIMIT:
    case PF_UNAVAILABLE:
    case PF_CANCELLED: return 503;
    case PF_NOMEM:
    case PF_INTERNAL: return 500;
    }
    return 500;
}

static const char *type_of(int32_t status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 404: return "not_found_error";
    case 413: return "request_too_large";
    case 429: return "rate_limit_error";
    case 503: return "service_unavailable_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

json_t *pf_api_error_message(const pf_api_error *error)
{
    return json_pack("{s:s, s:{s:s, s:o}}", "type", "error", "error", "type",
                     error->status == 503 ? "overloaded_error" : type_of(error->status), "message",
                     pf_json_text(error->text, strlen(error->text)));
}

json_t *pf_api_error_document(const pf_api_error *error)
{
    return json_pack("{s:{s:o, s:s, s:o, s:s?}}", "error", "message", pf_json_text(error->text, strlen(error->text)),
                     "type", type_of(error->status), "param",
                     error->param[0] ? pf_json_text(error->param, strlen(error->param)) : json_null(), "code",
                     error->code);
}
