#include "wire/failure.h"

#include "base/assert.h"

#define VALUE_LEVELS 3 /* Value, Struct and its map entry: what one nesting takes on the wire */

static bool value_cut(Google__Protobuf__Value *value, unsigned levels_left);

static bool list_cut(Google__Protobuf__ListValue *list, unsigned levels_left)
{
    bool cut = false;

    for (size_t i = 0; i < list->n_values; i++)
        cut |= value_cut(list->values[i], levels_left);
    return cut;
}

static bool struct_cut(Google__Protobuf__Struct *object, unsigned levels_left)
{
    bool cut = false;

    for (size_t i = 0; i < object->n_fields; i++) {
        if (object->fields[i]->value) /* an entry without a value is legal */
            cut |= value_cut(object->fields[i]->value, levels_left);
    }
    return cut;
}

/* Recurses levels_left / 3 times at most. */
static bool value_cut(Google__Protobuf__Value *value, unsigned levels_left)
{
    bool is_list = value->kind_case == GOOGLE__PROTOBUF__VALUE__KIND_LIST_VALUE;

    if (!is_list && value->kind_case != GOOGLE__PROTOBUF__VALUE__KIND_STRUCT_VALUE)
        return false;
    if (levels_left < VALUE_LEVELS) {
        value->kind_case = GOOGLE__PROTOBUF__VALUE__KIND_NULL_VALUE;
        value->null_value = GOOGLE__PROTOBUF__NULL_VALUE__NULL_VALUE;
        return true;
    }
    levels_left -= VALUE_LEVELS;
    return is_list ? list_cut(value->list_value, levels_left)
                   : struct_cut(value->struct_value, levels_left);
}

bool wire_failure_cut(TaskFailureDetails *details, unsigned levels)
{
    bool cut = false;

    ASSERT(levels > 0);
    for (unsigned level = 1; details; level++, details = details->innerfailure) {
        for (size_t i = 0; i < details->n_properties; i++) {
            if (details->properties[i]->value)
                cut |= value_cut(details->properties[i]->value, levels - level);
        }
        if (level == levels && details->innerfailure) {
            details->innerfailure = NULL;
            cut = true;
        }
    }
    return cut;
}
