/* Holds the page at /: serve/page.html, which the build turns into C. */
#ifndef PF_SERVE_PAGE_H
#define PF_SERVE_PAGE_H

#include <stddef.h>

extern const unsigned char pf_page[];
extern const size_t pf_page_bytes;

#endif
