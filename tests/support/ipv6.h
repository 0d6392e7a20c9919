/* Whether this machine has IPv6: tests of it are left out where it does not. */
#ifndef PF_TESTS_IPV6_H
#define PF_TESTS_IPV6_H

#include <stdbool.h>

bool loopback_has_ipv6(void);

#endif
