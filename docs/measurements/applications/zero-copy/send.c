/*
 * What it takes to send a reply from a program's own memory, by four ways:
 *
 *   copy       send(2)
 *   zerocopy   send(2) with MSG_ZEROCOPY, and waiting until the kernel has told that it needs the pages no more
 *   splice     vmsplice(2) and splice(2) of pages that never change. Nobody tells when the kernel needs them no
 *              more, so that this is of use to no program whose next reply is another
 *   fresh      the same of pages that are made for each reply, which a program may fill and then forgets
 *
 *     cc -O2 send.c -o send
 *     ./send receive ADDRESS PORT &
 *     ./send copy ADDRESS PORT BYTES SECONDS
 *
 * The receiver answers each reply with a byte, as a client does with its next request. Prints replies per second
 * and CPU time of the sender for each, in microseconds.
 */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define MUST(call) ({ __typeof__(call) got = (call); if (got < 0) { perror(#call); exit(1); } got; })

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void receive(struct sockaddr_in address)
{
    static char buffer[1 << 20];
    int yes = 1, listener = MUST(socket(AF_INET, SOCK_STREAM, 0));
    MUST(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    MUST(bind(listener, (struct sockaddr *)&address, sizeof address));
    MUST(listen(listener, 1));
    for (;;) {
        int sender = MUST(accept(listener, NULL, NULL));
        MUST(setsockopt(sender, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
        uint64_t bytes, got = 0;
        if (recv(sender, &bytes, sizeof bytes, MSG_WAITALL) == sizeof bytes) {
            ssize_t count;
            while ((count = recv(sender, buffer, sizeof buffer, 0)) > 0) {
                got += count;
                if (got == bytes) {
                    got = 0;
                    if (send(sender, "", 1, MSG_NOSIGNAL) != 1)
                        break;
                }
            }
        }
        close(sender);
    }
}

static void copied(int client, const char *reply, size_t bytes)
{
    for (size_t at = 0; at < bytes;)
        at += MUST(send(client, reply + at, bytes - at, 0));
}

/* How many calls are done with. */
static unsigned completed(int client)
{
    char control[128];
    struct msghdr message = { .msg_control = control, .msg_controllen = sizeof control };
    if (recvmsg(client, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
        if (errno != EAGAIN) {
            perror("recvmsg");
            exit(1);
        }
        return 0;
    }
    struct sock_extended_err *error = (void *)CMSG_DATA(CMSG_FIRSTHDR(&message));
    return error->ee_data - error->ee_info + 1;
}

static void uncopied(int client, const char *reply, size_t bytes)
{
    unsigned calls = 0;
    for (size_t at = 0; at < bytes; calls++)
        at += MUST(send(client, reply + at, bytes - at, MSG_ZEROCOPY));
    while (calls > 0) {
        unsigned done = completed(client);
        calls -= done;
        if (done == 0) {
            struct pollfd waits = { .fd = client };
            MUST(poll(&waits, 1, -1));
        }
    }
}

static void spliced(int client, const int pipe[2], const char *reply, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        struct iovec pages = { (char *)reply + at, bytes - at };
        size_t left = MUST(vmsplice(pipe[1], &pages, 1, SPLICE_F_GIFT));
        at += left;
        while (left > 0)
            left -= MUST(splice(pipe[0], NULL, client, NULL, left, at < bytes ? SPLICE_F_MORE : 0));
    }
}

int main(int count, char **words)
{
    if (count != 4 && count != 6) {
        fprintf(stderr, "%s receive ADDRESS PORT, or copy|zerocopy|splice|fresh ADDRESS PORT BYTES SECONDS\n", words[0]);
        return 2;
    }
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(atoi(words[3])) };
    inet_pton(AF_INET, words[2], &address.sin_addr);
    if (count == 4)
        receive(address);
    char way = words[1][0];
    uint64_t bytes = strtoull(words[4], NULL, 10);
    double seconds = atof(words[5]);
    int yes = 1, client = MUST(socket(AF_INET, SOCK_STREAM, 0)), pipe[2];
    MUST(connect(client, (struct sockaddr *)&address, sizeof address));
    MUST(setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    if (way == 'z')
        MUST(setsockopt(client, SOL_SOCKET, SO_ZEROCOPY, &yes, sizeof yes));
    MUST(pipe2(pipe, 0));
    MUST(fcntl(pipe[1], F_SETPIPE_SZ, 1 << 20));
    int protection = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *reply = mmap(NULL, bytes, protection, flags, -1, 0);
    memset(reply, '=', bytes);
    MUST(send(client, &bytes, sizeof bytes, 0));

    double until = now(CLOCK_MONOTONIC) + seconds, cpu = now(CLOCK_PROCESS_CPUTIME_ID), began = until - seconds, end;
    unsigned long replies = 0;
    do {
        if (way == 'c') {
            copied(client, reply, bytes);
        } else if (way == 'z') {
            uncopied(client, reply, bytes);
        } else if (way == 's') {
            spliced(client, pipe, reply, bytes);
        } else {
            char *fresh = mmap(NULL, bytes, protection, flags, -1, 0);
            memcpy(fresh, reply, bytes);
            spliced(client, pipe, fresh, bytes);
            munmap(fresh, bytes);
        }
        char next;
        if (MUST(recv(client, &next, 1, 0)) == 0)
            return 1;
        replies++;
    } while ((end = now(CLOCK_MONOTONIC)) < until);
    cpu = now(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%.1f,%.2f\n", replies / (end - began), cpu / replies * 1e6);
    return 0;
}
