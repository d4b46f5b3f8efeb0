/* fuzz_keys.c - the file of API keys, and what is shown as a key: the first line is the key, the rest the file.
 *
 * Whatever is written: no crash, an error is text, what was accepted is within its limits, is written again as it was read, and the
 * key that is found has the id that was shown.
 */
#include "base/assert.h"
#include "base/keys.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes in = bytes_of(data, size);
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    struct bytes shown = bytes_of(data, end ? (size_t)(end - data) : 0);
    struct bytes file = end ? bytes_of(end + 1, in.len - shown.len - 1) : in;
    struct keys *keys;
    struct error err = {0};

    if (keys_parse(file, &keys, &err)) {
        ASSERT(err.code == ERR_INVALID && err.msg[0] != 0);
        return 0;
    }
    for (size_t i = 0; i < keys_count(keys); i++) {
        const struct key *k = keys_at(keys, i);
        CLEANUP(strbuf_deinit) struct strbuf roles = {0}, hubs = {0};
        uint32_t again = 0;
        ASSERT(k->roles != 0 && (k->roles & ~(uint32_t)ROLES_ALL) == 0);
        roles_format(k->roles, &roles);
        ASSERT(roles_parse(strbuf_bytes(&roles), &again, NULL) == OK && again == k->roles);
        ASSERT(key_hubs_parse(k->hubs, &hubs, NULL) == OK &&
               bytes_eq(strbuf_bytes(&hubs), k->hubs));
        ASSERT(k->name.len <= KEY_NAME_MAX && utf8_is_valid(k->name));
        ASSERT(keys_of_id(keys, bytes_str(k->id)) == k);
    }
    const struct key *found = keys_find(keys, shown);
    if (found)
        ASSERT(bytes_eq_nocase(bytes_of(shown.ptr + 4, KEY_ID_LEN), bytes_str(found->id)));
    keys_unref(keys);
    return 0;
}
