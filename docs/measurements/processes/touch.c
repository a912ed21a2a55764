/* touch WORKERS PORT THREADS DATA LINES REGIONS TEXT HUGE: what a request costs that touches so much memory.
 *
 * WORKERS processes (THREADS 1: threads) on CPU 0 serve a client each: recv, which waits, writev of 1 KB,
 * sched_yield. Nothing is parsed. In between each request touches of the worker's own memory DATA pages side
 * by side, LINES cache lines of these, and REGIONS pages that are 2 MiB apart; and it calls TEXT functions
 * that return at once, each in a page of its own (HUGE 1: all in one huge page), which all workers share.
 *
 *     cc -O2 -pthread -o touch touch.c && ./touch 80 8080 0 12 60 5 18 0 &
 *     taskset -c 1 wrk -t1 -c64 -d2 http://127.0.0.1:8080/      CPU time: /proc/PID/task/TID/schedstat of all
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096, LINE = 64, REGION = 2 << 20 };

static int listener, data, lines, regions, text;
static unsigned char *code;
static char head[256], body[1024];

static void *memory(size_t bytes) {
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *place = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (place == MAP_FAILED) err(1, "mmap");
    return place;
}

/* Another line of each page, or all would fall into the same sets of the caches. */
static size_t at(int page) { return (size_t)page * LINE % PAGE; }

static void serve(int client, char *near, char *far) {
    char input[16384];
    struct iovec reply[2] = {{head, strlen(head)}, {body, sizeof body}};
    while (recv(client, input, sizeof input, 0) > 0) {
        for (int i = 0; i < data; i++) near[(size_t)i * PAGE + at(i)]++;
        for (int i = 0; i < lines; i++) near[(size_t)i * LINE % ((data ? data : 1) * PAGE)]++;
        for (int i = 0; i < regions; i++) far[(size_t)i * REGION + (size_t)i * PAGE + at(i)]++;
        for (int i = 0; i < text; i++) ((void (*)(void))(uintptr_t)(code + (size_t)i * PAGE + at(i)))();
        if (writev(client, reply, 2) < 0) break;
        sched_yield();
    }
    close(client);
}

static void *work(void *unused) {
    char *near = memory((size_t)(data + 1) * PAGE), *far = memory((size_t)(regions + 1) * REGION);
    for (;;) {
        int client = accept(listener, NULL, NULL), one = 1;
        if (client < 0) continue;
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        serve(client, near, far);
    }
    return unused;
}

/* Functions that return at once, in memory that has been filled before the forks. */
static void make_code(int huge) {
    unsigned char *room = memory(2 * REGION);
    code = (unsigned char *)(((uintptr_t)room + REGION - 1) & ~(uintptr_t)(REGION - 1));
    if (huge) madvise(code, REGION, MADV_HUGEPAGE);
    for (int i = 0; i < text; i++) code[(size_t)i * PAGE + at(i)] = 0xc3;
    if (mprotect(room, 2 * REGION, PROT_READ | PROT_EXEC)) err(1, "mprotect");
}

int main(int count, char **words) {
    if (count != 9) errx(2, "usage: touch WORKERS PORT THREADS DATA LINES REGIONS TEXT HUGE");
    int workers = atoi(words[1]), threads = atoi(words[3]), one = 1;
    data = atoi(words[4]), lines = atoi(words[5]), regions = atoi(words[6]), text = atoi(words[7]);
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(0, &cpu);
    sched_setaffinity(0, sizeof cpu, &cpu);
    signal(SIGPIPE, SIG_IGN);
    snprintf(head, sizeof head,
             "HTTP/1.1 200 OK\r\nServer: touch\r\nDate: Thu, 20 Nov 2025 12:00:00 GMT\r\n"
             "Content-Length: %zu\r\nContent-Type: text/html\r\n\r\n", sizeof body);
    memset(body, 'x', sizeof body);
    make_code(atoi(words[8]));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[2])),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address)) err(1, "bind");
    if (listen(listener, 512)) err(1, "listen");
    for (int i = 0; i < workers; i++) {
        pthread_t thread;
        if (threads) pthread_create(&thread, NULL, work, NULL);
        else if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGTERM);
            work(NULL);
        }
    }
    for (;;) pause();
}
