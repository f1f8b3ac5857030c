/* The benchmarks' client: client PORT NAME=VALUE...   One thread; checks every answer; prints one line of JSON.
 *
 * connections=32  seconds=1.5  requests=0 (0: as many as the time allows)  body=512 (bytes, about)
 * events=0 (above 0: streams of so many events)  rate=0 (a second; 0: closed loop)  key=sk
 * patience=30 (seconds that it waits at the end for what is unanswered)  together=False (True: see engine.c)
 *
 * Latencies are counted from the instant a request was due, so a stall is not hidden by the requests that waited for
 * it.  An event's delay is from its sending by the engine to its reading here: both use one machine's clock; its gap is
 * from the reading of the event before it.
 * Bodies: 8 beginnings x 8 middles x a tail of their own. */
#include "http.h"

enum { HEAD, FIXED, SIZE, DATA, AFTER, TRAILER };
typedef struct conn {
    int fd, busy, at, head_n, line_n, size_n, events, done, wrong;
    char *out, head[2048], line[1024], size[20];
    size_t out_n, out_at;
    long left, got;
    long long due_ns, first_ns, last_ns;
    struct conn *idle;
} conn;
typedef struct {
    float *v;
    size_t n, room;
} sample;

static int ep, port, connections = 32, body_n = 512, events_wanted, together;
static long long requests, begun, answers, bad, events_n;
static double seconds = 1.5, rate, patience = 30;
static char key[128] = "sk", why[400];
static sample latency, first, delay, gap;
static char whole[2048], *bodies[64];
static int whole_n, lengths[64], tails[64];
static conn *idle;

static void add(sample *s, long long ns) {
    if (s->n == s->room) s->v = realloc(s->v, (s->room = s->room * 2 + 4096) * sizeof *s->v);
    s->v[s->n++] = ns / 1e3f;
}

static void make_bodies(void) {
    static const char *words[] = {"alpha", "beta", "gamma", "delta", "token", "prefix", "cache", "route",
                                  "model", "system", "answer", "question", "vector", "memory", "kernel", "stream"};
    for (int b = 0; b < 64; b++) {
        unsigned seed = b / 8 * 7919 + 13;
        char *s = bodies[b] = malloc(body_n + 1024);
        int n = sprintf(s, "{\"model\":\"m\",%s%s\"max_tokens\":%d,\"messages\":[{\"role\":\"system\",\"content\":\"",
                        events_wanted ? "\"stream\":true," : "", together ? "\"user\":\"steps\"," : "", events_wanted ? events_wanted : 200);
        for (; n < body_n * 3 / 4; n += sprintf(s + n, "%s ", words[(seed >> 16) & 15])) seed = seed * 1103515245 + 12345;
        n += sprintf(s + n, "\"},{\"role\":\"user\",\"content\":\"");
        for (seed = b * 104729 + 7; n < body_n - 24; n += sprintf(s + n, "%s ", words[(seed >> 16) & 15]))
            seed = seed * 1103515245 + 12345;
        tails[b] = n;
        lengths[b] = n + sprintf(s + n, "0000000000000000\"}]}");
    }
}

static void open_conn(conn *c) {
    struct sockaddr_in to = loopback(port);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (c->fd < 0 || connect(c->fd, (void *)&to, sizeof to)) {
        perror("connect");
        exit(1);
    }
    watch(ep, c->fd, EPOLLIN, c, EPOLL_CTL_ADD);
}

static void write_on(conn *c) {
    while (c->out_at < c->out_n) {
        ssize_t w = send(c->fd, c->out + c->out_at, c->out_n - c->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (w < 0) {
            if (errno == EAGAIN) watch(ep, c->fd, EPOLLIN | EPOLLOUT, c, EPOLL_CTL_MOD);
            return; /* an error is seen when reading */
        }
        c->out_at += w;
        if (c->out_at == c->out_n && w < (ssize_t)c->out_n) watch(ep, c->fd, EPOLLIN, c, EPOLL_CTL_MOD);
    }
}

static void ask(conn *c, long long due_ns) {
    int b = begun++ % 64;
    char tail[20];
    sprintf(tail, "%016llx", (unsigned long long)(begun * 2654435761ULL) ^ (unsigned long long)now_ns());
    memcpy(bodies[b] + tails[b], tail, 16);
    int n = sprintf(c->out, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUser-Agent: bench\r\nAccept: */*\r\n"
                            "Content-Type: application/json\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n",
                    port, key, lengths[b]);
    memcpy(c->out + n, bodies[b], lengths[b]);
    c->out_n = n + lengths[b];
    c->out_at = c->first_ns = 0;
    c->busy = 1;
    c->at = c->head_n = c->line_n = c->size_n = c->events = c->done = c->wrong = c->got = 0;
    c->due_ns = due_ns;
    write_on(c);
}

static void line_came(conn *c) {
    const char *mark;
    if (!strncmp(c->line, "data: [DONE]", 12)) c->done = 1;
    else if ((mark = strstr(c->line, "\" n="))) {
        long long at_ns = now_ns();
        c->wrong |= atoi(mark + 4) != c->events++;
        if (!c->first_ns) add(&first, (c->first_ns = at_ns) - c->due_ns);
        else add(&gap, at_ns - c->last_ns);
        c->last_ns = at_ns;
        add(&delay, at_ns - atoll(strstr(mark, "t=") + 2));
    }
}

static void body_came(conn *c, const char *p, long n) {
    if (!events_wanted) {
        c->wrong |= c->got + n > whole_n || memcmp(whole + c->got, p, n);
        c->got += n;
        return;
    }
    for (long i = 0; i < n; i++)
        if (p[i] == '\n') {
            c->line[c->line_n] = 0;
            line_came(c);
            c->line_n = 0;
        } else if (c->line_n < (int)sizeof c->line - 1) c->line[c->line_n++] = p[i];
}

/* 1 when the answer has ended. */
static int read_answer(conn *c, const char *p, long n) {
    while (n > 0) switch (c->at) {
        case HEAD: {
            long had = c->head_n, k = n < (long)sizeof c->head - 1 - had ? n : (long)sizeof c->head - 1 - had;
            memcpy(c->head + had, p, k);
            c->head[c->head_n += k] = 0;
            char *end = strstr(c->head, "\r\n\r\n");
            if (!end) return k < n ? (c->wrong = 1) : 0;
            end[2] = 0;
            p += end + 4 - c->head - had, n -= end + 4 - c->head - had;
            const char *length = field(c->head, "content-length");
            c->wrong |= strncmp(c->head, "HTTP/1.1 200", 12) != 0;
            c->at = length ? FIXED : SIZE;
            c->left = length ? atol(length) : 0;
            if (length && !c->left) return 1;
            break;
        }
        case SIZE:
            if (*p == '\n') {
                c->size[c->size_n] = 0;
                c->left = strtol(c->size, NULL, 16);
                c->size_n = 0;
                c->at = c->left ? DATA : TRAILER;
            } else if (c->size_n < 18) c->size[c->size_n++] = *p;
            p++, n--;
            break;
        case FIXED:
        case DATA: {
            long k = n < c->left ? n : c->left;
            body_came(c, p, k);
            p += k, n -= k;
            if (!(c->left -= k)) {
                if (c->at == FIXED) return 1;
                c->at = AFTER;
            }
            break;
        }
        default: {
            int line_end = *p == '\n', last = c->at == TRAILER;
            p++, n--;
            if (line_end && last) return 1;
            if (line_end) c->at = SIZE;
        }
    }
    return 0;
}

static void ended(conn *c, int whole_came) {
    int right = whole_came && !c->wrong && (events_wanted ? c->events == events_wanted && c->done : c->got == whole_n);
    answers++;
    events_n += c->events;
    add(&latency, now_ns() - c->due_ns);
    if (!right && !bad++)
        snprintf(why, sizeof why, "%s, %d events, %ld bytes, after %.200s", whole_came ? "ended" : "cut", c->events, c->got,
                 c->head);
    c->busy = 0;
}

static void read_on(conn *c) {
    static char in[262144];
    ssize_t r = recv(c->fd, in, sizeof in, MSG_DONTWAIT);
    if (r < 0 && errno == EAGAIN) return;
    int was_busy = c->busy, over = r <= 0;
    if (!over && c->busy && read_answer(c, in, r)) ended(c, 1);
    if (over) {
        if (c->busy) ended(c, 0);
        close(c->fd);
        open_conn(c);
    }
    if (was_busy && !c->busy) c->idle = idle, idle = c;
}

static int rising(const void *a, const void *b) { return (*(float *)a > *(float *)b) - (*(float *)a < *(float *)b); }

static void show(const char *name, sample *s) {
    static const double quantiles[] = {.5, .9, .99, .999, 1};
    qsort(s->v, s->n, sizeof *s->v, rising);
    printf(",\"%s\":[", name);
    for (int i = 0; s->n && i < 5; i++) printf("%s%.1f", i ? "," : "", s->v[(size_t)((s->n - 1) * quantiles[i])]);
    printf("]");
}

static void option(const char *given) {
    const char *value = strchr(given, '=') + 1;
    switch (*given) {
        case 'c': connections = atoi(value); break;
        case 's': seconds = atof(value); break;
        case 'b': body_n = atoi(value); break;
        case 'e': events_wanted = atoi(value); break;
        case 't': together = *value == 'T'; break;
        case 'p': patience = atof(value); break;
        case 'k': snprintf(key, sizeof key, "%s", value); break;
        default: *(given + 1) == 'a' ? (rate = atof(value)) : (requests = atoll(value));
    }
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    port = atoi(argv[1]);
    for (int i = 2; i < argc; i++) option(argv[i]);
    whole_n = whole_answer(whole);
    make_bodies();
    ep = epoll_create1(0);
    for (int i = 0; i < connections; i++) {
        conn *c = calloc(1, sizeof *c);
        c->out = malloc(body_n + 2048);
        open_conn(c);
        c->idle = idle, idle = c;
    }
    usleep(50000);
    long long start_ns = now_ns(), end_ns = start_ns + (long long)(seconds * 1e9), give_up_ns = end_ns + (long long)(patience * 1e9);
    for (;;) {
        long long at_ns = now_ns(), due_ns = at_ns;
        int more = at_ns < end_ns && (!requests || begun < requests);
        while (more && idle) {
            if (rate > 0 && (due_ns = start_ns + (long long)(begun * 1e9 / rate)) > now_ns()) break;
            conn *c = idle;
            idle = c->idle;
            ask(c, due_ns);
            more = !requests || begun < requests;
        }
        if ((!more && answers == begun) || at_ns > give_up_ns) break;
        struct timespec wait = {0, 100000000};
        if (rate > 0 && more && idle && due_ns - now_ns() < 100000000) wait.tv_nsec = due_ns > now_ns() ? due_ns - now_ns() : 0;
        struct epoll_event found[256];
        int n = wait_for(ep, found, 256, &wait);
        for (int i = 0; i < n; i++) {
            conn *c = found[i].data.ptr;
            if (found[i].events & EPOLLOUT) write_on(c);
            if (found[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_on(c);
        }
    }
    long long late = 0;
    for (size_t i = 0; i < delay.n; i++) late += delay.v[i] > 50000;
    for (char *p = why; *p; p++) *p = *p == '"' || *p == '\\' || *p < ' ' ? ' ' : *p;
    printf("{\"answers\":%lld,\"unanswered\":%lld,\"events\":%lld,\"bad\":%lld,\"late\":%lld,\"seconds\":%.4f,\"why\":\"%s\"",
           answers, begun - answers, events_n, bad, late, (now_ns() - start_ns) / 1e9, why);
    show("latency_us", &latency);
    show("first_us", &first);
    show("delay_us", &delay);
    show("gap_us", &gap);
    puts("}");
    return 0;
}
