/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, events, callbacks and graph capture.
 *
 * Nothing runs asynchronously here, so whatever is asked about is complete.
 */
#include "standin.h"

#include <stdatomic.h>
#include <stdlib.h>

struct stream {
    int32_t id;
    int capturing;
};

struct event {
    int32_t id;
};

struct graph {
    uint32_t id;
    uint64_t condition;
};

static atomic_int next_stream = 1; /* 0 is the default stream's */
static atomic_int next_event;
static atomic_uint next_graph;

/* ---- streams ---- */

NDI_EXPORT int aclrtCreateStream(void **stream)
{
    struct stream *made = calloc(1, sizeof *made);
    if (!made)
        return NDI_OUT_OF_MEMORY;
    made->id = atomic_fetch_add(&next_stream, 1);
    *stream = made;
    return NDI_OK;
}

NDI_EXPORT int aclrtCreateStreamWithConfig(void **stream, uint32_t priority, uint32_t flag)
{
    (void)priority, (void)flag;
    return aclrtCreateStream(stream);
}

NDI_EXPORT int aclrtDestroyStream(void *stream)
{
    free(stream);
    return NDI_OK;
}

NDI_EXPORT int aclrtDestroyStreamForce(void *stream)
{
    return aclrtDestroyStream(stream);
}

NDI_EXPORT int aclrtStreamQuery(void *stream, int *status)
{
    (void)stream;
    *status = 0; /* complete */
    return NDI_OK;
}

NDI_EXPORT int aclrtStreamGetId(void *stream, int32_t *id)
{
    *id = stream ? ((struct stream *)stream)->id : 0;
    return NDI_OK;
}

NDI_EXPORT int aclrtGetStreamOverflowSwitch(void *stream, uint32_t *flag)
{
    (void)stream;
    *flag = 0;
    return NDI_OK;
}

NDI_EXPORT int aclrtGetStreamResLimit(void *stream, int kind, uint32_t *value)
{
    int aclrtGetDeviceResLimit(int32_t, int, uint32_t *);
    (void)stream;
    return aclrtGetDeviceResLimit(ndi_current_device(), kind, value);
}

/* ---- events ---- */

NDI_EXPORT int aclrtCreateEventWithFlag(void **event, uint32_t flag)
{
    (void)flag;
    struct event *made = calloc(1, sizeof *made);
    if (!made)
        return NDI_OUT_OF_MEMORY;
    made->id = atomic_fetch_add(&next_event, 1);
    *event = made;
    return NDI_OK;
}

NDI_EXPORT int aclrtCreateEventExWithFlag(void **event, uint32_t flag)
{
    return aclrtCreateEventWithFlag(event, flag);
}

NDI_EXPORT int aclrtCreateEvent(void **event)
{
    return aclrtCreateEventWithFlag(event, 0);
}

NDI_EXPORT int aclrtDestroyEvent(void *event)
{
    free(event);
    return NDI_OK;
}

NDI_EXPORT int aclrtQueryEventStatus(void *event, int *status)
{
    (void)event;
    *status = 1; /* recorded: complete */
    return NDI_OK;
}

NDI_EXPORT int aclrtQueryEventWaitStatus(void *event, int *status)
{
    (void)event;
    *status = 0; /* waited for: complete */
    return NDI_OK;
}

NDI_EXPORT int aclrtQueryEvent(void *event, int *status)
{
    (void)event;
    *status = 0; /* complete */
    return NDI_OK;
}

NDI_EXPORT int aclrtEventElapsedTime(float *milliseconds, void *start, void *end)
{
    (void)start, (void)end;
    *milliseconds = 0.0f;
    return NDI_OK;
}

NDI_EXPORT int aclrtEventGetTimestamp(void *event, uint64_t *timestamp)
{
    (void)event;
    *timestamp = 0;
    return NDI_OK;
}

/* ---- functions the host is asked to run in a stream's order ---- */

NDI_EXPORT int aclrtLaunchCallback(void (*function)(void *), void *data, int block,
                                   void *stream)
{
    (void)block, (void)stream;
    function(data);
    return NDI_OK;
}

NDI_EXPORT int aclrtLaunchHostFunc(void *stream, void (*function)(void *), void *data)
{
    (void)stream;
    function(data);
    return NDI_OK;
}

/* ---- graph capture: a handle per captured graph, whose replay does nothing ---- */

enum { CAPTURE_NONE = 0, CAPTURE_ACTIVE = 1 };

NDI_EXPORT int aclmdlRICaptureBegin(void *stream, int mode)
{
    (void)mode;
    if (stream)
        ((struct stream *)stream)->capturing = 1;
    return NDI_OK;
}

NDI_EXPORT int aclmdlRICaptureGetInfo(void *stream, int *status, void **graph)
{
    int capturing = stream && ((struct stream *)stream)->capturing;
    *status = capturing ? CAPTURE_ACTIVE : CAPTURE_NONE;
    /* A stand-in for the graph under construction, which only has to be non-null. */
    *graph = capturing ? stream : NULL;
    return NDI_OK;
}

NDI_EXPORT int aclmdlRICaptureEnd(void *stream, void **graph)
{
    struct graph *made = calloc(1, sizeof *made);
    if (!made)
        return NDI_OUT_OF_MEMORY;
    made->id = atomic_fetch_add(&next_graph, 1);
    if (stream)
        ((struct stream *)stream)->capturing = 0;
    *graph = made;
    return NDI_OK;
}

NDI_EXPORT int aclmdlRIDestroy(void *graph)
{
    free(graph);
    return NDI_OK;
}

NDI_EXPORT int aclmdlRICaptureThreadExchangeMode(int *mode)
{
    *mode = 0;
    return NDI_OK;
}

NDI_EXPORT int aclmdlRICaptureTaskGrpEnd(void *stream, void **group)
{
    *group = stream;
    return NDI_OK;
}
