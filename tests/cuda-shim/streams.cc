/*
 * Streams, copies, events and graphs. A stream is a queue that runs when the host waits, and not before: a missing wait leaves
 * its results unseen, and a pinned buffer that is written too early changes what a queued copy reads. Streams that block with
 * the default stream share one queue with it.
 */
#include <cstring>
#include <deque>

#include "tests/cuda-shim/shim_state.hh"

namespace pf_shim
{
/* Operations are numbered from 1 in the order in which they are put. */
struct work_queue {
    std::deque<operation> waiting;
    uint64_t n_put = 0, n_done = 0;
};
}   // namespace pf_shim

using namespace pf_shim;

struct CUgraph_st {
    std::vector<operation> operations;
};

struct CUgraphExec_st {
    std::vector<operation> operations;
};

struct CUstream_st {
    std::shared_ptr<work_queue> queue;
    uint64_t last = 0;   // the number of the last operation of this stream
    std::unique_ptr<CUgraph_st> capture;
    cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    bool spoilt = false;
};

struct CUevent_st {
    std::shared_ptr<work_queue> queue;   // null: never recorded
    uint64_t number = 0;
    bool captured = false, timed = false;
};

namespace pf_shim
{
namespace
{
struct all_streams {
    std::shared_ptr<work_queue> shared = std::make_shared<work_queue>();
    CUstream_st default_stream;
    std::vector<cudaStream_t> created;

    all_streams() { default_stream.queue = shared; }
};

all_streams &streams()
{
    static all_streams s;
    return s;
}

bool is_live(cudaStream_t s)
{
    for (cudaStream_t c : streams().created)
        if (c == s) return true;
    return s == nullptr;
}

CUstream_st &stream_of(cudaStream_t s)
{
    return s ? *s : streams().default_stream;
}

void run_one(work_queue &q)
{
    const operation o = std::move(q.waiting.front());
    q.waiting.pop_front();
    if (state().sticky == cudaSuccess) {
        const device_memory_open open;
        o.run();
    }
    q.n_done++;
}

/* Runs a queue up to the operation of this number. */
void drain(const std::shared_ptr<work_queue> &q, uint64_t number)
{
    const device_memory_open open;   // opened once for all of them
    while (q->n_done < number && !q->waiting.empty()) run_one(*q);
}

template <class T> cudaError_t make(const api_call &call, T **out, T *made)
{
    if (call.error != cudaSuccess) {
        delete made;
        return call.error;
    }
    state().n_live++;
    *out = made;
    return cudaSuccess;
}

template <class T> cudaError_t unmake(T *what)
{
    if (what) state().n_live--;
    delete what;
    return state().sticky;
}

/* A wait: what ran may have faulted. */
cudaError_t waited(const api_call &call)
{
    return call.give(state().sticky);
}
}   // namespace

void put(cudaStream_t stream, operation o)
{
    CUstream_st &s = stream_of(stream);
    if (s.capture) {
        s.capture->operations.push_back(std::move(o));
        return;
    }
    if (o.when_queued) o.when_queued();
    s.queue->waiting.push_back(std::move(o));
    s.last = ++s.queue->n_put;
}

void drain_all()
{
    drain(streams().shared, UINT64_MAX);
    for (cudaStream_t s : streams().created) drain(s->queue, UINT64_MAX);
}

bool spoil_captures()
{
    bool any = false;
    for (cudaStream_t s : streams().created)
        if (s->capture && s->mode != cudaStreamCaptureModeRelaxed) any = s->spoilt = true;
    return any;
}
}   // namespace pf_shim

/* ---- copies ---- */

namespace
{
struct copy {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
    cudaMemcpyKind kind;

    size_t to_extent() const { return (height - 1) * to_pitch + width; }
    size_t from_extent() const { return (height - 1) * from_pitch + width; }
};

bool reads_device(cudaMemcpyKind kind)
{
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
}

bool writes_device(cudaMemcpyKind kind)
{
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
}

const char *name_of(place p)
{
    return p == place::device ? "device" : p == place::pinned ? "pinned" : "pageable";
}

/* Both ends lie in allocations, and where the direction says. */
bool is_sound(const copy &c, bool asynchronous, const char *what)
{
    const place to = locate(c.to, c.to_extent(), what), from = locate(c.from, c.from_extent(), what);
    if (c.kind != cudaMemcpyDefault &&
        ((to == place::device) != writes_device(c.kind) || (from == place::device) != reads_device(c.kind))) {
        violation("%s: direction %d, but from %s to %s memory", what, c.kind, name_of(from), name_of(to));
        return false;
    }
    if (asynchronous && (to == place::pageable || from == place::pageable))
        violation("%s: pageable memory, which makes the copy synchronous", what);
    if (to == place::device && from == place::device && c.to < c.from + c.from_extent() &&
        c.from < c.to + c.to_extent() && c.height == 1)
        violation("%s: the two ends overlap", what);
    return true;
}

void run_copy(const copy &c)
{
    const place to = locate(c.to, c.to_extent(), "a copy when it runs");
    const place from = locate(c.from, c.from_extent(), "a copy when it runs");
    if ((writes_device(c.kind) && to != place::device) || (reads_device(c.kind) && from != place::device)) {
        state().sticky = cudaErrorIllegalAddress;
        return;
    }
    for (size_t i = 0; i < c.height; i++) memmove(c.to + i * c.to_pitch, c.from + i * c.from_pitch, c.width);
}

void spoil_target(const copy &c)
{
    for (size_t i = 0; i < c.height; i++) memset(c.to + i * c.to_pitch, 0xff, c.width);
}

cudaError_t queue_copy(const api_call &call, const copy &c, bool asynchronous, const char *what, cudaStream_t stream)
{
    if (call.error != cudaSuccess) return call.error;
    if (!is_live(stream)) {
        violation("%s: the stream does not exist", what);
        return call.give(cudaErrorInvalidResourceHandle);
    }
    if (c.width == 0 || c.height == 0) return cudaSuccess;
    if (c.to_pitch < c.width || c.from_pitch < c.width) return call.give(cudaErrorInvalidValue);
    if (!is_sound(c, asynchronous, what)) return call.give(cudaErrorInvalidValue);
    operation o = { [c] { run_copy(c); }, {} };
    if (c.kind == cudaMemcpyDeviceToHost && asynchronous) o.when_queued = [c] { spoil_target(c); };
    put(stream, std::move(o));
    return cudaSuccess;
}
}   // namespace

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream)
{
    const api_call call(cudaErrorInvalidValue);
    const copy c = { static_cast<char *>(to), static_cast<const char *>(from), bytes, bytes, bytes, 1, kind };
    return queue_copy(call, c, true, "cudaMemcpyAsync", stream);
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width_bytes,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream)
{
    const api_call call(cudaErrorInvalidValue);
    const copy c = {
        static_cast<char *>(to), static_cast<const char *>(from), to_pitch, from_pitch, width_bytes, height, kind
    };
    return queue_copy(call, c, true, "cudaMemcpy2DAsync", stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    const api_call call(cudaErrorInvalidValue, during_capture::forbidden);
    const copy c = { static_cast<char *>(to), static_cast<const char *>(from), bytes, bytes, bytes, 1, kind };
    const cudaError_t e = queue_copy(call, c, false, "cudaMemcpy", nullptr);
    if (e != cudaSuccess) return e;
    drain(streams().shared, streams().default_stream.last);
    return waited(call);
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    const api_call call(cudaErrorInvalidValue);
    if (call.error != cudaSuccess) return call.error;
    if (bytes == 0) return cudaSuccess;
    if (locate(to, bytes, "cudaMemsetAsync") != place::device) {
        violation("cudaMemsetAsync: the target is not device memory: %s", describe(to).c_str());
        return call.give(cudaErrorInvalidValue);
    }
    put(stream, { [=] {
                     if (locate(to, bytes, "a memset when it runs") == place::device) memset(to, byte, bytes);
                 },
                  {} });
    return cudaSuccess;
}

cudaError_t cudaMemset(void *to, int byte, size_t bytes)
{
    return cudaMemsetAsync(to, byte, bytes, nullptr);
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    const api_call call(cudaErrorMemoryAllocation, during_capture::forbidden);
    auto *s = new CUstream_st;
    s->queue = flags & cudaStreamNonBlocking ? std::make_shared<work_queue>() : streams().shared;
    const cudaError_t e = make(call, out, s);
    if (e == cudaSuccess) streams().created.push_back(s);
    return e;
}

cudaError_t cudaStreamCreate(cudaStream_t *out)
{
    return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int)
{
    return cudaStreamCreateWithFlags(out, flags);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    if (!stream || !is_live(stream)) {
        violation("cudaStreamDestroy: the stream does not exist");
        return cudaErrorInvalidResourceHandle;
    }
    drain(stream->queue, stream->last);
    auto &created = streams().created;
    for (size_t i = 0; i < created.size(); i++)
        if (created[i] == stream) created.erase(created.begin() + static_cast<std::ptrdiff_t>(i--));
    return unmake(stream);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    const api_call call(cudaErrorIllegalAddress, during_capture::forbidden);
    if (call.error != cudaSuccess) return call.error;
    if (!is_live(stream)) return call.give(cudaErrorInvalidResourceHandle);
    drain(stream_of(stream).queue, stream_of(stream).last);
    return waited(call);
}

cudaError_t cudaDeviceSynchronize(void)
{
    const api_call call(cudaErrorIllegalAddress, during_capture::forbidden);
    if (call.error != cudaSuccess) return call.error;
    drain_all();
    return waited(call);
}

/* Clears an error that stayed, as a new context would; what is live stays, so that a test can count it. */
cudaError_t cudaDeviceReset(void)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    drain_all();
    state().sticky = cudaSuccess;
    return cudaSuccess;
}

/* Each query runs one operation, so that a loop of queries ends. */
cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    const api_call call(cudaErrorIllegalAddress, during_capture::forbidden);
    if (call.error != cudaSuccess) return call.error;
    CUstream_st &s = stream_of(stream);
    if (s.queue->n_done >= s.last) return cudaSuccess;
    drain(s.queue, s.queue->n_done + 1);
    return state().sticky != cudaSuccess ? waited(call) : cudaErrorNotReady;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    const api_call call(cudaErrorMemoryAllocation);
    if (call.error != cudaSuccess) return call.error;
    put(stream, { [=] { function(data); }, {} });
    return cudaSuccess;
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    const api_call call(cudaErrorMemoryAllocation);
    auto *e = new CUevent_st;
    e->timed = !(flags & cudaEventDisableTiming);
    return make(call, out, e);
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    return cudaEventCreateWithFlags(out, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    return unmake(event);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    const api_call call(cudaErrorInvalidResourceHandle);
    if (call.error != cudaSuccess) return call.error;
    CUstream_st &s = stream_of(stream);
    event->captured = s.capture != nullptr;
    if (event->captured) return cudaSuccess;
    put(stream, { [] {}, {} });
    event->queue = s.queue;
    event->number = s.last;
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    const api_call call(cudaErrorIllegalAddress, during_capture::forbidden);
    if (call.error != cudaSuccess) return call.error;
    if (event->captured) return call.give(cudaErrorCapturedEvent);
    if (event->queue) drain(event->queue, event->number);
    return waited(call);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    const api_call call(cudaErrorIllegalAddress, during_capture::forbidden);
    if (call.error != cudaSuccess) return call.error;
    if (event->captured) return call.give(cudaErrorCapturedEvent);
    if (!event->queue || event->queue->n_done >= event->number) return cudaSuccess;
    drain(event->queue, event->queue->n_done + 1);
    return state().sticky != cudaSuccess ? waited(call) : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
    const api_call call(cudaErrorInvalidResourceHandle);
    if (call.error != cudaSuccess) return call.error;
    if (stream_of(stream).capture || event->captured) {
        violation("cudaStreamWaitEvent: the emulation has no captures of more than one stream");
        return call.give(cudaErrorStreamCaptureUnsupported);
    }
    const auto queue = event->queue;
    const uint64_t number = event->number;
    if (queue) put(stream, { [=] { drain(queue, number); }, {} });
    return cudaSuccess;
}

/* The emulation has no time: an operation is a microsecond. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    const api_call call(cudaErrorInvalidResourceHandle);
    if (call.error != cudaSuccess) return call.error;
    if (!start->timed || !end->timed || !start->queue || !end->queue) return call.give(cudaErrorInvalidResourceHandle);
    if (end->queue->n_done < end->number) return cudaErrorNotReady;
    *ms = 1e-3f * static_cast<float>(end->number - start->number);
    return cudaSuccess;
}

/* ---- graphs ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode)
{
    const api_call call(cudaErrorStreamCaptureUnsupported);
    if (call.error != cudaSuccess) return call.error;
    if (!stream || stream->capture) return call.give(cudaErrorStreamCaptureUnsupported);
    stream->capture = std::make_unique<CUgraph_st>();
    stream->mode = mode;
    stream->spoilt = false;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    const api_call call(cudaErrorMemoryAllocation);
    *out = nullptr;
    const std::unique_ptr<CUgraph_st> graph = std::move(stream->capture);
    if (call.error != cudaSuccess) return call.error;
    if (!graph || stream->spoilt) return call.give(cudaErrorStreamCaptureInvalidated);
    state().n_live++;
    *out = new CUgraph_st(*graph);
    return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus *out)
{
    const api_call call(cudaErrorInvalidValue);
    const CUstream_st &s = stream_of(stream);
    *out = !s.capture ? cudaStreamCaptureStatusNone
           : s.spoilt ? cudaStreamCaptureStatusInvalidated
                      : cudaStreamCaptureStatusActive;
    return call.error;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long)
{
    const api_call call(cudaErrorMemoryAllocation);
    return make(call, out, new CUgraphExec_st{ graph->operations });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t)
{
    return api_call(cudaErrorMemoryAllocation).error;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
    const api_call call(cudaErrorLaunchOutOfResources);
    if (call.error != cudaSuccess) return call.error;
    for (const operation &o : exec->operations) put(stream, o);
    return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    return unmake(graph);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
    const std::lock_guard<std::recursive_mutex> guard(lock());
    return unmake(exec);
}
