#include "model/config/load_policy.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/file.h"

pf_status pf_load_warn(const pf_load_policy *policy, pf_error *error, const char *format, ...)
{
    static const pf_load_policy none = { 0 };
    if (policy == NULL) policy = &none;
    char text[PF_FILE_PATH_BYTES + 512];
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n < 0) text[0] = '\0';
    if (policy->strict) return pf_fail(error, PF_UNSUPPORTED, "%s; a strict load refuses this", text);
    if (policy->warn == NULL) return PF_OK;
    pf_error sentence;
    pf_error_set(&sentence, PF_UNSUPPORTED, "%s", text); /* printable, and no longer than a sentence may be */
    policy->warn(policy->warn_user, sentence.text);
    return PF_OK;
}
