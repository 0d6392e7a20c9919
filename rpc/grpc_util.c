#include "rpc/grpc_util.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"

/* Two epoll sets with a wakeup descriptor each, and at times one more: gRPC aborts where it cannot have one. With four
 * free it did so in one or two of a hundred starts, with five in none of 1,500. */
enum { FIRST_DESCRIPTORS = 6 };

static pf_status check_descriptors(pf_error *error)
{
    int held[FIRST_DESCRIPTORS], n = 0, reason = 0;
    while (n < FIRST_DESCRIPTORS && (held[n] = eventfd(0, EFD_CLOEXEC)) >= 0) n++;
    if (n < FIRST_DESCRIPTORS) reason = errno;
    for (int i = 0; i < n; i++) close(held[i]);
    if (n == FIRST_DESCRIPTORS) return PF_OK;
    return pf_fail(error, PF_NOMEM, "gRPC needs %d descriptors to begin with, and %d are to be had: %s",
                   FIRST_DESCRIPTORS, n, strerror(reason));
}

/* gRPC starts six threads, and waits for ever at its end for one that could not be started; under load it starts more. */
enum { FIRST_THREADS = 12 };

static void *wait_for_all(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

static pf_status check_threads(pf_error *error)
{
    pthread_t held[FIRST_THREADS];
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    int n = 0, reason = 0;
    pthread_mutex_lock(&gate);
    while (n < FIRST_THREADS && (reason = pthread_create(&held[n], NULL, wait_for_all, &gate)) == 0) n++;
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < n; i++) pthread_join(held[i], NULL);
    pthread_mutex_destroy(&gate);
    if (n == FIRST_THREADS) return PF_OK;
    return pf_fail(error, PF_NOMEM, "gRPC needs %d threads, and %d are to be had: %s", FIRST_THREADS, n,
                   strerror(reason));
}

/* absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore), by the mangled name that the build found.
 * Without that function, or with another version's in its place, deadlock detection stays on. */
static void end_lock_debugging(void)
{
    enum { ON_DEADLOCK_CYCLE_IGNORE = 0 };
    union {
        void *symbol;
        void (*set_mode)(int mode);
    } abseil = { .symbol = dlsym(RTLD_DEFAULT, PF_ABSEIL_DEADLOCK_MODE) };
    if (abseil.symbol != NULL) abseil.set_mode(ON_DEADLOCK_CYCLE_IGNORE);
}

pf_status pf_grpc_begin(pf_error *error)
{
    PF_TRY(check_descriptors(error));
    PF_TRY(check_threads(error));
    setenv("GRPC_VERBOSITY", "NONE", 0); /* libraries never print; a user that sets it wants to see */
    end_lock_debugging();
    grpc_init();
    return PF_OK;
}

gpr_timespec pf_grpc_deadline(uint64_t deadline_ns)
{
    const uint64_t now = pf_now_ns();
    const uint64_t left = deadline_ns > now ? deadline_ns - now : 0;
    if (left > INT64_MAX) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos((int64_t)left, GPR_TIMESPAN));
}

grpc_arg pf_grpc_int_arg(const char *key, int value)
{
    union {
        const char *in;
        char *out;
    } name = { .in = key }; /* gRPC copies it */
    return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = name.out, .value.integer = value };
}

grpc_resource_quota *pf_grpc_quota(size_t n_bytes)
{
    grpc_resource_quota *quota = grpc_resource_quota_create("pilotfish");
    grpc_resource_quota_resize(quota, n_bytes);
    return quota;
}

grpc_arg pf_grpc_quota_arg(grpc_resource_quota *quota)
{
    return (grpc_arg){ .type = GRPC_ARG_POINTER,
                       .key = GRPC_ARG_RESOURCE_QUOTA,
                       .value.pointer = { .p = quota, .vtable = grpc_resource_quota_arg_vtable() } };
}

bool pf_grpc_slice_is(grpc_slice slice, const char *text)
{
    const size_t n = strlen(text);
    return GRPC_SLICE_LENGTH(slice) == n && memcmp(GRPC_SLICE_START_PTR(slice), text, n) == 0;
}

/* A byte buffer takes its own reference. */
static grpc_byte_buffer *wrap(grpc_slice slice)
{
    grpc_byte_buffer *buffer = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return buffer;
}

grpc_byte_buffer *pf_grpc_encode(pf_codec *codec, const pf_batch *batch)
{
    size_t n;
    if (pf_codec_measure_batch(codec, batch, &n) != PF_OK) return NULL;
    grpc_slice slice = grpc_slice_malloc(n);
    pf_codec_pack_batch(codec, GRPC_SLICE_START_PTR(slice));
    return wrap(slice);
}

grpc_byte_buffer *pf_grpc_copy(const uint8_t *bytes, size_t n_bytes)
{
    return wrap(grpc_slice_from_copied_buffer((const char *)bytes, n_bytes));
}

pf_status pf_grpc_bytes(grpc_byte_buffer *buffer, grpc_slice *hold, pf_error *error)
{
    if (buffer->type != GRPC_BB_RAW || buffer->data.raw.compression != GRPC_COMPRESS_NONE)
        return pf_fail(error, PF_FORMAT, "a compressed message, expected a plain one");
    if (buffer->data.raw.slice_buffer.count == 1) { /* as it came: no copy */
        *hold = grpc_slice_ref(buffer->data.raw.slice_buffer.slices[0]);
        return PF_OK;
    }
    grpc_byte_buffer_reader reader;
    if (!grpc_byte_buffer_reader_init(&reader, buffer))
        return pf_fail(error, PF_FORMAT, "a message that cannot be read");
    *hold = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
    return PF_OK;
}
