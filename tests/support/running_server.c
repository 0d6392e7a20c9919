#include "tests/support/running_server.h"

#include <stdlib.h>
#include <unistd.h>

#include "tests/support/test.h"

char serving_path[64], serving_address[64];
int serving_port;
static char directory[] = "/tmp/pf-rpc-XXXXXX";

static void *run(void *arg)
{
    running_server *s = arg;
    s->run_status = pf_server_run(s->server, NULL, &s->run_error);
    return NULL;
}

void serving_create(running_server *s, const pf_server_config *config)
{
    pf_error error;
    assert_ok(pf_server_create(config, &s->server, &error), error);
}

void serving_run(running_server *s)
{
    s->run_error = (pf_error){ .text = "" };
    assert_int_equal(pthread_create(&s->thread, NULL, run, s), 0);
}

void serving_begin(running_server *s, const pf_server_config *config)
{
    serving_create(s, config);
    serving_run(s);
}

void serving_end(running_server *s)
{
    pf_server_stop(s->server);
    pthread_join(s->thread, NULL);
    assert_int_equal(s->run_status, PF_OK);
    pf_server_destroy(s->server);
}

int serving_make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory)) return -1;
    snprintf(serving_path, sizeof serving_path, "%s/s", directory);
    snprintf(serving_address, sizeof serving_address, "unix:%s", serving_path);
    return 0;
}

int serving_remove_directory(void **state)
{
    (void)state;
    (void)unlink(serving_path);
    return rmdir(directory);
}
