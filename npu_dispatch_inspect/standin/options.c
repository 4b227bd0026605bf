/* SPDX-License-Identifier: BSD-3-Clause */
/* CANN's version, and the options of its operator compiler. */
#include "standin.h"

#include <stdio.h>
#include <string.h>

#define OPTIONS 32
#define OPTION_LENGTH 256
#define JIT_COMPILE 10 /* ACL_OP_JIT_COMPILE */

static char options[OPTIONS][OPTION_LENGTH];

/* ---- versions ---- */

struct package_version { /* aclCANNPackageVersion */
    char version[128];
    char part[4][64]; /* major, minor, release, patch */
    char reserved[128];
};

NDI_EXPORT int aclsysGetCANNVersion(int package, struct package_version *version)
{
    enum { DRIVER = 7 };
    const char *text =
        package == DRIVER ? ndi_model.driver_version : ndi_model.cann_version;
    memset(version, 0, sizeof *version);
    strcpy(version->version, text);
    sscanf(text, "%63[^.].%63[^.].%63[^.].%63s", version->part[0], version->part[1],
           version->part[2], version->part[3]);
    return NDI_OK;
}

NDI_EXPORT int aclsysGetVersionStr(const char *package, char *version)
{
    strcpy(version, strcmp(package, "driver") == 0 ? ndi_model.driver_version
                                                   : ndi_model.cann_version);
    return NDI_OK;
}

/* ---- compile options ---- */

NDI_EXPORT int aclSetCompileopt(int option, const char *value)
{
    if (option < 0 || option >= OPTIONS || strlen(value) >= OPTION_LENGTH)
        return NDI_INVALID_PARAM;
    strcpy(options[option], value);
    return NDI_OK;
}

/* The value that was set, or what CANN would start from; NULL if there is no such. */
static const char *option_text(int option)
{
    if (option < 0 || option >= OPTIONS)
        return NULL;
    if (option == JIT_COMPILE && options[option][0] == '\0')
        return ndi_model.jit_compile ? "enable" : "disable";
    return options[option];
}

NDI_EXPORT size_t aclGetCompileoptSize(int option)
{
    const char *text = option_text(option);
    return text ? strlen(text) + 1 : 0;
}

NDI_EXPORT int aclGetCompileopt(int option, char *value, size_t length)
{
    const char *text = option_text(option);
    if (!text || strlen(text) >= length)
        return NDI_INVALID_PARAM;
    strcpy(value, text);
    return NDI_OK;
}

NDI_EXPORT int aclrtGetSysParamOpt(int option, int64_t *value)
{
    (void)option;
    *value = 0;
    return NDI_OK;
}
