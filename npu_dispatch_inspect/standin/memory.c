/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: what the device would hold is host memory, so copies carry real data.
 *
 * Blocks come from anonymous mmap, hence zero-filled and only backed by real pages
 * once touched: torch_npu may reserve gigabytes of "device" memory on a small host.
 */
#include "standin.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Where an address lies, in the numbers of aclrtMemLocationType. */
enum place { HOST = 0, DEVICE = 1, UNKNOWN = 2 };

enum origin { MAPPED, REGISTERED, PHYSICAL };

struct block {
    struct block *next;
    char *start;
    size_t size;
    enum place place;
    enum origin origin;
};

/* Few and far between: torch_npu's own allocators hand out parts of large blocks. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;
static size_t device_bytes;

/* The link to the block this address begins, or to NULL. Call it with the lock. */
static struct block **link_of(const void *start)
{
    struct block **link = &blocks;
    while (*link && (*link)->start != start)
        link = &(*link)->next;
    return link;
}

static int add_block(struct block **out, size_t size, enum place place, enum origin origin)
{
    struct block *block = calloc(1, sizeof *block);
    if (!block)
        return NDI_OUT_OF_MEMORY;
    block->size = size;
    block->place = place;
    block->origin = origin;
    pthread_mutex_lock(&lock);
    int fits = place != DEVICE || size <= ndi_model.memory_bytes - device_bytes;
    if (fits) {
        if (place == DEVICE)
            device_bytes += size;
        block->next = blocks;
        blocks = block;
    }
    pthread_mutex_unlock(&lock);
    if (!fits) {
        ndi_set_error("the stand-in's device memory of %zu bytes has no %zu bytes left",
                      ndi_model.memory_bytes, size);
        free(block);
        return NDI_OUT_OF_MEMORY;
    }
    *out = block;
    return NDI_OK;
}

static int remove_block(const void *start)
{
    pthread_mutex_lock(&lock);
    struct block **link = link_of(start);
    struct block *block = *link;
    if (block) {
        *link = block->next;
        if (block->place == DEVICE)
            device_bytes -= block->size;
    }
    pthread_mutex_unlock(&lock);
    if (!block)
        return NDI_INVALID_PARAM;
    if (block->origin == MAPPED)
        munmap(block->start, block->size ? block->size : 1);
    free(block);
    return NDI_OK;
}

static int allocate(void **out, size_t size, enum place place)
{
    *out = NULL;
    void *start = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED) {
        ndi_set_error("the host refused %zu bytes for the stand-in's memory", size);
        return NDI_OUT_OF_MEMORY;
    }
    struct block *block;
    int status = add_block(&block, size, place, MAPPED);
    if (status != NDI_OK) {
        munmap(start, size ? size : 1);
        return status;
    }
    block->start = start;
    *out = start;
    return NDI_OK;
}

static int release(void *start)
{
    return start ? remove_block(start) : NDI_OK;
}

/* ---- device memory ---- */

NDI_EXPORT int aclrtMalloc(void **block, size_t size, int policy)
{
    (void)policy;
    return allocate(block, size, DEVICE);
}

NDI_EXPORT int aclrtMallocAlign32(void **block, size_t size, int policy)
{
    (void)policy;
    return allocate(block, size, DEVICE);
}

NDI_EXPORT int aclrtMallocCached(void **block, size_t size, int policy)
{
    (void)policy;
    return allocate(block, size, DEVICE);
}

NDI_EXPORT int aclrtMallocWithCfg(void **block, size_t size, int policy, void *config)
{
    (void)policy, (void)config;
    return allocate(block, size, DEVICE);
}

NDI_EXPORT int aclrtFree(void *block)
{
    return release(block);
}

NDI_EXPORT int aclrtGetMemInfo(int attribute, size_t *free_bytes, size_t *total)
{
    (void)attribute;
    pthread_mutex_lock(&lock);
    *total = ndi_model.memory_bytes;
    *free_bytes = *total - device_bytes;
    pthread_mutex_unlock(&lock);
    return NDI_OK;
}

NDI_EXPORT int aclrtGetMemUsageInfo(int32_t device, void *usage, size_t room, size_t *given)
{
    (void)device, (void)usage, (void)room;
    *given = 0;
    return NDI_OK;
}

NDI_EXPORT int aclrtGetMemUceInfo(int32_t device, void *errors, size_t room, size_t *given)
{
    (void)device, (void)errors, (void)room;
    *given = 0; /* uncorrectable memory errors: none */
    return NDI_OK;
}

/* ---- host memory ---- */

NDI_EXPORT int aclrtMallocHost(void **block, size_t size)
{
    return allocate(block, size, HOST);
}

NDI_EXPORT int aclrtMallocHostWithCfg(void **block, uint64_t size, void *config)
{
    (void)config;
    return allocate(block, size, HOST);
}

NDI_EXPORT int aclrtFreeHost(void *block)
{
    return release(block);
}

static int register_host(void *start, size_t size)
{
    struct block *block;
    int status = add_block(&block, size, HOST, REGISTERED);
    if (status == NDI_OK)
        block->start = start;
    return status;
}

NDI_EXPORT int aclrtHostRegister(void *host, uint64_t size, int kind, void **device)
{
    (void)kind;
    *device = host;
    return register_host(host, size);
}

NDI_EXPORT int aclrtHostRegisterV2(void *host, uint64_t size, uint32_t flags)
{
    (void)flags;
    return register_host(host, size);
}

NDI_EXPORT int aclrtHostUnregister(void *host)
{
    return remove_block(host);
}

NDI_EXPORT int aclrtPointerGetAttributes(const void *pointer, uint32_t *attributes)
{
    /* aclrtPtrAttributes: location id, location type, page size, four reserved */
    memset(attributes, 0, 7 * sizeof *attributes);
    attributes[1] = UNKNOWN;
    attributes[2] = 4096;
    pthread_mutex_lock(&lock);
    for (const struct block *block = blocks; block; block = block->next)
        if ((const char *)pointer >= block->start &&
            (const char *)pointer < block->start + block->size)
            attributes[1] = block->place == HOST ? HOST : DEVICE;
    pthread_mutex_unlock(&lock);
    return NDI_OK;
}

/* ---- copies ---- */

static int copy(void *to, size_t room, const void *from, size_t count)
{
    if (count > room) {
        ndi_set_error("a copy of %zu bytes into a block of %zu", count, room);
        return NDI_INVALID_PARAM;
    }
    if (count)
        memmove(to, from, count);
    return NDI_OK;
}

NDI_EXPORT int aclrtMemcpy(void *to, size_t room, const void *from, size_t count, int kind)
{
    (void)kind;
    return copy(to, room, from, count);
}

NDI_EXPORT int aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t count,
                                int kind, void *stream)
{
    (void)kind, (void)stream;
    return ndi_leaves_memory() ? NDI_OK : copy(to, room, from, count);
}

NDI_EXPORT int aclrtMemcpyAsyncWithCondition(void *to, size_t room, const void *from,
                                             size_t count, int kind, void *stream)
{
    return aclrtMemcpyAsync(to, room, from, count, kind, stream);
}

static int copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                     size_t width, size_t height)
{
    if (width > to_pitch || width > from_pitch)
        return NDI_INVALID_PARAM;
    for (size_t row = 0; row < height; row++)
        memmove((char *)to + row * to_pitch, (const char *)from + row * from_pitch, width);
    return NDI_OK;
}

NDI_EXPORT int aclrtMemcpy2d(void *to, size_t to_pitch, const void *from,
                             size_t from_pitch, size_t width, size_t height, int kind)
{
    (void)kind;
    return copy_rows(to, to_pitch, from, from_pitch, width, height);
}

NDI_EXPORT int aclrtMemcpy2dAsync(void *to, size_t to_pitch, const void *from,
                                  size_t from_pitch, size_t width, size_t height, int kind,
                                  void *stream)
{
    (void)kind, (void)stream;
    if (ndi_leaves_memory())
        return NDI_OK;
    return copy_rows(to, to_pitch, from, from_pitch, width, height);
}

NDI_EXPORT int aclrtMemcpyBatch(void **to, size_t *room, void **from, size_t *sizes,
                                size_t count, void *attributes, size_t *indexes,
                                size_t attribute_count, size_t *failed)
{
    (void)attributes, (void)indexes, (void)attribute_count;
    for (size_t i = 0; i < count; i++) {
        int status = copy(to[i], room[i], from[i], sizes[i]);
        if (status != NDI_OK) {
            if (failed)
                *failed = i;
            return status;
        }
    }
    return NDI_OK;
}

NDI_EXPORT int aclrtMemcpyBatchAsync(void **to, size_t *room, void **from, size_t *sizes,
                                     size_t count, void *attributes, size_t *indexes,
                                     size_t attribute_count, size_t *failed, void *stream)
{
    (void)stream;
    if (ndi_leaves_memory())
        return NDI_OK;
    return aclrtMemcpyBatch(to, room, from, sizes, count, attributes, indexes,
                            attribute_count, failed);
}

NDI_EXPORT int aclrtMemset(void *block, size_t room, int32_t value, size_t count)
{
    if (count > room)
        return NDI_INVALID_PARAM;
    memset(block, value, count);
    return NDI_OK;
}

NDI_EXPORT int aclrtMemsetAsync(void *block, size_t room, int32_t value, size_t count,
                                void *stream)
{
    (void)stream;
    return ndi_leaves_memory() ? NDI_OK : aclrtMemset(block, room, value, count);
}

/* ---- expandable segments: addresses are reserved first and backed later ---- */

NDI_EXPORT int aclrtReserveMemAddress(void **address, size_t size, size_t alignment,
                                      void *wanted, uint64_t flags)
{
    (void)alignment, (void)wanted, (void)flags;
    /* Counted as device memory when it is backed, not yet here. */
    return allocate(address, size, UNKNOWN);
}

NDI_EXPORT int aclrtReleaseMemAddress(void *address)
{
    return release(address);
}

NDI_EXPORT int aclrtMallocPhysical(void **handle, size_t size, const void *properties,
                                   uint64_t flags)
{
    (void)properties, (void)flags;
    struct block *block;
    int status = add_block(&block, size, DEVICE, PHYSICAL);
    if (status != NDI_OK)
        return status;
    /* It has no address: its record's own serves as the handle. */
    block->start = (char *)block;
    *handle = block;
    return NDI_OK;
}

NDI_EXPORT int aclrtFreePhysical(void *handle)
{
    return remove_block(handle);
}
