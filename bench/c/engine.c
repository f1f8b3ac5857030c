/* The benchmarks' engine: engine GAP_US PORT...   One thread, as cheap as a peer can be.
 *
 * POST: 1.1 KB of JSON, or with "stream":true as many events as "max_tokens" says, GAP_US apart, one write each,
 * each with its number and the instant it was sent.  GET: what routers ask of engines.
 *
 * When within a gap a stream's events are sent is its own: as far from the others' as can be (how quickly a proxy
 * passed the requests on must not decide whether it sleeps between their events), or with "user":"steps" the same for
 * all, as an engine's step gives each of its streams a token. */
#include "http.h"

typedef struct conn {
    int fd, listening, number, left;
    char *in;
    size_t n, room;
    long long due_ns;
    struct conn *next, *before; /* in the queue of streams, by when they are due */
} conn;

static int ep;
static long long gap_ns;
static conn queue = {.next = &queue, .before = &queue};
static char whole[2048], tokens[2048];
static int whole_n;

static void unqueue(conn *c) {
    if (!c->next) return;
    c->next->before = c->before;
    c->before->next = c->next;
    c->next = c->before = NULL;
}

/* All have one gap, so only a stream's first event may be due before those that wait. */
static void enqueue(conn *c) {
    conn *at = queue.before;
    while (at != &queue && at->due_ns > c->due_ns) at = at->before;
    c->before = at;
    c->next = at->next;
    at->next = at->next->before = c;
}

/* The next instant of this phase (a share of the gap). */
static long long next_ns(double phase) {
    long long at_ns = now_ns(), due_ns = at_ns - at_ns % gap_ns + (long long)(phase * gap_ns);
    return due_ns > at_ns ? due_ns : due_ns + gap_ns;
}

static void drop(conn *c) {
    unqueue(c);
    close(c->fd);
    free(c->in);
    free(c);
}

/* An answer that does not fit the socket's buffer ends the connection: the client counts it as wrong. */
static int put(conn *c, const char *data, size_t n) {
    if (send(c->fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n) return 1;
    drop(c);
    return 0;
}

static int put_answer(conn *c, const char *status, const char *type, const char *body, size_t n) {
    char out[4096];
    int k = sprintf(out, "HTTP/1.1 %s\r\ndate: Sat, 29 Nov 2025 00:00:00 GMT\r\nserver: uvicorn\r\ncontent-length: %zu\r\n"
                         "content-type: %s\r\n\r\n", status, n, type);
    memcpy(out + k, body, n);
    return put(c, out, k + n);
}

/* The next event of a stream; its last one ends the answer. */
static int put_event(conn *c, char *out) {
    char event[512];
    int last = c->left-- == 0, n = last ? sprintf(event, LAST_EVENT) : sprintf(event, EVENT, c->number++, now_ns());
    return sprintf(out, "%x\r\n%s\r\n%s", n, event, last ? "0\r\n\r\n" : "");
}

static int answer_get(conn *c, const char *path) {
    const char *body = "{\"status\":\"ok\",\"version\":\"0.11.0\"}", *type = "application/json";
    if (!strncmp(path, "/v1/models", 10))
        body = "{\"object\":\"list\",\"data\":[{\"id\":\"m\",\"object\":\"model\",\"created\":1760000000,"
               "\"owned_by\":\"vllm\",\"root\":\"m\",\"parent\":null,\"max_model_len\":131072}]}";
    else if (strstr(path, "_info") || !strncmp(path, "/model_info", 11))
        body = "{\"model_path\":\"m\",\"served_model_name\":\"m\",\"tokenizer_path\":\"m\",\"is_generation\":true,"
               "\"dp_size\":1,\"tp_size\":1,\"version\":\"0.5.5\",\"internal_states\":[{}]}";
    else if (!strncmp(path, "/metrics", 8)) {
        body = "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"m\"} 0\n";
        type = "text/plain";
    }
    return put_answer(c, "200 OK", type, body, strlen(body));
}

static int answer_post(conn *c, const char *path, const char *body) {
    if (!strncmp(path, "/tokenize", 9)) return put_answer(c, "200 OK", "application/json", tokens, strlen(tokens));
    if (strstr(path, "/render ")) return put_answer(c, "404 Not Found", "application/json", "{}", 2);
    if (!strstr(body, "\"stream\":true")) return put_answer(c, "200 OK", "application/json", whole, whole_n);
    char out[1024];
    const char *wanted = strstr(body, "\"max_tokens\":"); /* some routers give it its newer name */
    if (!wanted) wanted = strstr(body, "\"max_completion_tokens\":");
    c->left = wanted ? atoi(strchr(wanted, ':') + 1) : 1;
    c->number = 0;
    int n = sprintf(out, "HTTP/1.1 200 OK\r\ndate: Sat, 29 Nov 2025 00:00:00 GMT\r\nserver: uvicorn\r\n"
                         "content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n");
    n += put_event(c, out + n);
    static double phase;
    phase += 0.6180339887498949; /* the golden ratio: however many there are, they lie evenly */
    phase -= phase >= 1;
    c->due_ns = next_ns(strstr(body, "\"user\":\"steps\"") ? 0 : phase);
    enqueue(c);
    return put(c, out, n);
}

/* Answer what came, one request after the other. */
static void came(conn *c) {
    for (;;) {
        if (c->room - c->n < 65536) c->in = realloc(c->in, (c->room = c->room * 2 + 131072) + 1);
        ssize_t r = recv(c->fd, c->in + c->n, c->room - c->n, MSG_DONTWAIT);
        if (r < 0 && errno == EAGAIN) break;
        if (r <= 0) return drop(c);
        c->n += r;
        if (c->n < c->room) break;
    }
    while (!c->next && c->n) {
        c->in[c->n] = 0;
        char *end = strstr(c->in, "\r\n\r\n");
        if (!end) return;
        if (strncmp(c->in, "GET /", 5) && strncmp(c->in, "POST /", 6)) return drop(c); /* a try at HTTP/2 */
        size_t head_n = end + 4 - c->in;
        char *path = strchr(c->in, ' ') + 1, saved = *(end + 2);
        *(end + 2) = 0;
        const char *length = field(c->in, "content-length"), *coding = field(c->in, "transfer-encoding");
        *(end + 2) = saved;
        if (coding) return drop(c); /* none of the peers makes chunks of a request that has a length */
        size_t used = head_n + (length ? strtoul(length, NULL, 10) : 0);
        if (c->n < used) return;
        char after = c->in[used];
        c->in[used] = 0;
        if (!(*c->in == 'G' ? answer_get(c, path) : answer_post(c, path, c->in + head_n))) return;
        c->in[used] = after;
        memmove(c->in, c->in + used, c->n -= used);
    }
}

static void send_due(void) {
    for (conn *c = queue.next; c != &queue && c->due_ns <= now_ns(); c = queue.next) {
        char out[1024];
        unqueue(c);
        int ended = c->left == 0;
        if (!put(c, out, put_event(c, out)) || ended) continue;
        c->due_ns += gap_ns;
        enqueue(c);
    }
}

int main(int argc, char **argv) {
    signal(SIGPIPE, SIG_IGN);
    gap_ns = atoll(argv[1]) * 1000;
    whole_n = whole_answer(whole);
    strcpy(tokens, "{\"count\":128,\"max_model_len\":131072,\"tokens\":[1");
    for (int i = 1; i < 128; i++) sprintf(tokens + strlen(tokens), ",%d", 1000 + i * 37);
    strcat(tokens, "]}");
    ep = epoll_create1(0);
    for (int i = 2; i < argc; i++) {
        struct sockaddr_in at = loopback(atoi(argv[i]));
        conn *c = calloc(1, sizeof *c);
        c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        c->listening = 1;
        setsockopt(c->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(c->fd, (void *)&at, sizeof at) || listen(c->fd, 4096)) return perror("listen"), 1;
        watch(ep, c->fd, EPOLLIN, c, EPOLL_CTL_ADD);
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        struct epoll_event events[256];
        struct timespec wait = {0}, *limit = queue.next == &queue ? NULL : &wait;
        if (limit) {
            long long left = queue.next->due_ns - now_ns();
            if (left > 0) wait = (struct timespec){left / 1000000000, left % 1000000000};
        }
        int n = wait_for(ep, events, 256, limit);
        for (int i = 0; i < n; i++) {
            conn *c = events[i].data.ptr;
            if (!c->listening) {
                came(c);
                continue;
            }
            for (int fd; (fd = accept4(c->fd, NULL, NULL, SOCK_NONBLOCK)) >= 0;) {
                conn *fresh = calloc(1, sizeof *fresh);
                fresh->fd = fd;
                setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
                watch(ep, fd, EPOLLIN, fresh, EPOLL_CTL_ADD);
            }
        }
        send_due();
    }
}
