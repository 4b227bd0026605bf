/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Streams, events, callbacks and graph capture.
 *
 * Nothing runs asynchronously here, so whatever is asked about is complete.
 */
#include "standin.h"

#include <stdatomic.h>
#include <stdlib.h>

struct graph {
    uint32_t id;
};

struct stream {
    int32_t id;
    struct graph *capturing;
};

struct event {
    int32_t id;
};

/* The first stream torch_npu makes on a device is the one it uses by default. */
static atomic_int next_stream;
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

NDI_EXPORT int aclmdlRICaptureBegin(void *handle, int mode)
{
    (void)mode;
    struct stream *stream = handle;
    struct graph *graph = calloc(1, sizeof *graph);
    if (!stream || !graph) {
        free(graph);
        return NDI_INVALID_PARAM;
    }
    graph->id = atomic_fetch_add(&next_graph, 1);
    stream->capturing = graph;
    return NDI_OK;
}

NDI_EXPORT int aclmdlRICaptureGetInfo(void *handle, int *status, void **graph)
{
    struct stream *stream = handle;
    struct graph *capturing = stream ? stream->capturing : NULL;
    *status = capturing ? CAPTURE_ACTIVE : CAPTURE_NONE;
    if (graph)
        *graph = capturing;
    return NDI_OK;
}

NDI_EXPORT int aclmdlRICaptureEnd(void *handle, void **graph)
{
    struct stream *stream = handle;
    if (!stream || !stream->capturing)
        return NDI_INVALID_PARAM;
    *graph = stream->capturing;
    stream->capturing = NULL;
    return NDI_OK;
}

NDI_EXPORT int aclmdlRIGetId(void *graph, uint32_t *id)
{
    *id = ((struct graph *)graph)->id;
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
