#include "base/time.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"

#define USEC_PER_DAY (86400 * USEC_PER_SEC)

usec_t usec_add(usec_t a, usec_t b)
{
    usec_t sum;

    if (a == USEC_NEVER || b == USEC_NEVER)
        return USEC_NEVER;
    if (__builtin_add_overflow(a, b, &sum))
        return a > 0 ? USEC_NEVER : 0;
    return sum < 0 ? 0 : sum;
}

/* ---- durations and sizes: a whole number and a unit -------------------------------------------- */

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit TIME_UNITS[] = {
    {"us", 1},
    {"ms", 1000},
    {"s", 1000000},
    {"m", UINT64_C(60) * 1000000},
    {"h", UINT64_C(3600) * 1000000},
    {"d", UINT64_C(86400) * 1000000},
};

static const struct unit SIZE_UNITS[] = {
    {"", 1},
    {"B", 1},
    {"KiB", UINT64_C(1) << 10},
    {"MiB", UINT64_C(1) << 20},
    {"GiB", UINT64_C(1) << 30},
    {"TiB", UINT64_C(1) << 40},
};

/* "off" and "0" are 0; otherwise digits and a unit of the table, at most `max`. */
static bool parse_amount(struct bytes text, const struct unit *units, size_t unit_count,
                         uint64_t max, uint64_t *out)
{
    size_t digits = 0;
    uint64_t number, value;

    if (bytes_eq(text, BYTES_LIT("off")) || bytes_eq(text, BYTES_LIT("0"))) {
        *out = 0;
        return true;
    }
    while (digits < text.len && text.ptr[digits] >= '0' && text.ptr[digits] <= '9')
        digits++;
    if (!bytes_parse_u64(bytes_of(text.ptr, digits), &number))
        return false;
    struct bytes name = bytes_of(text.ptr + digits, text.len - digits);
    for (size_t i = 0; i < unit_count; i++) {
        if (!bytes_eq(name, bytes_str(units[i].name)))
            continue;
        if (__builtin_mul_overflow(number, units[i].factor, &value) || value > max)
            return false;
        *out = value;
        return true;
    }
    return false;
}

static bool parse_duration(struct bytes text, usec_t *out)
{
    uint64_t value;
    if (!parse_amount(text, TIME_UNITS, ARRAY_LEN(TIME_UNITS), USEC_NEVER - 1, &value))
        return false;
    *out = (usec_t)value;
    return true;
}

enum err usec_parse_duration(struct bytes text, usec_t *out, struct error *err)
{
    if (!parse_duration(text, out))
        return error_set(
            err, ERR_INVALID,
            "\"%.*s\" is not a duration: use a number and us, ms, s, m, h or d, as in 30s",
            BYTES_FMT(text));
    return OK;
}

enum err size_parse(struct bytes text, uint64_t *out, struct error *err)
{
    if (!parse_amount(text, SIZE_UNITS, ARRAY_LEN(SIZE_UNITS), UINT64_MAX, out))
        return error_set(err, ERR_INVALID,
                         "\"%.*s\" is not a size: use a number and KiB, MiB or GiB, as in 64MiB",
                         BYTES_FMT(text));
    return OK;
}

/* ---- dates ------------------------------------------------------------------------------------- */

/* Days since 1970-01-01 of a date of the Gregorian calendar, and back. Years start in March, so that
 * the leap day is the last one; an era is 400 years of 146097 days. */
static int64_t days_of_date(int64_t year, int month, int day)
{
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400;
    int64_t year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1;
    int64_t day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return era * 146097 + day_of_era - 719468;
}

static void date_of_days(int64_t days, int64_t *year, int *month, int *day)
{
    int64_t d = days + 719468;
    int64_t era = (d >= 0 ? d : d - 146096) / 146097;
    int64_t doe = d - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    int64_t mp = (5 * doy + 2) / 153;
    *day = (int)(doy - (153 * mp + 2) / 5 + 1);
    *month = (int)(mp < 10 ? mp + 3 : mp - 9);
    *year = yoe + era * 400 + (*month <= 2);
}

static int days_in_month(int64_t year, int month)
{
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : DAYS[month - 1];
}

/* Exactly `count` digits from the front of *text. */
static bool take_number(struct bytes *text, size_t count, int *out)
{
    uint64_t value;
    if (text->len < count || !bytes_parse_u64(bytes_of(text->ptr, count), &value))
        return false;
    *text = bytes_of(text->ptr + count, text->len - count);
    *out = (int)value;
    return true;
}

/* One of the characters of `set`. */
static bool take_char(struct bytes *text, const char *set)
{
    if (text->len == 0 || text->ptr[0] == '\0' || !strchr(set, text->ptr[0]))
        return false;
    *text = bytes_of(text->ptr + 1, text->len - 1);
    return true;
}

/* The digits of a fraction of a second, as microseconds rounded up: a time is never early. */
static bool take_fraction(struct bytes *text, usec_t *out)
{
    usec_t value = 0, unit = USEC_PER_SEC / 10;
    bool finer = false;
    size_t i = 0;

    for (; i < text->len && text->ptr[i] >= '0' && text->ptr[i] <= '9'; i++) {
        int digit = text->ptr[i] - '0';
        value += digit * unit;
        finer |= unit == 0 && digit > 0;
        unit /= 10;
    }
    *text = bytes_of(text->ptr + i, text->len - i);
    *out = value + finer;
    return i > 0;
}

/* `Z` or `+hh:mm`, as microseconds to subtract. */
static bool take_offset(struct bytes *text, usec_t *out)
{
    bool west = text->len > 0 && text->ptr[0] == '-';
    int hour, minute;

    *out = 0;
    if (take_char(text, "Zz"))
        return true;
    if (!take_char(text, "+-") || !take_number(text, 2, &hour) || !take_char(text, ":") ||
        !take_number(text, 2, &minute) || hour > 23 || minute > 59)
        return false;
    usec_t offset = (hour * 60 + minute) * 60 * USEC_PER_SEC;
    *out = west ? -offset : offset;
    return true;
}

static bool parse_rfc3339(struct bytes text, usec_t *out)
{
    int year, month, day, hour, minute, second;
    usec_t fraction = 0, offset;

    if (!take_number(&text, 4, &year) || !take_char(&text, "-") || !take_number(&text, 2, &month) ||
        !take_char(&text, "-") || !take_number(&text, 2, &day) || !take_char(&text, "Tt ") ||
        !take_number(&text, 2, &hour) || !take_char(&text, ":") ||
        !take_number(&text, 2, &minute) || !take_char(&text, ":") ||
        !take_number(&text, 2, &second))
        return false;
    if (take_char(&text, ".") && !take_fraction(&text, &fraction))
        return false;
    if (!take_offset(&text, &offset) || text.len > 0)
        return false;
    if (month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 60) /* 60: a leap second, the next minute's first for us */
        return false;
    *out = days_of_date(year, month, day) * USEC_PER_DAY +
           ((hour * 60 + minute) * 60 + second) * USEC_PER_SEC + fraction - offset;
    return true;
}

enum err usec_parse_time(struct bytes text, usec_t now, usec_t *out, struct error *err)
{
    bool relative = text.len > 0 && (text.ptr[0] == '+' || text.ptr[0] == '-');
    usec_t duration;

    if (relative && parse_duration(bytes_of(text.ptr + 1, text.len - 1), &duration)) {
        *out = usec_add(now, text.ptr[0] == '-' ? -duration : duration);
        return OK;
    }
    if (!relative && parse_rfc3339(text, out))
        return OK;
    return error_set(err, ERR_INVALID,
                     "\"%.*s\" is not a time: use 2026-12-01T08:30:00Z, or +30s and -2h for a time "
                     "from now",
                     BYTES_FMT(text));
}

void usec_format(usec_t t, char out[USEC_TEXT_LEN])
{
    int64_t days = t / USEC_PER_DAY;
    usec_t rest = t % USEC_PER_DAY;
    int64_t year;
    int month, day;

    if (rest < 0) {
        rest += USEC_PER_DAY;
        days--;
    }
    date_of_days(days, &year, &month, &day);
    int seconds = (int)(rest / USEC_PER_SEC);
    char text[2 * USEC_TEXT_LEN]; /* the compiler knows no range of its parts, but that they fit */
    int n =
        snprintf(text, sizeof(text), "%04" PRId64 "-%02d-%02dT%02d:%02d:%02d.%06dZ", year, month,
                 day, seconds / 3600, seconds / 60 % 60, seconds % 60, (int)(rest % USEC_PER_SEC));
    ASSERT(n > 0 && n < USEC_TEXT_LEN);
    memcpy(out, text, (size_t)n + 1);
}
