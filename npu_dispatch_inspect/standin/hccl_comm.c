/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Communicators: ranks are processes of one machine that share a file's pages.
 *
 * Each rank has a slot the others may read, used between two barriers by the
 * collectives, and each ordered pair of ranks has a mailbox for messages. A rank that
 * waits looks now and then whether the others still live, so that a crash of one
 * ends as an error of the rest.
 */
#include "hccl.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_RANKS 256
#define DEFAULT_TIMEOUT_SECONDS 1836 /* HCCL's own default */

struct mailbox {
    atomic_uint full;
    uint32_t bytes;
    char data[NDI_MAIL_BYTES];
};

struct ndi_shared {
    atomic_uint joined;
    atomic_uint arrived;
    atomic_uint generation;
    atomic_int pids[MAX_RANKS];
};

static size_t header_bytes(void)
{
    return (sizeof(struct ndi_shared) + 4095) & ~(size_t)4095;
}

static size_t total_bytes(uint32_t ranks)
{
    return header_bytes() + ranks * NDI_SLOT_BYTES +
           (size_t)ranks * ranks * sizeof(struct mailbox);
}

char *ndi_slot(struct ndi_comm *comm, uint32_t rank)
{
    return (char *)comm->shared + header_bytes() + rank * NDI_SLOT_BYTES;
}

static struct mailbox *mailbox(struct ndi_comm *comm, uint32_t from, uint32_t to)
{
    char *first = ndi_slot(comm, comm->ranks);
    return (struct mailbox *)first + (size_t)from * comm->ranks + to;
}

/* ---- waiting ---- */

struct wait {
    unsigned turns;
    time_t deadline;
};

static time_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static struct wait start_waiting(void)
{
    const char *text = getenv("HCCL_EXEC_TIMEOUT");
    long seconds = text ? atol(text) : 0;
    return (struct wait){0, now() + (seconds > 0 ? seconds : DEFAULT_TIMEOUT_SECONDS)};
}

/* Let some time pass; an error once waiting on makes no sense. */
static int wait_turn(struct ndi_comm *comm, struct wait *wait)
{
    if (++wait->turns < 64) {
        sched_yield();
        return HCCL_OK;
    }
    nanosleep(&(struct timespec){0, 100000}, NULL);
    if (wait->turns % 1024 != 0)
        return HCCL_OK;
    for (uint32_t rank = 0; rank < comm->ranks; rank++) {
        pid_t pid = atomic_load(&comm->shared->pids[rank]);
        if (pid && kill(pid, 0) != 0 && errno == ESRCH) {
            ndi_set_error("rank %u of %s (process %d) has ended", rank, comm->name, pid);
            return HCCL_REMOTE;
        }
    }
    if (now() > wait->deadline) {
        ndi_set_error("waited too long for the other ranks of %s", comm->name);
        return HCCL_TIMEOUT;
    }
    return HCCL_OK;
}

int ndi_barrier(struct ndi_comm *comm)
{
    struct ndi_shared *shared = comm->shared;
    if (!shared)
        return HCCL_OK;
    unsigned generation = atomic_load(&shared->generation);
    if (atomic_fetch_add(&shared->arrived, 1) + 1 == comm->ranks) {
        atomic_store(&shared->arrived, 0);
        atomic_fetch_add(&shared->generation, 1);
        return HCCL_OK;
    }
    struct wait wait = start_waiting();
    while (atomic_load(&shared->generation) == generation) {
        int status = wait_turn(comm, &wait);
        if (status != HCCL_OK)
            return status;
    }
    return HCCL_OK;
}

/* ---- joining and leaving ---- */

static void shared_path(char *path, size_t room, const char *key)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, room, "%s/npu-dispatch-inspect-%u-%s", folder, (unsigned)getuid(), key);
}

static int map_shared(struct ndi_comm *comm, const char *path)
{
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        ndi_set_error("cannot open %s: %s", path, strerror(errno));
        return HCCL_SYSTEM;
    }
    comm->mapped = total_bytes(comm->ranks);
    /* Whoever comes first makes it; growing to the size it has changes nothing. */
    void *pages = MAP_FAILED;
    if (ftruncate(file, (off_t)comm->mapped) == 0)
        pages = mmap(NULL, comm->mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    int error = errno;
    close(file);
    if (pages == MAP_FAILED) {
        ndi_set_error("cannot share %s: %s", path, strerror(error));
        return HCCL_SYSTEM;
    }
    comm->shared = pages;
    return HCCL_OK;
}

int ndi_comm_join(const char *key, uint32_t rank, uint32_t ranks, struct ndi_comm **out)
{
    if (rank >= ranks || ranks > MAX_RANKS)
        return HCCL_PARAM;
    struct ndi_comm *comm = calloc(1, sizeof *comm);
    if (!comm)
        return HCCL_NO_MEMORY;
    comm->rank = rank;
    comm->ranks = ranks;
    snprintf(comm->name, sizeof comm->name, "%s", key);
    *out = comm;
    if (ranks == 1)
        return HCCL_OK;
    char path[512];
    shared_path(path, sizeof path, key);
    int status = map_shared(comm, path);
    if (status == HCCL_OK) {
        atomic_store(&comm->shared->pids[rank], getpid());
        atomic_fetch_add(&comm->shared->joined, 1);
        struct wait wait = start_waiting();
        while (status == HCCL_OK && atomic_load(&comm->shared->joined) < ranks)
            status = wait_turn(comm, &wait);
        /* Everybody has it open: the name is not needed any more. */
        if (rank == 0)
            unlink(path);
    }
    if (status != HCCL_OK) {
        ndi_comm_leave(comm);
        *out = NULL;
    }
    return status;
}

void ndi_comm_leave(struct ndi_comm *comm)
{
    if (!comm)
        return;
    if (comm->shared)
        munmap(comm->shared, comm->mapped);
    free(comm);
}

/* ---- messages ---- */

/* Move what can be moved of one message; tells whether anything moved. */
static int advance(struct ndi_comm *comm, struct ndi_message *message)
{
    struct mailbox *box = message->is_receive ? mailbox(comm, message->peer, comm->rank)
                                              : mailbox(comm, comm->rank, message->peer);
    if (atomic_load(&box->full) != (unsigned)message->is_receive)
        return 0;
    char *data = message->data + message->done;
    size_t bytes = message->bytes - message->done;
    if (message->is_receive) {
        if (bytes > box->bytes)
            bytes = box->bytes;
        memcpy(data, box->data, bytes);
    } else {
        if (bytes > NDI_MAIL_BYTES)
            bytes = NDI_MAIL_BYTES;
        memcpy(box->data, data, bytes);
        box->bytes = (uint32_t)bytes;
    }
    message->done += bytes;
    atomic_store(&box->full, !message->is_receive);
    return 1;
}

/* Messages between the same two ranks in the same direction keep their order. */
static int is_next(const struct ndi_message *messages, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (messages[i].done < messages[i].bytes &&
            messages[i].peer == messages[index].peer &&
            messages[i].is_receive == messages[index].is_receive)
            return 0;
    return 1;
}

int ndi_deliver(struct ndi_comm *comm, struct ndi_message *messages, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (messages[i].peer >= comm->ranks || !comm->shared)
            return HCCL_PARAM;
    struct wait wait = start_waiting();
    for (;;) {
        int moved = 0, open = 0;
        for (size_t i = 0; i < count; i++) {
            if (messages[i].done == messages[i].bytes)
                continue;
            open = 1;
            if (is_next(messages, i))
                moved |= advance(comm, &messages[i]);
        }
        if (!open)
            return HCCL_OK;
        if (moved) {
            wait = start_waiting();
            continue;
        }
        int status = wait_turn(comm, &wait);
        if (status != HCCL_OK)
            return status;
    }
}
