/*
 * The dynamic part of SPECweb99 as Yeung's thesis (2010, section 4.2) has it, as a FastCGI application in
 * C: it reads a file, chooses the advertisement that a user is to see next, and writes it into all places
 * of the file.
 *
 *     cc -O2 specweb99.c -lfcgi -o specweb99 && ./specweb99 SOCKET PROCESSES ROOT
 *
 * The query names the file below ROOT, the user, and the advertisement that this user saw last:
 * file=dynamic/32768.html&user=17&last=211. The choice is the benchmark's rotation of custom
 * advertisements: from the one behind the last on, the first that has not expired and whose weights for
 * what it has in common with the user (gender, age, region, two interests) add up to what it demands at
 * least. Users and advertisements are the benchmark's in shape; their contents, which it has in files, are
 * made from a formula.
 */

#define _GNU_SOURCE
#include "serve.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#define USERS 10000
#define ADVERTISEMENTS 360
#define MOST (64 << 20)

/* What people are, and what advertisements are for: a bit in each group. */
enum { GENDER = 0x30000000, AGE = 0x0f000000, REGION = 0x00f00000, FIRST = 0x000ffc00, SECOND = 0x000003ff };

struct advertisement {
    unsigned people;
    /* For gender, age, region and the two interests. */
    int weights[5];
    int least;
    time_t expires;
};

static unsigned users[USERS];
static struct advertisement advertisements[ADVERTISEMENTS];
static const char *root;
static char *page;

static unsigned next(unsigned *state)
{
    *state = *state * 1664525 + 1013904223;
    return *state >> 8;
}

static unsigned one_of_each(unsigned *state)
{
    unsigned gender = 1u << (28 + next(state) % 2), age = 1u << (24 + next(state) % 4);
    unsigned region = 1u << (20 + next(state) % 4), first = 1u << (10 + next(state) % 10);
    return gender | age | region | first | 1u << next(state) % 10;
}

static void make_tables(void)
{
    unsigned state = 99;
    time_t now = time(NULL);
    for (int user = 0; user < USERS; user++)
        users[user] = one_of_each(&state);
    for (int number = 0; number < ADVERTISEMENTS; number++) {
        struct advertisement *one = &advertisements[number];
        one->people = one_of_each(&state) | one_of_each(&state);
        for (int group = 0; group < 5; group++)
            one->weights[group] = next(&state) % 16;
        one->least = next(&state) % 32;
        /* One in ten has expired. */
        one->expires = next(&state) % 10 == 0 ? now - 1 : now + 365 * 24 * 3600;
    }
}

static int weight(const struct advertisement *one, unsigned user)
{
    static const unsigned groups[5] = {GENDER, AGE, REGION, FIRST, SECOND};
    int sum = 0;
    for (int group = 0; group < 5; group++)
        if (one->people & user & groups[group])
            sum += one->weights[group];
    return sum;
}

/* The advertisement behind `last` that suits a user; the last one again where none does. */
static int rotate(unsigned user, int last)
{
    time_t now = time(NULL);
    for (int step = 1; step <= ADVERTISEMENTS; step++) {
        int number = (last + step) % ADVERTISEMENTS;
        const struct advertisement *one = &advertisements[number];
        if (weight(one, user) >= one->least && one->expires > now)
            return number;
    }
    return last;
}

/* Writes an advertisement into all places of a page: the path of its picture, of the same length. */
static void substitute(char *text, size_t bytes, int number)
{
    static const char place[] = "<!WEB99CAD><IMG SRC=\"/file_set/";
    static const char old[] = "dir00000/class0_0";
    unsigned file = (unsigned)number % ADVERTISEMENTS;
    char path[64];
    snprintf(path, sizeof path, "dir%05u/class%u_%u", file / 36, file % 36 / 9, file % 9);
    char *at = text, *end = text + bytes;
    while ((at = memmem(at, end - at, place, sizeof place - 1)) != NULL) {
        at += sizeof place - 1;
        if ((size_t)(end - at) < sizeof old - 1)
            return;
        memcpy(at, path, sizeof old - 1);
    }
}

/* Reads a file into `page`: its bytes, or -1 with errno. */
static ssize_t read_page(const char *name)
{
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", root, name) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    ssize_t bytes = 0, count;
    while (bytes < MOST && (count = read(file, page + bytes, MOST - bytes)) != 0) {
        if (count < 0 && errno != EINTR) {
            close(file);
            return -1;
        }
        if (count > 0)
            bytes += count;
    }
    close(file);
    return bytes;
}

/* The name of the file in a query: nothing that leads out of the root. */
static int name_of(const char *query, char *name, size_t room)
{
    static const char key[] = "file=";
    if (strncmp(query, key, sizeof key - 1) != 0)
        return -1;
    query += sizeof key - 1;
    size_t length = strcspn(query, "&");
    if (length == 0 || length >= room || *query == '/')
        return -1;
    memcpy(name, query, length);
    name[length] = '\0';
    return strstr(name, "..") == NULL ? 0 : -1;
}

static void answer(FCGX_Request *request, const char *query)
{
    char name[1024];
    long user = number(query, "user", 0, USERS - 1), last = number(query, "last", 0, ADVERTISEMENTS - 1);
    if (name_of(query, name, sizeof name) != 0 || user < 0 || last < 0) {
        refuse(request, "400 Bad Request", "allowed: file=PATH&user=0 to 9999&last=0 to 359");
        return;
    }
    ssize_t bytes = read_page(name);
    if (bytes < 0) {
        refuse(request, "404 Not Found", strerror(errno));
        return;
    }
    int chosen = rotate(users[user], (int)last);
    substitute(page, bytes, chosen);
    FCGX_FPrintF(request->out, "Set-Cookie: found_cookie=Ad_id=%d&Ad_weight=%d\r\n", chosen,
                 weight(&advertisements[chosen], users[user]));
    head(request, query, bytes);
    FCGX_PutStr(page, (int)bytes, request->out);
}

int main(int count, char **arguments)
{
    if (count < 4) {
        fprintf(stderr, "%s SOCKET PROCESSES ROOT\n", arguments[0]);
        return 2;
    }
    root = arguments[3];
    page = malloc(MOST);
    if (page == NULL) {
        perror("malloc");
        return 1;
    }
    make_tables();
    return run(arguments[1], arguments[2], answer);
}
