/* SPDX-License-Identifier: BSD-3-Clause */
/* What the parts of the stand-in's collectives share with each other. */
#ifndef NDI_HCCL_H
#define NDI_HCCL_H

#include "standin.h"

enum {
    HCCL_OK = 0,
    HCCL_PARAM = 1,
    HCCL_NO_MEMORY = 3,
    HCCL_UNSUPPORTED = 5,
    HCCL_SYSTEM = 8,
    HCCL_TIMEOUT = 9,
    HCCL_REMOTE = 21,
};

/* Bytes one rank shows the others at a time, and bytes of a message in flight. */
#define NDI_SLOT_BYTES ((size_t)256 << 10)
#define NDI_MAIL_BYTES ((size_t)64 << 10)

struct ndi_shared;

struct ndi_comm {
    uint32_t rank;
    uint32_t ranks;
    uint32_t children; /* sub-communicators made from this one, for their names */
    size_t mapped;
    struct ndi_shared *shared; /* NULL if this is the only rank */
    char name[128];
};

/* One message of a batch, as the caller describes it; `done` counts its bytes. */
struct ndi_message {
    int is_receive;
    uint32_t peer;
    char *data;
    size_t bytes;
    size_t done;
};

/* Join the communicator of this key; returns when every rank has joined. */
int ndi_comm_join(const char *key, uint32_t rank, uint32_t ranks, struct ndi_comm **out);
void ndi_comm_leave(struct ndi_comm *comm);

/* Wait until every rank is here. */
int ndi_barrier(struct ndi_comm *comm);

/* The bytes a rank shows; stable between two barriers. */
char *ndi_slot(struct ndi_comm *comm, uint32_t rank);

/* Carry out sends and receives together, so that their order cannot block. */
int ndi_deliver(struct ndi_comm *comm, struct ndi_message *messages, size_t count);

/* Size of an element, 0 if the type is unknown. */
size_t ndi_element_size(int type);

/* into[i] = into[i] op from[i] */
int ndi_reduce(void *into, const void *from, size_t count, int type, int op);

#endif
