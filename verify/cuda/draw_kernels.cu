/*
 * Draws tokens from rows of logits: the distribution as pf_sampling_distribution defines it, then the exponential race or speculative
 * sampling. A block has a row.
 *
 * Floats of the distribution take the steps of the CPU. Masses are whole multiples of 2^-62, so that a sum does not depend on its
 * order; sums of weights are in double, in a fixed order.
 */
#include "kernels/sample/noise.h"
#include "verify/cuda/cuda_kernel.cuh"

namespace {

enum { D_BLOCK = 512, D_WARPS = D_BLOCK / PF_WARP, DIGIT_BITS = 8, BINS = 1 << DIGIT_BITS, PLACES = 4 };

typedef unsigned long long mass;

/* Shared memory of a block. */
struct room {
    double *sums;     /* [D_WARPS] */
    mass *masses;     /* [D_WARPS] */
    mass *bins;       /* [BINS] of masses, and of counts */
    mass *found;      /* [3] what one thread tells the others */
    double *declared; /* [2][PF_CUDA_MAX_ENTRIES + 1] of each entry: the residual, and p */
};

/* ---- sums of a block -------------------------------------------------------------------------------------------- */

struct adds {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a + b; }
};
struct takes_larger {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return a < b ? b : a; }
};
struct takes_smaller {
    template <class T> __device__ __forceinline__ T operator()(T a, T b) const { return b < a ? b : a; }
};

/* Of all threads, for all of them, in one order. Every thread calls it. partial [D_WARPS]. */
template <class T, class F> __device__ __forceinline__ T join_block(T x, T *partial, F join)
{
    for (int d = PF_WARP / 2; d > 0; d /= 2) x = join(x, __shfl_xor_sync(PF_ALL_LANES, x, d));
    __syncthreads(); /* partial is free */
    if (threadIdx.x % PF_WARP == 0) partial[threadIdx.x / PF_WARP] = x;
    __syncthreads(); /* partial is whole */
    T all = partial[0];
    for (int i = 1; i < D_WARPS; i++) all = join(all, partial[i]);
    return all;
}

/* ---- softmax ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ float power_of_two(unsigned n)
{
    return __uint_as_float((n + 127u) << 23);
}

/* The steps of pf_exp (kernels/vec/exp.h): the same bits. */
__device__ __forceinline__ float exp_of(float x)
{
    x = 89.0f < x ? 89.0f : x;
    x = -104.0f > x ? -104.0f : x;
    const float shifted = fmaf(x, 0x1.715476p+0f, 0x1.8p+23f), n = shifted - 0x1.8p+23f;
    float r = fmaf(n, -0x1.62e4p-1f, x);
    r = fmaf(n, -0x1.7f7d1cp-20f, r);
    float p = fmaf(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = fmaf(p, r, 8.3334519073e-3f);
    p = fmaf(p, r, 4.1665795894e-2f);
    p = fmaf(p, r, 1.6666665459e-1f);
    p = fmaf(p, r, 5.0000001201e-1f);
    p = fmaf(p, r * r, r) + 1.0f;
    const int whole = static_cast<int>(__float_as_uint(shifted) - 0x4B400000u), half = whole >> 1;
    return p * power_of_two(static_cast<unsigned>(half)) *
           power_of_two(static_cast<unsigned>(whole) - static_cast<unsigned>(half));
}

/* False: no logit is above minus infinity. Each thread writes its own elements of p. */
__device__ __forceinline__ bool softmax(const float *logits, float *p, int n, float temperature, const room &r)
{
    float top = -INFINITY;
    for (int i = threadIdx.x; i < n; i += D_BLOCK)
        if (logits[i] > top) top = logits[i];
    top = static_cast<float>(join_block(static_cast<double>(top), r.sums, takes_larger()));
    if (top == -INFINITY) return false;

    const float scale = 1.0f / temperature;
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += D_BLOCK) {
        const float x = logits[i], weight = x > -INFINITY ? exp_of(x == top ? 0.0f : (x - top) * scale) : 0.0f;
        sum += static_cast<double>(weight);
        p[i] = weight;
    }
    sum = join_block(sum, r.sums, adds());
    const float share = static_cast<float>(1.0 / sum);
    for (int i = threadIdx.x; i < n; i += D_BLOCK) p[i] *= share;
    return true;
}

/* ---- selection -------------------------------------------------------------------------------------------------- */

/* Of x above minus infinity, and no NaN: in the order of floats, -0 as 0. */
__device__ __forceinline__ unsigned key_of(float x)
{
    const unsigned bits = __float_as_uint(x + 0.0f);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct all_logits {
    const float *logits;
    __device__ __forceinline__ bool has(int i) const { return logits[i] > -INFINITY; }
    __device__ __forceinline__ unsigned key(int i) const { return key_of(logits[i]); }
};

/* Those of one probability. */
struct equal_weights {
    const float *logits, *p;
    float weight;
    __device__ __forceinline__ bool has(int i) const { return p[i] == weight; }
    __device__ __forceinline__ unsigned key(int i) const { return key_of(logits[i]); }
};

/* Of these the ones of one logit, the lowest ids first. */
struct equal_logits {
    equal_weights of;
    unsigned logit;
    __device__ __forceinline__ bool has(int i) const { return of.has(i) && of.key(i) == logit; }
    __device__ __forceinline__ unsigned key(int i) const { return ~static_cast<unsigned>(i); }
};

struct selected {
    bool is_there;  /* else there are fewer than k */
    unsigned key;   /* the k-th largest */
    int n_of_equal; /* how many of its equals are among the k */
};

/* One thread: the digit at which k are reached from the top. */
__device__ __forceinline__ void find_digit_by_count(const room &r, mass k)
{
    int digit = BINS - 1;
    for (; digit > 0 && r.bins[digit] < k; digit--) k -= r.bins[digit];
    r.found[0] = static_cast<mass>(digit);
    r.found[1] = k;
    r.found[2] = r.bins[digit] >= k;
}

__device__ __forceinline__ void clear_bins(const room &r)
{
    for (int b = threadIdx.x; b < BINS; b += D_BLOCK) r.bins[b] = 0;
    __syncthreads(); /* bins are empty */
}

/* The k-th largest key, by its digits: k from 1. Every thread calls it. */
template <class K> __device__ __forceinline__ selected select(const K &keys, int n, int k, const room &r)
{
    selected s = { true, 0, k };
    unsigned mask = 0;
    for (int place = 0; place < PLACES; place++) {
        const int shift = (PLACES - 1 - place) * DIGIT_BITS;
        clear_bins(r);
        for (int i = threadIdx.x; i < n; i += D_BLOCK)
            if (keys.has(i) && (keys.key(i) & mask) == s.key)
                atomicAdd(&r.bins[keys.key(i) >> shift & (BINS - 1)], static_cast<mass>(1));
        __syncthreads(); /* bins are whole */
        if (threadIdx.x == 0) find_digit_by_count(r, static_cast<mass>(s.n_of_equal));
        __syncthreads(); /* found is whole */
        s.is_there = r.found[2] != 0;
        if (!s.is_there) return s;
        s.key |= static_cast<unsigned>(r.found[0]) << shift;
        s.n_of_equal = static_cast<int>(r.found[1]);
        mask |= static_cast<unsigned>(BINS - 1) << shift;
    }
    return s;
}

/* ---- filters ---------------------------------------------------------------------------------------------------- */

__device__ __forceinline__ mass mass_of(double share)
{
    return static_cast<mass>(share * 0x1p62);
}

/* Zero for those of p whose value is below the threshold. */
__device__ __forceinline__ void keep_at_least(float *p, const float *values, int n, float threshold)
{
    for (int i = threadIdx.x; i < n; i += D_BLOCK)
        if (values[i] < threshold) p[i] = 0.0f;
}

__device__ __forceinline__ float float_of(unsigned key)
{
    return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ void keep_top_k(const float *logits, float *p, int n, int k, const room &r)
{
    const all_logits keys = { logits };
    const selected s = select(keys, n, k, r);
    if (s.is_there) keep_at_least(p, logits, n, float_of(s.key));
}

/* One thread: the digit at which the mass from the top reaches the target. found[1]: what lies above it. */
__device__ __forceinline__ void find_digit_by_mass(const room &r, double target, mass above)
{
    int last = 0;
    mass before = above;
    for (int digit = BINS - 1; digit >= 0; digit--) {
        if (r.bins[digit] == 0) continue;
        last = digit;
        above = before;
        before += r.bins[digit];
        if (static_cast<double>(before) >= target) break;
    }
    r.found[0] = static_cast<mass>(last);
    r.found[1] = above;
}

/* The least weight of the smallest set of largest weights that reaches the target, and the mass of what is larger. */
__device__ __forceinline__ float find_boundary(const float *p, int n, double target, mass *above, const room &r)
{
    unsigned found = 0, mask = 0;
    *above = 0;
    for (int place = 0; place < PLACES; place++) {
        const int shift = (PLACES - 1 - place) * DIGIT_BITS;
        clear_bins(r);
        for (int i = threadIdx.x; i < n; i += D_BLOCK) {
            const unsigned bits = __float_as_uint(p[i]);
            if ((bits & mask) == found)
                atomicAdd(&r.bins[bits >> shift & (BINS - 1)], mass_of(static_cast<double>(p[i])));
        }
        __syncthreads(); /* bins are whole */
        if (threadIdx.x == 0) find_digit_by_mass(r, target, *above);
        __syncthreads(); /* found is whole */
        found |= static_cast<unsigned>(r.found[0]) << shift;
        *above = r.found[1];
        mask |= static_cast<unsigned>(BINS - 1) << shift;
    }
    return __uint_as_float(found);
}

/* Of those that weigh as much as the boundary: the k of the largest logits, of equal ones the lowest ids. */
__device__ __forceinline__ void keep_of_equals(const float *logits, float *p, int n, float boundary, int k,
                                               const room &r)
{
    const equal_weights weights = { logits, p, boundary };
    const selected by_logit = select(weights, n, k, r);
    const equal_logits ids = { weights, by_logit.key };
    const selected by_id = select(ids, n, by_logit.n_of_equal, r);
    const int last = static_cast<int>(~by_id.key);
    for (int i = threadIdx.x; i < n; i += D_BLOCK) {
        if (p[i] != boundary) continue;
        const unsigned key = key_of(logits[i]);
        if (key < by_logit.key || (key == by_logit.key && i > last)) p[i] = 0.0f;
    }
}

__device__ __forceinline__ void keep_top_p(const float *logits, float *p, int n, float top_p, const room &r)
{
    mass all = 0, above;
    for (int i = threadIdx.x; i < n; i += D_BLOCK) all += mass_of(static_cast<double>(p[i]));
    all = join_block(all, r.masses, adds());
    const double target = static_cast<double>(top_p) * static_cast<double>(all);
    const float boundary = find_boundary(p, n, target, &above, r);
    keep_at_least(p, p, n, boundary);

    mass n_equal = 0;
    for (int i = threadIdx.x; i < n; i += D_BLOCK) n_equal += p[i] == boundary;
    n_equal = join_block(n_equal, r.masses, adds());
    const double one = static_cast<double>(mass_of(static_cast<double>(boundary)));
    const double wanted = ceil((target - static_cast<double>(above)) / one);
    if (wanted < static_cast<double>(n_equal))
        keep_of_equals(logits, p, n, boundary, wanted < 1.0 ? 1 : static_cast<int>(wanted), r);
}

__device__ __forceinline__ void keep_min_p(float *p, int n, float min_p, const room &r)
{
    double best = 0.0;
    for (int i = threadIdx.x; i < n; i += D_BLOCK)
        if (p[i] > best) best = static_cast<double>(p[i]);
    best = join_block(best, r.sums, takes_larger());
    keep_at_least(p, p, n, min_p * static_cast<float>(best));
}

/* The distribution of a row; false: it holds no number. Threads write other elements than their own behind a barrier alone. */
__device__ __forceinline__ bool make_distribution(const pf_cuda_row_draw &d, const float *logits, float *p, int n,
                                                  const room &r)
{
    if (!softmax(logits, p, n, d.temperature, r)) return false;
    const bool cuts_k = d.top_k > 0 && d.top_k < n, cuts_p = d.top_p > 0.0f && d.top_p < 1.0f, cuts_min = d.min_p > 0.0f;
    if (cuts_k) keep_top_k(logits, p, n, d.top_k, r);
    if (cuts_p) keep_top_p(logits, p, n, d.top_p, r);
    if (cuts_min) keep_min_p(p, n, d.min_p, r);
    if (!cuts_k && !cuts_p && !cuts_min) return true;
    double sum = 0.0;
    for (int i = threadIdx.x; i < n; i += D_BLOCK) sum += static_cast<double>(p[i]);
    const double share = 1.0 / join_block(sum, r.sums, adds());
    for (int i = threadIdx.x; i < n; i += D_BLOCK) p[i] = static_cast<float>(static_cast<double>(p[i]) * share);
    return true;
}

/* ---- the exponential race --------------------------------------------------------------------------------------- */

/* pf_noise_block with the target's noise. */
__device__ __forceinline__ void make_noise(const pf_cuda_row_draw &d, unsigned block, unsigned refinement,
                                           unsigned out[PF_NOISE_BLOCK])
{
    unsigned c0 = block, c1 = static_cast<unsigned>(d.position), c2 = PF_NOISE_TARGET, c3 = refinement;
    unsigned k0 = d.seed_low, k1 = d.seed_high;
    for (int round = 0; round < PF_PHILOX_ROUNDS; round++, k0 += PF_PHILOX_KEY0, k1 += PF_PHILOX_KEY1) {
        const unsigned a = PF_PHILOX_MUL0 * c0, a_high = __umulhi(PF_PHILOX_MUL0, c0);
        const unsigned b = PF_PHILOX_MUL1 * c2, b_high = __umulhi(PF_PHILOX_MUL1, c2);
        c0 = b_high ^ c1 ^ k0;
        c1 = b;
        c2 = a_high ^ c3 ^ k1;
        c3 = a;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* pf_noise_open_unit. */
__device__ __forceinline__ double open_unit(const pf_cuda_row_draw &d, unsigned word, unsigned block, int i)
{
    if (word >> 16 != 0) return (static_cast<double>(word) + 0.5) * 0x1p-32;
    unsigned fine[PF_NOISE_BLOCK];
    make_noise(d, block, 1, fine);
    return static_cast<double>(word) * 0x1p-32 + (static_cast<double>(fine[i]) + 0.5) * 0x1p-64;
}

/* pf_exp_race_fn: a block of noise is one thread's. Reads elements of other threads. */
__device__ __forceinline__ int race(const pf_cuda_row_draw &d, const float *p, int n, const room &r)
{
    double best = INFINITY;
    int winner = -1;
    for (int first = static_cast<int>(threadIdx.x) * PF_NOISE_BLOCK; first < n; first += D_BLOCK * PF_NOISE_BLOCK) {
        const int n_here = min(PF_NOISE_BLOCK + 0, n - first);
        bool wanted = false;
        for (int i = 0; i < n_here; i++) wanted |= p[first + i] > 0.0f;
        if (!wanted) continue;
        unsigned words[PF_NOISE_BLOCK];
        make_noise(d, static_cast<unsigned>(first) / PF_NOISE_BLOCK, 0, words);
        for (int i = 0; i < n_here; i++) {
            const double share = static_cast<double>(p[first + i]);
            if (!(share > 0.0)) continue;
            const double v = open_unit(d, words[i], static_cast<unsigned>(first) / PF_NOISE_BLOCK, i);
            if (v >= best * share) continue; /* as on the CPU: it cannot win */
            const double time = -log1p(-v) / share;
            if (time < best) best = time, winner = first + i;
        }
    }
    const double least = join_block(best, r.sums, takes_smaller());
    const mass none = ~static_cast<mass>(0);
    const mass id = winner >= 0 && best == least ? static_cast<mass>(winner) : none;
    const mass lowest = join_block(id, r.masses, takes_smaller());
    return lowest == none ? -1 : static_cast<int>(lowest);
}

/* ---- speculative sampling --------------------------------------------------------------------------------------- */

/* What an id weighs in a draw: p, or max(0, p - q). An id that q names has -1 - j in p, j its last entry of `declared`. */
struct weights {
    const float *p;
    const double *declared; /* [] of p or of the residual */
    __device__ __forceinline__ mass operator()(int i) const
    {
        return mass_of(p[i] < 0.0f ? declared[-1 - static_cast<int>(p[i])] : static_cast<double>(p[i]));
    }
};

/* The id at which the running sum of weights passes u of its total; -1: all are 0. A warp has a stretch. */
__device__ __forceinline__ int draw_by_mass(const weights &w, int n, float u, const room &r)
{
    const int lane = threadIdx.x % PF_WARP, warp = threadIdx.x / PF_WARP;
    const int stretch = ((n + D_WARPS - 1) / D_WARPS + PF_WARP - 1) / PF_WARP * PF_WARP;
    const int begin = warp * stretch, end = min(begin + stretch, n);
    mass sum = 0;
    for (int i = begin + lane; i < end; i += PF_WARP) sum += w(i);
    for (int d = PF_WARP / 2; d > 0; d /= 2) sum += __shfl_xor_sync(PF_ALL_LANES, sum, d);
    __syncthreads(); /* masses are free */
    if (lane == 0) r.masses[warp] = sum;
    __syncthreads(); /* masses are whole */
    mass total = 0, before = 0;
    for (int i = 0; i < D_WARPS; i++) total += r.masses[i];
    if (total == 0) return -1;
    const mass threshold = static_cast<mass>(static_cast<double>(u) * static_cast<double>(total));
    int chosen = 0;
    while (chosen < D_WARPS - 1 && before + r.masses[chosen] <= threshold) before += r.masses[chosen++];
    if (warp == chosen) {
        for (int tile = begin;; tile += PF_WARP) {
            mass running = tile + lane < end ? w(tile + lane) : 0;
            for (int d = 1; d < PF_WARP; d *= 2) {
                const mass lower = __shfl_up_sync(PF_ALL_LANES, running, d);
                if (lane >= d) running += lower;
            }
            const unsigned passed = __ballot_sync(PF_ALL_LANES, before + running > threshold);
            if (lane == 0 && passed) r.found[0] = static_cast<mass>(tile + __ffs(static_cast<int>(passed)) - 1);
            if (passed || tile + PF_WARP >= end) break;
            before += __shfl_sync(PF_ALL_LANES, running, PF_WARP - 1);
        }
    }
    __syncthreads(); /* found is whole */
    return static_cast<int>(r.found[0]);
}

/* One thread: whether the draft token is kept; else ids that q names are marked. */
__device__ __forceinline__ bool keep_token(const pf_cuda_row_draw &d, const pf_cuda_entry *entries, float *p,
                                           const room &r)
{
    float q = d.n_entries > 0 ? 0.0f : 1.0f;
    for (int j = 0; j < d.n_entries; j++)
        if (entries[j].id == d.token) q = entries[j].q;
    if (q > 0.0f && d.keep * q < p[d.token]) return true;
    const pf_cuda_entry one_hot = { d.token, INFINITY };
    const int n = d.n_entries > 0 ? d.n_entries : 1;
    double *residual = r.declared, *original = r.declared + PF_CUDA_MAX_ENTRIES + 1;
    for (int j = 0; j < n; j++) {
        const pf_cuda_entry entry = d.n_entries > 0 ? entries[j] : one_hot;
        const float marked = p[entry.id];
        const double own = marked < 0.0f ? original[-1 - static_cast<int>(marked)] : static_cast<double>(marked);
        const double other = static_cast<double>(entry.q);
        original[j] = own;
        residual[j] = own > other ? own - other : 0.0;
        p[entry.id] = static_cast<float>(-1 - j);
    }
    return false;
}

/* pf_accept_rejection's decision of a row. */
__device__ __forceinline__ void judge(const pf_cuda_row_draw &d, const pf_cuda_entry *entries, float *p, int n,
                                      const room &r, int *token, int *is_kept)
{
    const weights residual = { p, r.declared }, whole = { p, r.declared + PF_CUDA_MAX_ENTRIES + 1 };
    *is_kept = 0;
    if (d.token >= 0) {
        if (threadIdx.x == 0) r.found[1] = keep_token(d, entries, p, r);
        __syncthreads(); /* found, declared and marks are whole */
        *is_kept = r.found[1] != 0;
        *token = -1;
        if (*is_kept) return;
        *token = draw_by_mass(residual, n, d.next, r);
        if (*token >= 0) return;
    }
    *token = draw_by_mass(whole, n, d.next, r);
}

__global__ void __launch_bounds__(D_BLOCK) draw_rows(pf_cuda_drawing c)
{
    PF_SHARED(double, sums, [D_WARPS]);
    PF_SHARED(mass, masses, [D_WARPS]);
    PF_SHARED(mass, bins, [BINS]);
    PF_SHARED(mass, found, [3]);
    PF_SHARED(double, declared, [2 * (PF_CUDA_MAX_ENTRIES + 1)]);
    const int row = blockIdx.x;
    const pf_cuda_row_draw d = c.draws[row];
    if (d.kind == PF_CUDA_DRAW_NONE) return;
    const room r = { sums, masses, bins, found, declared };
    const size_t at = static_cast<size_t>(row) * c.n_vocab;
    float *p = c.p + at;
    int token = -1, is_kept = 0;
    if (make_distribution(d, c.logits + at, p, c.n_vocab, r)) {
        __syncthreads(); /* p is whole */
        if (d.kind == PF_CUDA_DRAW_RACE)
            token = race(d, p, c.n_vocab, r);
        else
            judge(d, c.entries + d.first_entry, p, c.n_vocab, r, &token, &is_kept);
    }
    if (threadIdx.x != 0) return;
    c.tokens[row] = token;
    c.kept[row] = is_kept;
}

} // namespace

extern "C" cudaError_t pf_cuda_launch_draw(const pf_cuda_drawing *drawing, int32_t n_rows, cudaStream_t stream)
{
    PF_LAUNCH(draw_rows, dim3(n_rows), dim3(D_BLOCK), 0, stream, *drawing);
    return cudaGetLastError();
}
