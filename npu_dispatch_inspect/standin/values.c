/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who moves data when values are computed on the CPU (standin.load(values="cpu")).
 *
 * An operator's result is then written when torch_npu's kernel has returned, while the
 * task that the kernel queued may run much later. A copy or fill that such a task did
 * would overwrite what later operators have written meanwhile. So the threads that run
 * the queue move nothing: the result is there already.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static atomic_int computed_elsewhere;

NDI_EXPORT void ndi_compute_elsewhere(int on)
{
    atomic_store(&computed_elsewhere, on);
}

int ndi_values_are_computed(void)
{
    return atomic_load(&computed_elsewhere);
}

/* torch_npu names the threads that run its queue. */
static int is_queue_thread(void)
{
    static _Thread_local int known; /* 0: not asked yet */
    if (!known) {
        char name[16] = "";
        pthread_getname_np(pthread_self(), name, sizeof name);
        known = strcmp(name, "acl_thread") == 0 ? 1 : -1;
    }
    return known > 0;
}

int ndi_leaves_memory(void)
{
    return ndi_values_are_computed() && is_queue_thread();
}
