#!/usr/bin/env python3
"""Hold compiled .proto files to a wire table, both ways.

    protoc -I proto --include_imports --descriptor_set_out=set.pb proto/*.proto
    python3 check_wire.py set.pb durabletask.txt
    python3 check_wire.py set.pb --print perdure.v1    # a table of that package, as it is now

A table describes everything of one package:

    package NAME                    first line; "package" alone: no package
    message NAME                    nested ones with dots, without the package
        NUMBER NAME TYPE [in ONEOF] [deprecated]
        reserved NUMBER
    enum NAME
        NUMBER NAME
    service NAME
        NAME: REQUEST -> RESPONSE   either side may begin with "stream "

TYPE is a scalar or a full name, `repeated T`, `optional T` or `map<K, V>`; # begins a comment.
Exit status: 0 all agrees, 1 something is missing, extra or changed, 2 the input cannot be used.
"""

import sys

SCALARS = {1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64",
           7: "fixed32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32", 15: "sfixed32",
           16: "sfixed64", 17: "sint32", 18: "sint64"}
GROUP, REPEATED = 10, 3


class Unusable(Exception):
    pass


# ---- descriptors: just enough of protobuf to read them ------------------------------------------

class Node:
    """One message of descriptor.proto; get() by field number."""

    def __init__(self, data):
        self.values = {}
        at = 0
        while at < len(data):
            tag, at = self.varint(data, at)
            kind = tag & 7
            if kind == 0:
                value, at = self.varint(data, at)
            elif kind == 2:
                size, at = self.varint(data, at)
                value, at = data[at:at + size], at + size
            elif kind in (1, 5):
                size = 8 if kind == 1 else 4
                value, at = data[at:at + size], at + size
            else:
                raise Unusable("not a descriptor set: wire type %d" % kind)
            if at > len(data):
                raise Unusable("not a descriptor set: cut short")
            self.values.setdefault(tag >> 3, []).append(value)

    @staticmethod
    def varint(data, at):
        value = 0
        for shift in range(0, 70, 7):
            if at >= len(data):
                raise Unusable("not a descriptor set: cut short")
            value |= (data[at] & 0x7F) << shift
            at += 1
            if data[at - 1] < 0x80:
                return value, at
        raise Unusable("not a descriptor set: a varint of more than ten bytes")

    def number(self, field):
        return self.values.get(field, [0])[-1]

    def text(self, field):
        return self.values.get(field, [b""])[-1].decode()

    def nodes(self, field):
        return [Node(v) for v in self.values.get(field, [])]

    def node(self, field):
        return Node(b"".join(self.values.get(field, [])))


def field_type(field, entries):
    kind = field.number(5)
    name = SCALARS.get(kind) or field.text(6).lstrip(".")
    if kind == GROUP:
        raise Unusable("group in field %s" % field.text(1))
    if name in entries:
        return "map<%s, %s>" % entries[name]
    if field.number(4) == REPEATED:
        return "repeated " + name
    return ("optional " if field.number(17) else "") + name


def describe_message(out, scope, name, node):
    full = (scope + "." if scope else "") + name
    entries = {}
    for nested in node.nodes(3):
        if nested.node(7).number(7):  # MessageOptions.map_entry
            parts = {f.number(3): field_type(f, {}) for f in nested.nodes(2)}
            entries[full + "." + nested.text(1)] = (parts[1], parts[2])
    short = name
    out["message " + short] = ""
    oneofs = [o.text(1) for o in node.nodes(8)]
    for field in node.nodes(2):
        text = "%d %s" % (field.number(3), field_type(field, entries))
        if 9 in field.values and not field.number(17):
            text += " in " + oneofs[field.number(9)]
        if field.node(8).number(3):
            text += " deprecated"
        out["field %s.%s" % (short, field.text(1))] = text
    for span in node.nodes(9):
        for number in range(span.number(1), span.number(2)):
            out["reserved %s.%d" % (short, number)] = ""
    for nested in node.nodes(3):
        if not nested.node(7).number(7):
            describe_message(out, scope, short + "." + nested.text(1), nested)
    for enum in node.nodes(4):
        describe_enum(out, short + "." + enum.text(1), enum)


def describe_enum(out, name, node):
    out["enum " + name] = ""
    for value in node.nodes(2):
        number = value.number(2)
        out["value %s.%s" % (name, value.text(1))] = str(number if number < 1 << 63 else number - (1 << 64))


def describe(files, package):
    """{key: what the .proto files say about it}, of one package."""
    out = {}
    for file in files:
        if file.text(2) != package:
            continue
        for message in file.nodes(4):
            describe_message(out, package, message.text(1), message)
        for enum in file.nodes(5):
            describe_enum(out, enum.text(1), enum)
        for service in file.nodes(6):
            out["service " + service.text(1)] = ""
            for method in service.nodes(2):
                sides = [("stream " if method.number(s) else "") + method.text(t).lstrip(".")
                         for t, s in ((2, 5), (3, 6))]
                out["method %s.%s" % (service.text(1), method.text(1))] = " -> ".join(sides)
    return out


# ---- tables -------------------------------------------------------------------------------------

def read_table(path):
    """(package, {key: what the table says about it})"""
    out, package, kind, scope = {}, None, None, None
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].rstrip() for line in file]
    for count, line in enumerate(lines, 1):
        words = line.split()
        if not words:
            continue
        key = text = ""
        if not line[0].isspace():
            if words[0] == "package":
                package = words[1] if len(words) > 1 else ""
                continue
            kind, scope = words[0], words[-1]
            if kind not in ("message", "enum", "service") or len(words) != 2:
                raise Unusable("%s:%d: %r" % (path, count, line))
            key = "%s %s" % (kind, scope)
        elif kind == "message" and words[0] == "reserved" and len(words) == 2:
            key = "reserved %s.%s" % (scope, words[1])
        elif kind == "message" and len(words) >= 3:
            key, text = "field %s.%s" % (scope, words[1]), " ".join(words[:1] + words[2:])
        elif kind == "enum" and len(words) == 2:
            key, text = "value %s.%s" % (scope, words[1]), words[0]
        elif kind == "service" and words[0].endswith(":"):
            key, text = "method %s.%s" % (scope, words[0][:-1]), " ".join(words[1:])
        else:
            raise Unusable("%s:%d: %r" % (path, count, line))
        if key in out:
            raise Unusable("%s:%d: %s is there twice" % (path, count, key))
        out[key] = text
    if package is None or not out:
        raise Unusable("%s: no package line, or nothing in it" % path)
    return package, out


def print_table(package, found):
    print(("package " + package).rstrip())
    for key, text in found.items():
        kind, name = key.split(" ")
        last = name.rsplit(".", 1)[-1]
        if kind in ("message", "enum", "service"):
            print("\n%s %s" % (kind, name))
        elif kind == "field":
            number, rest = text.split(" ", 1)
            print("    %s %s %s" % (number, last, rest))
        elif kind == "value":
            print("    %s %s" % (text, last))
        elif kind == "reserved":
            print("    reserved " + last)
        else:
            print("    %s: %s" % (last, text))


def compare(table, found):
    bad = []
    for key in table:
        if key not in found:
            bad.append("missing: %s %s" % (key, table[key]))
        elif found[key] != table[key]:
            bad.append("changed: %s: the table has \"%s\", the .proto \"%s\"" % (key, table[key], found[key]))
    bad += ["extra: %s %s" % (key, found[key]) for key in found if key not in table]
    return bad


def main(argv):
    if len(argv) not in (3, 4) or (len(argv) == 4 and argv[2] != "--print"):
        sys.exit(__doc__)
    try:
        with open(argv[1], "rb") as file:
            files = Node(file.read()).nodes(1)
        if len(argv) == 4:
            print_table(argv[3], describe(files, argv[3]))
            return 0
        package, table = read_table(argv[2])
        bad = compare(table, describe(files, package))
    except (Unusable, OSError, UnicodeDecodeError) as error:
        print("check_wire: %s" % error, file=sys.stderr)
        return 2
    for line in bad:
        print(line)
    print("%s: %d definitions, %d mismatches" % (argv[2], len(table), len(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
