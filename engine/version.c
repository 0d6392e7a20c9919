/* The library's version and what it was built with. */
#include <string.h>

#include "base/openmp.h"
#include "include/pilotfish.h"
#include "verify/cuda/cuda_backend.h"

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

const char *pf_version(void)
{
    return TEXT(PF_API_VERSION_MAJOR) "." TEXT(PF_API_VERSION_MINOR) "." TEXT(PF_API_VERSION_PATCH);
}

bool pf_has_feature(const char *name)
{
#ifdef PF_HAS_ONEDNN
    if (strcmp(name, "onednn") == 0) return true;
#endif
    if (strcmp(name, "cuda") == 0) return pf_cuda_is_built();
    pf_openmp openmp;
    return strcmp(name, "openmp") == 0 && pf_openmp_find(&openmp, NULL) == PF_OK;
}
