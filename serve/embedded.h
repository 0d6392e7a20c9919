/* Holds the files that the build turns into C: the page at /, serve/page.html, and the description of the API, serve/openapi.json. */
#ifndef PF_SERVE_EMBEDDED_H
#define PF_SERVE_EMBEDDED_H

#include <stddef.h>

extern const unsigned char pf_page[], pf_openapi[];
extern const size_t pf_page_bytes, pf_openapi_bytes;

#endif
