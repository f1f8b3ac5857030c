/* A library that answers as NVIDIA's libnvidia-ml.so.1 does, for machines without one.
 *
 * What it shows stands in the file $FAKE_NVML, one GPU a line, read anew at each call:
 *   UUID NAME USED_MIB TOTAL_MIB PID UTILISATION POWER_MW ENERGY_MJ SM_MHZ REASONS XID MIG
 * PID 0: no process; XID 0: no error, else it is told once.  Structures are those of nvml.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { char uuid[80], name[64]; unsigned long long used, total, energy, reasons; unsigned pid, util, power, sm, xid, mig; } Gpu;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory2;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } Process;
typedef struct { void *device; unsigned long long type, data; unsigned gi, ci; } Event;
enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT = 7, TIMEOUT = 10 };

static Gpu gpus[16];
static unsigned told[16];
static char set;

static unsigned look(void) {
    FILE *file = fopen(getenv("FAKE_NVML") ? getenv("FAKE_NVML") : "", "r");
    unsigned n = 0;
    if (!file) return 0;
    while (n < 16) {
        Gpu *g = &gpus[n];
        if (fscanf(file, "%79s %63s %llu %llu %u %u %u %llu %u %llu %u %u", g->uuid, g->name, &g->used, &g->total,
                   &g->pid, &g->util, &g->power, &g->energy, &g->sm, &g->reasons, &g->xid, &g->mig) != 12) break;
        n++;
    }
    fclose(file);
    return n;
}
static Gpu *at(void *handle) { look(); return handle; }

int nvmlInitWithFlags(unsigned flags) { (void)flags; return look() ? OK : 9; /* no driver */ }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(int code) { return code == 9 ? "Driver Not Loaded" : code == OK ? "Success" : "Error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned n) { snprintf(text, n, "575.1"); return OK; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = look(); return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **handle) { if (index >= look()) return NOT_FOUND; *handle = &gpus[index]; return OK; }
int nvmlDeviceGetUUID(void *h, char *text, unsigned n) { snprintf(text, n, "%s", at(h)->uuid); return OK; }
int nvmlDeviceGetName(void *h, char *text, unsigned n) { snprintf(text, n, "%s", at(h)->name); return OK; }
int nvmlDeviceGetMemoryInfo(void *h, Memory *m) { Gpu *g = at(h); m->total = g->total << 20; m->used = (g->used + 600) << 20; m->free = m->total - m->used; return OK; }
int nvmlDeviceGetMemoryInfo_v2(void *h, Memory2 *m) { Gpu *g = at(h); m->total = g->total << 20; m->reserved = 600ull << 20; m->used = g->used << 20; m->free = m->total - m->used; return OK; }
int nvmlDeviceGetUtilizationRates(void *h, Utilization *u) { u->gpu = at(h)->util; u->memory = 1; return OK; }
int nvmlDeviceGetPowerUsage(void *h, unsigned *mw) { *mw = at(h)->power; return OK; }
int nvmlDeviceGetTotalEnergyConsumption(void *h, unsigned long long *mj) { *mj = at(h)->energy; return OK; }
int nvmlDeviceGetClockInfo(void *h, unsigned type, unsigned *mhz) { *mhz = type == 1 ? at(h)->sm : 2619; return OK; }
int nvmlDeviceGetTemperature(void *h, unsigned sensor, unsigned *c) { (void)h; (void)sensor; *c = 51; return OK; }
int nvmlDeviceGetTemperatureV(void *h, unsigned *t) { (void)h; t[2] = 51; return OK; }
/* an older driver: the newer name is not there */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *h, unsigned long long *r) { *r = at(h)->reasons; return OK; }
int nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *pending) { *now = *pending = at(h)->mig; return OK; }
int nvmlDeviceGetComputeMode(void *h, unsigned *mode) { (void)h; *mode = 0; return OK; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *count, Process *found) {
    Gpu *g = at(h);
    if (!g->pid) { *count = 0; return OK; }
    if (!found || *count < 1) { *count = 1; return INSUFFICIENT; }
    *count = 1;
    memset(found, 0, sizeof *found);
    found->pid = g->pid;
    return OK;
}
int nvmlEventSetCreate(void **made) { *made = &set; return OK; }
int nvmlEventSetFree(void *made) { (void)made; return OK; }
int nvmlDeviceRegisterEvents(void *h, unsigned long long types, void *into) { (void)into; (void)h; return types == 8 ? OK : NOT_SUPPORTED; }
int nvmlEventSetWait_v2(void *from, Event *event, unsigned ms) {
    (void)from; (void)ms;
    unsigned n = look();
    for (unsigned i = 0; i < n; i++)
        if (gpus[i].xid && told[i] != gpus[i].xid) {
            told[i] = gpus[i].xid;
            memset(event, 0, sizeof *event);
            event->device = &gpus[i];
            event->type = 8;
            event->data = gpus[i].xid;
            return OK;
        }
    return TIMEOUT;
}
