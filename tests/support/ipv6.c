#include "tests/support/ipv6.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

bool loopback_has_ipv6(void)
{
    const struct sockaddr_in6 name = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
    const int fd = socket(AF_INET6, SOCK_STREAM, 0);
    const bool has = fd >= 0 && bind(fd, (const struct sockaddr *)&name, sizeof name) == 0;
    if (fd >= 0) close(fd);
    return has;
}
