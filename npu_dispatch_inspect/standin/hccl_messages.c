/* SPDX-License-Identifier: BSD-3-Clause */
/* HCCL: messages between two ranks, and the collectives made of such messages. */
#include "hccl.h"

#include <stdlib.h>
#include <string.h>

struct item { /* HcclSendRecvItem */
    int is_receive;
    void *data;
    uint64_t count;
    int type;
    uint32_t peer;
};

/* Between HcclGroupStart and HcclGroupEnd messages are only noted. */
static __thread struct {
    int depth;
    size_t count;
    struct ndi_comm *comm;
    struct ndi_message *messages;
} group;

static int deliver_or_note(struct ndi_comm *comm, struct ndi_message message)
{
    if (!group.depth)
        return ndi_deliver(comm, &message, 1);
    if (group.comm && group.comm != comm) {
        ndi_set_error("the stand-in groups the messages of one communicator only");
        return HCCL_UNSUPPORTED;
    }
    struct ndi_message *more =
        realloc(group.messages, (group.count + 1) * sizeof *group.messages);
    if (!more)
        return HCCL_NO_MEMORY;
    group.comm = comm;
    group.messages = more;
    group.messages[group.count++] = message;
    return HCCL_OK;
}

NDI_EXPORT int HcclGroupStart(void)
{
    group.depth++;
    return HCCL_OK;
}

NDI_EXPORT int HcclGroupEnd(void)
{
    if (group.depth == 0)
        return HCCL_PARAM;
    if (--group.depth > 0 || !group.comm)
        return HCCL_OK;
    int status = ndi_deliver(group.comm, group.messages, group.count);
    free(group.messages);
    memset(&group, 0, sizeof group);
    return status;
}

NDI_EXPORT int HcclSend(void *data, uint64_t count, int type, uint32_t peer, void *comm,
                        void *stream)
{
    (void)stream;
    return deliver_or_note(
        comm, (struct ndi_message){0, peer, data, count * ndi_element_size(type), 0});
}

NDI_EXPORT int HcclRecv(void *data, uint64_t count, int type, uint32_t peer, void *comm,
                        void *stream)
{
    (void)stream;
    return deliver_or_note(
        comm, (struct ndi_message){1, peer, data, count * ndi_element_size(type), 0});
}

NDI_EXPORT int HcclBatchSendRecv(struct item *items, uint32_t count, void *comm,
                                 void *stream)
{
    (void)stream;
    struct ndi_message *messages = calloc(count ? count : 1, sizeof *messages);
    if (!messages)
        return HCCL_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        messages[i] = (struct ndi_message){
            items[i].is_receive, items[i].peer, items[i].data,
            items[i].count * ndi_element_size(items[i].type), 0};
    int status = ndi_deliver(comm, messages, count);
    free(messages);
    return status;
}

/* ---- all to all ---- */

struct parts {
    char *data;
    size_t width;
    const uint64_t *counts;
    const uint64_t *places;
};

static int exchange(struct ndi_comm *comm, struct parts from, struct parts to)
{
    uint32_t me = comm->rank;
    memmove(to.data + to.places[me] * to.width, from.data + from.places[me] * from.width,
            from.counts[me] * from.width);
    if (comm->ranks == 1)
        return HCCL_OK;
    struct ndi_message *messages = calloc((size_t)2 * comm->ranks, sizeof *messages);
    if (!messages)
        return HCCL_NO_MEMORY;
    size_t count = 0;
    for (uint32_t peer = 0; peer < comm->ranks; peer++) {
        if (peer == me)
            continue;
        messages[count++] =
            (struct ndi_message){0, peer, from.data + from.places[peer] * from.width,
                                 from.counts[peer] * from.width, 0};
        messages[count++] =
            (struct ndi_message){1, peer, to.data + to.places[peer] * to.width,
                                 to.counts[peer] * to.width, 0};
    }
    int status = ndi_deliver(comm, messages, count);
    free(messages);
    return status;
}

NDI_EXPORT int HcclAlltoAllV(const void *send, const uint64_t *send_counts,
                             const uint64_t *send_places, int send_type,
                             const void *receive, const uint64_t *counts,
                             const uint64_t *places, int type, void *comm, void *stream)
{
    (void)stream;
    struct parts from = {(char *)send, ndi_element_size(send_type), send_counts,
                         send_places};
    struct parts to = {(char *)receive, ndi_element_size(type), counts, places};
    return exchange(comm, from, to);
}

NDI_EXPORT int HcclAlltoAll(const void *send, uint64_t send_count, int send_type,
                            const void *receive, uint64_t count, int type, void *comm,
                            void *stream)
{
    uint32_t ranks = ((struct ndi_comm *)comm)->ranks;
    uint64_t *table = malloc((size_t)4 * ranks * sizeof *table);
    if (!table)
        return HCCL_NO_MEMORY;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        table[rank] = send_count;
        table[ranks + rank] = rank * send_count;
        table[2 * ranks + rank] = count;
        table[3 * ranks + rank] = rank * count;
    }
    int status = HcclAlltoAllV(send, table, table + ranks, send_type, receive,
                               table + 2 * ranks, table + 3 * ranks, type, comm, stream);
    free(table);
    return status;
}

NDI_EXPORT int HcclAlltoAllVC(const void *send, const uint64_t *matrix, int send_type,
                              const void *receive, int type, void *comm, void *stream)
{
    struct ndi_comm *me = comm;
    uint32_t ranks = me->ranks;
    uint64_t *table = malloc((size_t)4 * ranks * sizeof *table);
    if (!table)
        return HCCL_NO_MEMORY;
    uint64_t sent = 0, received = 0;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        table[rank] = matrix[me->rank * ranks + rank];
        table[ranks + rank] = sent;
        table[2 * ranks + rank] = matrix[rank * ranks + me->rank];
        table[3 * ranks + rank] = received;
        sent += table[rank];
        received += table[2 * ranks + rank];
    }
    int status = HcclAlltoAllV(send, table, table + ranks, send_type, receive,
                               table + 2 * ranks, table + 3 * ranks, type, comm, stream);
    free(table);
    return status;
}
