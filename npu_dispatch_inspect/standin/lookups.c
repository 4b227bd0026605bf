/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which names torch_npu looked up at run time and did not find.
 *
 * torch_npu resolves most of CANN with dlsym. The slot through which libtorch_npu.so
 * calls dlsym is pointed at watched_dlsym(), which looks the name up and, if the
 * stand-in lacks it, says which one it was: torch_npu's own error may come much later
 * or be swallowed.
 */
#define _GNU_SOURCE
#include "standin.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if __SIZEOF_POINTER__ == 8
#define RELOCATION_SYMBOL ELF64_R_SYM
#else
#define RELOCATION_SYMBOL ELF32_R_SYM
#endif

#define MAX_MISSING 256

static pthread_mutex_t missing_lock = PTHREAD_MUTEX_INITIALIZER;
static char *missing[MAX_MISSING];
static size_t missing_count;

static int starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* Other names are optional extras, whose absence torch_npu takes in its stride. */
static int is_public_function(const char *name)
{
    return starts_with(name, "acl") || starts_with(name, "Hccl");
}

static void note_missing(const char *name)
{
    int known = 0;
    pthread_mutex_lock(&missing_lock);
    for (size_t i = 0; i < missing_count && !known; i++)
        known = strcmp(missing[i], name) == 0;
    if (!known && missing_count < MAX_MISSING) {
        char *copy = strdup(name);
        if (copy)
            missing[missing_count++] = copy;
    }
    pthread_mutex_unlock(&missing_lock);
    if (!known && is_public_function(name))
        fprintf(stderr,
                "npu_dispatch_inspect: torch_npu asked for the CANN function %s at run "
                "time, which the stand-in lacks, so it may fail or take another path "
                "than on a device; please report this name and your torch_npu version.\n",
                name);
}

/* The n-th name that was asked for in vain, or NULL. */
NDI_EXPORT const char *ndi_missing_name(size_t index)
{
    pthread_mutex_lock(&missing_lock);
    const char *name = index < missing_count ? missing[index] : NULL;
    pthread_mutex_unlock(&missing_lock);
    return name;
}

/* Whether the handle is one of ours: all of them find this very function. */
static int is_stand_in(void *handle)
{
    return handle != RTLD_DEFAULT && handle != RTLD_NEXT &&
           dlsym(handle, "ndi_missing_name") != NULL;
}

/*
 * A function that fails on purpose, so that what torch_npu makes of an error of
 * the device can be seen. NPU_DISPATCH_INSPECT_STANDIN_FAIL names it: it is asked
 * for when torch_npu first looks the name up.
 */
static int fails(void)
{
    ndi_set_error("%s was told to fail", getenv("NPU_DISPATCH_INSPECT_STANDIN_FAIL"));
    return NDI_AICORE_ERROR;
}

static int is_to_fail(const char *name)
{
    const char *chosen = getenv("NPU_DISPATCH_INSPECT_STANDIN_FAIL");
    return chosen && strcmp(chosen, name) == 0;
}

static void *watched_dlsym(void *handle, const char *name)
{
    if (is_to_fail(name) && is_stand_in(handle))
        return __extension__(void *)fails;
    void *found = dlsym(handle, name);
    if (!found && is_stand_in(handle)) {
        note_missing(name);
        dlsym(handle, name); /* once more, for the text that dlerror() gives */
    }
    return found;
}

/* ---- redirecting one object's calls of dlsym ---- */

static void set_slot(void **slot)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *start = (char *)((uintptr_t)slot & ~(uintptr_t)(page - 1));
    /* The slot may lie in a part made read-only after relocation; it is left
     * writable, which it is in objects linked without that protection too. */
    if (mprotect(start, page, PROT_READ | PROT_WRITE) == 0)
        *slot = __extension__(void *)watched_dlsym;
}

static void redirect(ElfW(Addr) base, const ElfW(Rela) *entries, size_t bytes,
                     const ElfW(Sym) *symbols, const char *strings)
{
    for (size_t i = 0; i < bytes / sizeof *entries; i++) {
        size_t symbol = RELOCATION_SYMBOL(entries[i].r_info);
        if (symbol && strcmp(strings + symbols[symbol].st_name, "dlsym") == 0)
            set_slot((void **)(base + entries[i].r_offset));
    }
}

static int visit(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    const char *name = strrchr(info->dlpi_name, '/');
    if (!name || strcmp(name, "/libtorch_npu.so") != 0)
        return 0;
    const ElfW(Dyn) *dynamic = NULL;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            dynamic = (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    const ElfW(Sym) *symbols = NULL;
    const char *strings = NULL;
    const ElfW(Rela) *tables[2] = {NULL, NULL};
    size_t bytes[2] = {0, 0};
    for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
        const void *address = (const void *)dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            symbols = address;
            break;
        case DT_STRTAB:
            strings = address;
            break;
        case DT_JMPREL:
            tables[0] = address;
            break;
        case DT_PLTRELSZ:
            bytes[0] = dynamic->d_un.d_val;
            break;
        case DT_RELA:
            tables[1] = address;
            break;
        case DT_RELASZ:
            bytes[1] = dynamic->d_un.d_val;
            break;
        default:
            break;
        }
    }
    if (symbols && strings)
        for (int i = 0; i < 2; i++)
            if (tables[i])
                redirect(info->dlpi_addr, tables[i], bytes[i], symbols, strings);
    return 1;
}

static void watch(void)
{
    dl_iterate_phdr(visit, NULL);
}

void ndi_watch_lookups(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}
