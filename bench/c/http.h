/* What engine.c and client.c share: the clock, the answers they agree on, and how a head is read. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENT                                                                                             \
    "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1760000000," \
    "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" n=%06d t=%016lld\"},\"finish_reason\":null}]}\n\n"
#define LAST_EVENT                                                                                        \
    "data: {\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1760000000," \
    "\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* A chat completion of about 1.1 KB; gives its length. */
static int whole_answer(char *out) {
    int n = sprintf(out, "{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion\",\"created\":1760000000,"
                         "\"model\":\"m\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"");
    for (int i = 0; i < 700; i++) out[n++] = "lorem ipsum dolor sit amet "[i % 27];
    return n + sprintf(out + n, "\",\"tool_calls\":null},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":"
                                "{\"prompt_tokens\":128,\"total_tokens\":328,\"completion_tokens\":200}}");
}

/* The value of a header, or NULL.  `head` ends in a NUL. */
static const char *field(const char *head, const char *name) {
    size_t n = strlen(name);
    for (const char *at = strchr(head, '\n'); at; at = strchr(at + 1, '\n'))
        if (!strncasecmp(at + 1, name, n) && at[1 + n] == ':') return at + 2 + n + strspn(at + 2 + n, " ");
    return NULL;
}

static struct sockaddr_in loopback(int port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void watch(int ep, int fd, unsigned events, void *data, int op) {
    struct epoll_event e = {.events = events, .data.ptr = data};
    if (epoll_ctl(ep, op, fd, &e)) {
        perror("epoll_ctl");
        exit(1);
    }
}

/* Like epoll_pwait2; where AWAKE is in the environment it never sleeps, but lets others of its core go first. */
static int wait_for(int ep, struct epoll_event *found, int most, struct timespec *limit) {
    static const struct timespec none;
    static int awake = -1;
    if (awake < 0) awake = getenv("AWAKE") != NULL;
    int n = epoll_pwait2(ep, found, most, awake ? &none : limit, NULL);
    if (awake && !n) sched_yield();
    return n;
}

static int one = 1;
