/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory: what the device would hold is host memory, so copies carry real data.
 *
 * Blocks come from anonymous mmap, hence zero-filled and only backed by real pages
 * once touched: torch_npu may reserve gigabytes of "device" memory on a small host.
 * The page in front of a block remembers its size, as free is not told.
 */
#include "standin.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEADER 4096
#define MAGIC 0x6e64692d626c6f63ull

struct header {
    uint64_t magic;
    size_t mapped;
    size_t counted; /* bytes that count as device memory; 0 for host memory */
};

static atomic_size_t device_bytes_used;

static int allocate(void **out, size_t size, size_t counted)
{
    *out = NULL;
    size_t used = atomic_fetch_add(&device_bytes_used, counted) + counted;
    if (counted && used > ndi_model.memory_bytes) {
        atomic_fetch_sub(&device_bytes_used, counted);
        ndi_set_error("the stand-in's device has %zu bytes, %zu are in use, %zu more "
                      "were asked for",
                      ndi_model.memory_bytes, used - counted, counted);
        return NDI_OUT_OF_MEMORY;
    }
    size_t mapped = (size + HEADER + 4095) & ~(size_t)4095;
    char *base = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        atomic_fetch_sub(&device_bytes_used, counted);
        ndi_set_error("the host refused %zu bytes for the stand-in's device memory", size);
        return NDI_OUT_OF_MEMORY;
    }
    *(struct header *)base = (struct header){MAGIC, mapped, counted};
    *out = base + HEADER;
    return NDI_OK;
}

static int release(void *block)
{
    if (!block)
        return NDI_OK;
    struct header *header = (struct header *)((char *)block - HEADER);
    if (header->magic != MAGIC)
        return NDI_INVALID_PARAM;
    atomic_fetch_sub(&device_bytes_used, header->counted);
    munmap(header, header->mapped);
    return NDI_OK;
}

/* ---- device memory ---- */

NDI_EXPORT int aclrtMalloc(void **block, size_t size, int policy)
{
    (void)policy;
    return allocate(block, size, size);
}

NDI_EXPORT int aclrtMallocAlign32(void **block, size_t size, int policy)
{
    (void)policy;
    return allocate(block, size, size);
}

NDI_EXPORT int aclrtMallocCached(void **block, size_t size, int policy)
{
    (void)policy;
    return allocate(block, size, size);
}

NDI_EXPORT int aclrtMallocWithCfg(void **block, size_t size, int policy, void *config)
{
    (void)policy, (void)config;
    return allocate(block, size, size);
}

NDI_EXPORT int aclrtFree(void *block)
{
    return release(block);
}

NDI_EXPORT int aclrtGetMemInfo(int attribute, size_t *free_bytes, size_t *total)
{
    (void)attribute;
    size_t used = atomic_load(&device_bytes_used);
    *total = ndi_model.memory_bytes;
    *free_bytes = used < *total ? *total - used : 0;
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
    return allocate(block, size, 0);
}

NDI_EXPORT int aclrtMallocHostWithCfg(void **block, uint64_t size, void *config)
{
    (void)config;
    return allocate(block, size, 0);
}

NDI_EXPORT int aclrtFreeHost(void *block)
{
    return release(block);
}

NDI_EXPORT int aclrtHostRegister(void *host, uint64_t size, int kind, void **device)
{
    (void)size, (void)kind;
    *device = host;
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
    return copy(to, room, from, count);
}

NDI_EXPORT int aclrtMemcpyAsyncWithCondition(void *to, size_t room, const void *from,
                                             size_t count, int kind, void *stream)
{
    (void)kind, (void)stream;
    return copy(to, room, from, count);
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
    return aclrtMemset(block, room, value, count);
}

/* ---- expandable segments: addresses are reserved first and backed later ---- */

struct physical {
    size_t size;
};

NDI_EXPORT int aclrtReserveMemAddress(void **address, size_t size, size_t alignment,
                                      void *wanted, uint64_t flags)
{
    (void)alignment, (void)wanted, (void)flags;
    return allocate(address, size, 0);
}

NDI_EXPORT int aclrtReleaseMemAddress(void *address)
{
    return release(address);
}

NDI_EXPORT int aclrtMallocPhysical(void **handle, size_t size, const void *properties,
                                   uint64_t flags)
{
    (void)properties, (void)flags;
    struct physical *physical = malloc(sizeof *physical);
    size_t used = atomic_fetch_add(&device_bytes_used, size) + size;
    if (!physical || used > ndi_model.memory_bytes) {
        atomic_fetch_sub(&device_bytes_used, size);
        free(physical);
        return NDI_OUT_OF_MEMORY;
    }
    physical->size = size;
    *handle = physical;
    return NDI_OK;
}

NDI_EXPORT int aclrtFreePhysical(void *handle)
{
    struct physical *physical = handle;
    atomic_fetch_sub(&device_bytes_used, physical->size);
    free(physical);
    return NDI_OK;
}

NDI_EXPORT int aclrtPointerGetAttributes(const void *pointer, uint32_t *attributes)
{
    (void)pointer;
    enum { UNREGISTERED = 2 };
    /* aclrtPtrAttributes: location id, location type, page size, four reserved.
     * Host and device memory are the same here, so no address is known as the
     * device's; torch_npu then asks its own allocator. */
    memset(attributes, 0, 7 * sizeof *attributes);
    attributes[1] = UNREGISTERED;
    attributes[2] = 4096;
    return NDI_OK;
}
