/* A context of this CPU as a forward backend. */
#ifndef PF_MODEL_CPU_BACKEND_H
#define PF_MODEL_CPU_BACKEND_H

#include "model/backend/forward_backend.h"
#include "model/forward/context.h"

/* The context is borrowed, and used by nothing else while the backend is. */
pf_forward_backend pf_cpu_backend(pf_context *context);

#endif
