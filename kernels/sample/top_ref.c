/* The definition: a heap of the largest so far, then one more walk in order of index. */
#include "kernels/implementations.h"

/* Restore the heap (the smallest on top) below node i. */
static void sift_down(float *heap, int32_t n, int32_t i)
{
    const float moving = heap[i];
    for (int32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (!(heap[child] < moving)) break;
        heap[i] = heap[child];
    }
    heap[i] = moving;
}

int32_t pf_top_f32_ref(const float *values, int32_t n, int32_t wanted, float floor, int32_t *ids, float *top,
                       void *scratch)
{
    float *heap = scratch;
    int32_t n_heap = 0, i = 0;
    for (; i < n && n_heap < wanted; i++)
        if (values[i] > floor) heap[n_heap++] = values[i];
    for (int32_t node = n_heap / 2; node-- > 0;) sift_down(heap, n_heap, node);
    for (; i < n; i++) {
        if (!(values[i] > heap[0])) continue;
        heap[0] = values[i];
        sift_down(heap, n_heap, 0);
    }
    if (n_heap == 0) return 0;

    const float boundary = heap[0];
    int32_t n_equal = 0; /* to be taken of those at the boundary */
    for (int32_t node = 0; node < n_heap; node++) n_equal += heap[node] == boundary;
    int32_t n_taken = 0;
    for (i = 0; n_taken < n_heap; i++) {
        if (!(values[i] >= boundary)) continue;
        if (values[i] == boundary && n_equal-- <= 0) continue;
        ids[n_taken] = i;
        top[n_taken++] = values[i];
    }
    return n_taken;
}
