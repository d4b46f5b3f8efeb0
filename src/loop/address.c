/* address.c - addresses as people write them: HOST:PORT, [v6]:PORT, unix:PATH. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "loop/internal.h"

static enum err bad(struct bytes text, const char *why, struct error *err)
{
    return error_set(err, ERR_INVALID,
                     "bad address \"%.*s\": %s; use HOST:PORT, [IPV6]:PORT or unix:PATH",
                     BYTES_FMT(text), why);
}

static bool copy_part(struct bytes part, char *out, size_t size)
{
    if (part.len >= size || memchr(part.ptr, 0, part.len))
        return false;
    memcpy(out, part.ptr, part.len);
    out[part.len] = 0;
    return true;
}

static enum err parse_unix(struct bytes text, struct loop_address *out, struct error *err)
{
    struct bytes path = bytes_of(text.ptr + 5, text.len - 5);
    struct sockaddr_un un;

    if (bytes_starts_with(path, BYTES_LIT("///"))) /* unix:///PATH */
        path = bytes_of(path.ptr + 2, path.len - 2);
    out->is_unix = true;
    if (path.len == 0)
        return bad(text, "it has no path", err);
    if (path.len >= sizeof(un.sun_path) || !copy_part(path, out->host, sizeof(out->host)))
        return bad(text, "the path is too long", err);
    return OK;
}

enum err loop_address_parse(struct bytes text, struct loop_address *out, struct error *err)
{
    struct bytes host, port;
    uint64_t n;

    memset(out, 0, sizeof(*out));
    if (bytes_starts_with(text, BYTES_LIT("unix:")))
        return parse_unix(text, out, err);
    const uint8_t *colon = text.len ? memrchr(text.ptr, ':', text.len) : NULL;
    if (!colon)
        return bad(text, "it has no port", err);
    host = bytes_of(text.ptr, (size_t)(colon - text.ptr));
    port = bytes_of(colon + 1, text.len - host.len - 1);
    if (host.len >= 2 && host.ptr[0] == '[' && host.ptr[host.len - 1] == ']')
        host = bytes_of(host.ptr + 1, host.len - 2);
    else if (host.len > 0 && memchr(host.ptr, ':', host.len))
        return bad(text, "an IPv6 address wants brackets", err);
    if (!bytes_parse_u64(port, &n) || n > 65535 || port.len > 5)
        return bad(text, "the port is not a number from 0 to 65535", err);
    if (host.len == 0)
        return bad(text, "it has no host", err);
    if (!copy_part(host, out->host, sizeof(out->host)) ||
        !copy_part(port, out->port, sizeof(out->port)))
        return bad(text, "the host is too long", err);
    out->is_localhost = strcasecmp(out->host, "localhost") == 0;
    return OK;
}

enum err loop_address_check(struct bytes address, struct error *err)
{
    struct loop_address a;

    return loop_address_parse(address, &a, err);
}

bool loop_address_is_loopback(struct bytes address)
{
    struct loop_address a;
    struct in_addr v4;
    struct in6_addr v6;

    if (loop_address_parse(address, &a, NULL) != OK)
        return false;
    if (a.is_unix || a.is_localhost)
        return true;
    if (inet_pton(AF_INET, a.host, &v4) == 1)
        return (ntohl(v4.s_addr) >> 24) == 127;
    return inet_pton(AF_INET6, a.host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

void loop_sockaddr_format(const struct sockaddr *sa, struct strbuf *out)
{
    char text[INET6_ADDRSTRLEN];

    if (sa->sa_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof(in));
        inet_ntop(AF_INET, &in.sin_addr, text, sizeof(text));
        strbuf_appendf(out, "%s:%u", text, (unsigned)ntohs(in.sin_port));
    } else if (sa->sa_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof(in6));
        inet_ntop(AF_INET6, &in6.sin6_addr, text, sizeof(text));
        strbuf_appendf(out, "[%s]:%u", text, (unsigned)ntohs(in6.sin6_port));
    } else {
        strbuf_append_str(out, "unix:");
    }
}

int loop_unix_socket(const char *path, int *fd, bool connecting)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};

    memcpy(un.sun_path, path, strlen(path) + 1); /* its length was checked when it was parsed */
    *fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (*fd < 0)
        return errno;
    int rv = connecting ? connect(*fd, (struct sockaddr *)&un, sizeof(un))
                        : bind(*fd, (struct sockaddr *)&un, sizeof(un));
    if (rv == 0)
        return 0;
    int e = errno;
    close(*fd);
    *fd = -1;
    return e;
}
