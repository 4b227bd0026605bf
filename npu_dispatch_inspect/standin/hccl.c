/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HCCL: collectives between the processes of one machine, with real data.
 *
 * They run when they are called, in the thread that calls them, and block until the
 * other ranks have come: a mismatch of collectives hangs here as it does on devices.
 */
#include "hccl.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROOT_INFO_BYTES 4108
#define CONFIG_NAME_OFFSET 32 /* HcclCommConfig: 24 reserved bytes, two uint32_t */
#define NAME_BYTES 128

/* ---- communicators ---- */

NDI_EXPORT int HcclGetRootInfo(char *info)
{
    static atomic_uint count;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    memset(info, 0, ROOT_INFO_BYTES);
    snprintf(info, ROOT_INFO_BYTES, "%ld-%lx%lx-%u", (long)getpid(), (long)time.tv_sec,
             time.tv_nsec, atomic_fetch_add(&count, 1));
    return HCCL_OK;
}

NDI_EXPORT int HcclGetRootInfoScalable(char *info)
{
    return HcclGetRootInfo(info);
}

static int join(const char *key, uint32_t rank, uint32_t ranks, const char *config,
                void **comm)
{
    struct ndi_comm *made = NULL;
    int status = ndi_comm_join(key, rank, ranks, &made);
    if (status == HCCL_OK && config && config[CONFIG_NAME_OFFSET])
        snprintf(made->name, sizeof made->name, "%s", config + CONFIG_NAME_OFFSET);
    *comm = made;
    return status;
}

NDI_EXPORT int HcclCommInitRootInfo(uint32_t ranks, const char *info, uint32_t rank,
                                    void **comm)
{
    return join(info, rank, ranks, NULL, comm);
}

NDI_EXPORT int HcclCommInitRootInfoConfig(uint32_t ranks, const char *info, uint32_t rank,
                                          const char *config, void **comm)
{
    return join(info, rank, ranks, config, comm);
}

NDI_EXPORT int HcclCommInitRootInfoScalable(uint32_t ranks, uint32_t roots,
                                            const char *infos, uint32_t rank,
                                            uint32_t extra_roots, const char *config,
                                            void **comm)
{
    (void)roots, (void)extra_roots;
    return join(infos, rank, ranks, config, comm);
}

NDI_EXPORT int HcclCreateSubCommConfig(void **parent, uint32_t ranks, uint32_t *members,
                                       uint64_t id, uint32_t rank, const char *config,
                                       void **comm)
{
    (void)members;
    char key[ROOT_INFO_BYTES];
    struct ndi_comm *from = *parent;
    snprintf(key, sizeof key, "%.90s-%llx-%u", from->name, (unsigned long long)id,
             from->children++);
    return join(key, rank, ranks, config, comm);
}

static int no_rank_table(void)
{
    ndi_set_error("the stand-in's communicators are made from a root's info only, not "
                  "from a rank table or for several devices of one process");
    return HCCL_UNSUPPORTED;
}

NDI_EXPORT int HcclCommInitClusterInfo(const char *file, uint32_t rank, void **comm)
{
    (void)file, (void)rank, (void)comm;
    return no_rank_table();
}

NDI_EXPORT int HcclCommInitClusterInfoConfig(const char *file, uint32_t rank, void *config,
                                             void **comm)
{
    (void)file, (void)rank, (void)config, (void)comm;
    return no_rank_table();
}

NDI_EXPORT int HcclCommInitAll(uint32_t count, int32_t *devices, void **comms)
{
    (void)count, (void)devices, (void)comms;
    return no_rank_table();
}

NDI_EXPORT int HcclCommDestroy(void *comm)
{
    ndi_comm_leave(comm);
    return HCCL_OK;
}

NDI_EXPORT int HcclGetCommName(void *comm, char *name)
{
    snprintf(name, NAME_BYTES, "%s", ((struct ndi_comm *)comm)->name);
    return HCCL_OK;
}

NDI_EXPORT int HcclGetRankSize(void *comm, uint32_t *ranks)
{
    *ranks = ((struct ndi_comm *)comm)->ranks;
    return HCCL_OK;
}

NDI_EXPORT int HcclGetRankId(void *comm, uint32_t *rank)
{
    *rank = ((struct ndi_comm *)comm)->rank;
    return HCCL_OK;
}

NDI_EXPORT int HcclGetCommAsyncError(void *comm, int *error)
{
    (void)comm;
    *error = HCCL_OK;
    return HCCL_OK;
}

NDI_EXPORT uint32_t HcclGetCommConfigCapability(void)
{
    /* Buffer size, determinism and the name are read, and that is all. */
    return 3;
}

/* ---- collectives: everybody shows a piece, everybody reads, until all is through ---- */

/* What to do with the piece rank `from` shows, which starts at `offset`. */
typedef int take_piece(void *context, uint32_t from, const char *piece, size_t offset,
                       size_t bytes);

/* `bytes` is the longest any rank shows; `mine` what this one shows, if anything. */
static int show_and_take(struct ndi_comm *comm, const void *data, size_t mine, size_t bytes,
                         take_piece *take, void *context)
{
    int status = HCCL_OK;
    if (!comm->shared)
        return take(context, 0, data, 0, mine);
    for (size_t offset = 0; offset < bytes && status == HCCL_OK; offset += NDI_SLOT_BYTES) {
        size_t piece = bytes - offset < NDI_SLOT_BYTES ? bytes - offset : NDI_SLOT_BYTES;
        if (offset < mine) {
            size_t own = mine - offset < piece ? mine - offset : piece;
            memcpy(ndi_slot(comm, comm->rank), (const char *)data + offset, own);
        }
        status = ndi_barrier(comm);
        for (uint32_t from = 0; from < comm->ranks && status == HCCL_OK; from++)
            status = take(context, from, ndi_slot(comm, from), offset, piece);
        /* Nobody may overwrite a slot that another rank still reads. */
        int all_read = ndi_barrier(comm);
        if (status == HCCL_OK)
            status = all_read;
    }
    return status;
}

struct target {
    char *data;
    uint64_t count; /* elements this rank receives (from each rank, if from all) */
    size_t start;   /* byte of the shown data this rank's part begins at */
    size_t width;
    int type;
    int op;
    int wanted; /* whether this rank receives at all */
    uint32_t root;
    const uint64_t *counts;
    const uint64_t *places;
};

static int take_reduced(void *context, uint32_t from, const char *piece, size_t offset,
                        size_t bytes)
{
    struct target *to = context;
    size_t end = to->start + to->count * to->width;
    size_t low = offset > to->start ? offset : to->start;
    size_t high = offset + bytes < end ? offset + bytes : end;
    if (!to->wanted || low >= high)
        return HCCL_OK;
    char *into = to->data + (low - to->start);
    if (from == 0) {
        memmove(into, piece + (low - offset), high - low);
        return HCCL_OK;
    }
    return ndi_reduce(into, piece + (low - offset), (high - low) / to->width, to->type,
                      to->op);
}

static int take_from_root(void *context, uint32_t from, const char *piece, size_t offset,
                          size_t bytes)
{
    struct target *to = context;
    size_t end = to->start + to->count * to->width;
    size_t low = offset > to->start ? offset : to->start;
    size_t high = offset + bytes < end ? offset + bytes : end;
    if (from == to->root && low < high)
        memmove(to->data + (low - to->start), piece + (low - offset), high - low);
    return HCCL_OK;
}

static int take_from_all(void *context, uint32_t from, const char *piece, size_t offset,
                         size_t bytes)
{
    struct target *to = context;
    uint64_t count = to->counts ? to->counts[from] : to->count;
    uint64_t place = to->places ? to->places[from] : to->count * from;
    size_t end = count * to->width;
    size_t high = offset + bytes < end ? offset + bytes : end;
    if (offset < high)
        memmove(to->data + place * to->width + offset, piece, high - offset);
    return HCCL_OK;
}

NDI_EXPORT int HcclAllReduce(void *send, void *receive, uint64_t count, int type, int op,
                             void *comm, void *stream)
{
    (void)stream;
    size_t width = ndi_element_size(type);
    struct target to = {
        .data = receive, .count = count, .width = width, .type = type, .op = op,
        .wanted = 1};
    return show_and_take(comm, send, count * width, count * width, take_reduced, &to);
}

NDI_EXPORT int HcclReduce(void *send, void *receive, uint64_t count, int type, int op,
                          uint32_t root, void *comm, void *stream)
{
    (void)stream;
    size_t width = ndi_element_size(type);
    struct target to = {
        .data = receive, .count = count, .width = width, .type = type, .op = op,
        .wanted = ((struct ndi_comm *)comm)->rank == root};
    return show_and_take(comm, send, count * width, count * width, take_reduced, &to);
}

NDI_EXPORT int HcclReduceScatter(void *send, void *receive, uint64_t count, int type,
                                 int op, void *comm, void *stream)
{
    (void)stream;
    struct ndi_comm *me = comm;
    size_t width = ndi_element_size(type);
    struct target to = {
        .data = receive, .count = count, .width = width, .type = type, .op = op,
        .wanted = 1, .start = me->rank * count * width};
    size_t all = me->ranks * count * width;
    return show_and_take(comm, send, all, all, take_reduced, &to);
}

NDI_EXPORT int HcclReduceScatterV(void *send, const uint64_t *counts,
                                  const uint64_t *places, void *receive, uint64_t count,
                                  int type, int op, void *comm, void *stream)
{
    (void)stream;
    struct ndi_comm *me = comm;
    size_t width = ndi_element_size(type);
    struct target to = {
        .data = receive, .count = count, .width = width, .type = type, .op = op,
        .wanted = 1, .start = places[me->rank] * width};
    size_t all = 0;
    for (uint32_t rank = 0; rank < me->ranks; rank++)
        if ((places[rank] + counts[rank]) * width > all)
            all = (places[rank] + counts[rank]) * width;
    return show_and_take(comm, send, all, all, take_reduced, &to);
}

NDI_EXPORT int HcclBroadcast(void *data, uint64_t count, int type, uint32_t root,
                             void *comm, void *stream)
{
    (void)stream;
    size_t width = ndi_element_size(type);
    size_t mine = ((struct ndi_comm *)comm)->rank == root ? count * width : 0;
    struct target to = {.data = data, .count = count, .width = width, .root = root};
    return show_and_take(comm, data, mine, count * width, take_from_root, &to);
}

NDI_EXPORT int HcclScatter(void *send, void *receive, uint64_t count, int type,
                           uint32_t root, void *comm, void *stream)
{
    (void)stream;
    struct ndi_comm *me = comm;
    size_t width = ndi_element_size(type);
    size_t all = me->ranks * count * width;
    struct target to = {.data = receive, .count = count, .width = width, .root = root,
                        .start = me->rank * count * width};
    return show_and_take(comm, send, me->rank == root ? all : 0, all, take_from_root, &to);
}

NDI_EXPORT int HcclAllGather(void *send, void *receive, uint64_t count, int type,
                             void *comm, void *stream)
{
    (void)stream;
    size_t width = ndi_element_size(type);
    struct target to = {.data = receive, .count = count, .width = width};
    return show_and_take(comm, send, count * width, count * width, take_from_all, &to);
}

NDI_EXPORT int HcclAllGatherV(void *send, uint64_t count, void *receive,
                              const uint64_t *counts, const uint64_t *places, int type,
                              void *comm, void *stream)
{
    (void)stream;
    struct ndi_comm *me = comm;
    size_t width = ndi_element_size(type);
    struct target to = {
        .data = receive, .width = width, .counts = counts, .places = places};
    size_t longest = 0;
    for (uint32_t rank = 0; rank < me->ranks; rank++)
        if (counts[rank] * width > longest)
            longest = counts[rank] * width;
    return show_and_take(comm, send, count * width, longest, take_from_all, &to);
}

NDI_EXPORT int HcclBarrier(void *comm, void *stream)
{
    (void)stream;
    return ndi_barrier(comm);
}
