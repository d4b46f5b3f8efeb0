"""What the pages say, held to the source: no server needed. Each check_*(pages) yields findings."""

import importlib.util
import re
import subprocess

from pages import GUESTS, ROOT, Page, source

STRING = r'"(?:[^"\\]|\\.)*"'


# ---- links and names ---------------------------------------------------------------------------


def check_links(pages):
    for page in pages.values():
        for link in page.links():
            if re.match(r"[a-z]+:", link):
                yield f"{page.name}: {link} leaves the checkout"
                continue
            path, _, anchor = link.partition("#")
            target = (page.path.parent / path).resolve() if path else page.path
            if not target.exists():
                yield f"{page.name}: {link} does not exist"
            elif anchor and target.suffix == ".md":
                other = pages.get(str(target.relative_to(ROOT)))
                if other and anchor not in other.anchors():
                    yield f"{page.name}: {link}: no such heading"


def braces(text):
    """a{b,c} -> ab, ac."""
    found = re.search(r"\{([^{}]*)\}", text)
    if not found:
        return [text]
    return [one for part in found.group(1).split(",")
            for one in braces(text[: found.start()] + part + text[found.end():])]


def check_paths(pages):
    """Files named in backquotes exist; NAME and NN in a name stand for any."""
    for page in pages.values():
        for code in page.inline():
            if not re.match(r"(src|tests|tools|docs|proto|examples)/\S*$", code):
                continue
            for name in braces(re.sub(r"NAME|NN", "*", code)):
                if not list(ROOT.glob(name.rstrip("/"))):
                    yield f"{page.name}: {code} does not exist"


def check_names(pages):
    """Functions, structs, constants and tests that ARCHITECTURE.md names exist."""
    page = pages["ARCHITECTURE.md"]
    files = source("src/**/*.[ch]", "tests/lib/*.h", "tests/**/*.py", "tests/**/*.c", "proto/*.proto")
    words = set(re.findall(r"\w+", "\n".join(
        text for name, text in files.items() if not name.startswith("tests/docs/"))))
    for code in page.inline():
        wanted = re.findall(r"\b(\w+)\(\)", code) + re.findall(r"\bstruct (\w+)", code)
        if re.fullmatch(r"[A-Z][A-Z_]+|test_\w+", code):
            wanted.append(code)
        for name in wanted:
            if name not in words:
                yield f"ARCHITECTURE.md: nothing is called {name}"


# ---- tables --------------------------------------------------------------------------------------


def check_layers(pages):
    spec = importlib.util.spec_from_file_location("layers", ROOT / "tools/check-layers.py")
    layers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(layers)
    said = {}
    for folder, includes in pages["ARCHITECTURE.md"].rows("folder", "may include"):
        names = [name.strip() for name in includes.split(",") if name.strip()]
        said[folder] = None if names == ["everything"] else names
    for folder in sorted(set(said) | set(layers.LAYERS)):
        if said.get(folder, "nothing") != layers.LAYERS.get(folder, "nothing"):
            yield (f"ARCHITECTURE.md: {folder} may include {said.get(folder, 'nothing')}, "
                   f"but tools/check-layers.py says {layers.LAYERS.get(folder, 'nothing')}")
    for path in sorted((ROOT / "src").iterdir()):
        if path.is_dir() and f"src/{path.name}/" not in pages["ARCHITECTURE.md"].text:
            yield f"ARCHITECTURE.md: src/{path.name}/ is not in the map"


def check_store_tables(pages):
    real = set(re.findall(r"CREATE TABLE (\w+)", (ROOT / "src/store/schema.c").read_text()))
    said = {cells[0].strip("`") for cells in pages["ARCHITECTURE.md"].rows("table", "key")}
    for name in sorted(real ^ said):
        yield f"ARCHITECTURE.md: table {name} is {'not there' if name in real else 'not in the schema'}"


def rpcs():
    text = (ROOT / "proto/durabletask.proto").read_text()
    service = re.search(r"service TaskHubSidecarService \{(.*?)\n\}", text, re.DOTALL).group(1)
    return re.findall(r"rpc (\w+)\s*\(", service)


def check_rpcs(pages):
    """Every call once, in the order of the .proto; `later` where the handler is later()."""
    rows = list(pages["docs/protocol.md"].rows("RPC", "state"))
    names = [cells[0].strip("`") for cells in rows]
    if names != rpcs():
        yield f"docs/protocol.md: the calls are {names}, in the .proto they are {rpcs()}"
        return
    methods = dict(re.findall(r'PATH\("(\w+)"\).*?\.message = (\w+)',
                              (ROOT / "src/durabletask/service.c").read_text()))
    for name, cells in zip(names, rows):
        real = "later" if methods.get(name) == "later" else "yes"
        if cells[1] != real:
            yield f"docs/protocol.md: {name} is {cells[1]}, in service.c {real}"
    served = sum(1 for cells in rows if cells[1] == "yes")
    if f"Of the protocol's {len(rows)} calls {served} are served" not in " ".join(
            pages["README.md"].prose.split()):
        yield f"README.md: {served} of {len(rows)} calls are served"


def check_fields(pages):
    text = (ROOT / "proto/durabletask.proto").read_text()
    for cells in pages["docs/protocol.md"].rows("message", "field"):
        message, field = cells[0].strip("`"), cells[1].strip("`")
        found = re.search(rf"message {message} \{{(.*?)\n\}}", text, re.DOTALL)
        if not found or not re.search(rf"\b{field} = \d+", found.group(1)):
            yield f"docs/protocol.md: {message}.{field} is not in the .proto"


def check_dependencies(pages):
    page = pages["docs/dependencies.md"]
    build = (ROOT / "CMakeLists.txt").read_text()
    deps = (ROOT / "tools/deps.sh").read_text()
    modules = {"nghttp2": "libnghttp2", "libevent": "libevent", "protobuf-c": "libprotobuf-c",
               "SQLite": "sqlite3", "OpenSSL": "openssl", "jansson": "jansson", "xxHash": "libxxhash",
               "mimalloc": "mimalloc", "zlib": "zlib", "cmocka": "cmocka"}
    rows = {cells[0]: cells for cells in page.rows("library", "Debian package")}
    for name in sorted(set(rows) ^ set(modules)):
        yield f"docs/dependencies.md: {name}: in the page or in this check, not in both"
    used = re.findall(r"pkg_check_modules\(\w+ REQUIRED IMPORTED_TARGET([^)]*)\)", build)
    for module in " ".join(used).split():
        if module not in modules.values() and not module.startswith("libevent"):
            yield f"docs/dependencies.md: {module} of CMakeLists.txt is missing"
    for name, cells in rows.items():
        if not re.search(rf"\b{cells[1].strip('`')}\b", deps):
            yield f"docs/dependencies.md: {cells[1]} is not in tools/deps.sh"
        yield from check_version(name, modules.get(name), cells[2])
    pins = {"SDK 1.12.0": "durabletask==1.12.0"}
    for cells in page.rows("what", "version", "pinned in"):
        path = ROOT / cells[2].strip("`")
        if not path.exists():
            continue  # check_paths() says so
        wanted = pins.get(cells[1], cells[1])
        if wanted not in path.read_text():
            yield f"docs/dependencies.md: {wanted} is not in {cells[2]}"


def check_version(name, module, said):
    have = subprocess.run(["pkg-config", "--modversion", module or ""], capture_output=True,
                          text=True).stdout.strip()
    if not have:
        return

    def number(text):
        return [int(part) for part in re.findall(r"\d+", text)]

    least, _, below = said.partition(",")
    have = number(have.split("-")[0])
    if have < number(least) or (below and have >= number(below)):
        yield f"docs/dependencies.md: {name} {have} is installed, not {said}"


def check_release(pages):
    version = re.search(r"project\(perdure VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text()).group(1)
    newest = re.search(r"^## (\S+)", pages["CHANGELOG.md"].prose, re.MULTILINE).group(1)
    if newest != version:
        yield f"CHANGELOG.md: begins with {newest}, CMakeLists.txt is {version}"
    top = pages["README.md"].blocks[0]
    if top.line > 10 or [command for command in top.commands()] != ["make run", "make test"]:
        yield "README.md: does not begin with the two commands"


# ---- settings --------------------------------------------------------------------------------------


def settings():
    """key -> (kind, default)."""
    text = (ROOT / "src/base/limits.h").read_text()
    rows = re.findall(r'S\(\w+,\s*"([\w.]+)",\s*(\w+),\s*([^,]+?),', text)
    def number(value):
        found = re.fullmatch(r"(KIB|MIB)\((\d+)\)", value)
        return int(found.group(2)) * (1024 if found.group(1) == "KIB" else 1 << 20) if found else int(value)
    return {key: (kind, number(default)) for key, kind, default in rows}


UNITS = {"s": 1_000_000, "ms": 1000, "minutes": 60_000_000, "KiB": 1024, "MiB": 1 << 20}


def check_settings(pages):
    known = settings()
    groups = {key.split(".")[0] for key in known}
    for page in pages.values():
        for code in page.inline():
            found = re.fullmatch(r"([a-z]+)\.([a-z_]+)(=\S+)?", code)
            key = found and f"{found.group(1)}.{found.group(2)}"
            if found and found.group(1) in groups and key not in known:
                yield f"{page.name}: there is no setting {key}"
        # "30 s (`keepalive.idle`)": the default that is quoted is the real one.
        prose = " ".join(page.prose.split())
        for amount, unit, key in re.findall(
                r"(\d[\d,]*) ?(s|ms|minutes|KiB|MiB)?(?: \w+){0,3} \(`([a-z]+\.[a-z_]+)`\)", prose):
            quoted = int(amount.replace(",", "")) * UNITS.get(unit, 1)
            if key in known and known[key][1] != quoted:
                yield f"{page.name}: {key} is said to be {amount} {unit}, it is {known[key][1]}"


# ---- error texts -----------------------------------------------------------------------------------


def literals(text):
    """C strings, neighbours joined, conversions put in place by `…`."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r'"\s*PRI\w+\s*"', "llu", text)
    text = re.sub(r'"\s*PRI\w+', 'llu"', text)
    for group in re.findall(rf"{STRING}(?:\s*{STRING})*", text):
        joined = "".join(part[1:-1] for part in re.findall(STRING, group))
        joined = joined.replace('\\"', '"').replace("\\\\", "\\").replace("%%", "%")
        yield re.sub(r"%[-+ #0]*[*\d]*(?:\.[*\d]+)?(?:hh|h|ll|l|z|j|t)?[a-zA-Z]", "…", joined).strip()


def calls(text, names):
    """Arguments of the calls of these functions."""
    for found in re.finditer(rf"\b(?:{names})\s*\(", text):
        depth, at, quoted = 1, found.end(), False
        while depth and at < len(text):
            c = text[at]
            if quoted:
                at += c == "\\"
                quoted = c != '"'
            elif c == '"':
                quoted = True
            else:
                depth += (c == "(") - (c == ")")
            at += 1
        yield text[found.end(): at - 1]


# What clients can be told, and where it is said.
VISIBLE = ("ERR_INVALID ERR_NOT_FOUND ERR_EXISTS ERR_LIMIT ERR_STATE ERR_CONFLICT ERR_UNAVAILABLE ERR_DEADLINE "
           "ERR_UNIMPLEMENTED GRPC_INTERNAL GRPC_RESOURCE_EXHAUSTED GRPC_INVALID_ARGUMENT "
           "GRPC_UNIMPLEMENTED GRPC_DEADLINE_EXCEEDED ERR_UNAUTHENTICATED ERR_DENIED").split()
SPEAKERS = ("src/durabletask/*.c", "src/server/host.c", "src/server/auth.c", "src/rpc/receive.c", "src/rpc/server.c",
            "src/engine/step.c", "src/engine/stream.c", "src/wire/unpack.c")
# Errors that a caller within the server handles.
INTERNAL = {"instance '…' has no event for its execution"}


def error_texts(page):
    for header in (("code", "text"), ("error type", "message")):
        for cells in page.rows(*header):
            yield cells[0].strip("`"), cells[1].strip("`")


def check_error_texts(pages):
    page = pages["docs/errors.md"]
    said = set(error_texts(page))
    files = source("src/**/*.c")
    real = {text for body in files.values() for text in literals(body)}
    codes = {row[0] for row in page.rows("code", "means")}
    for code, text in sorted(said):
        if text not in real:
            yield f"docs/errors.md: no source file says: {text}"
        if code.isupper() and code not in codes:
            yield f"docs/errors.md: {code} is not in the table of codes"
        if not code.isupper() and code not in real:
            yield f"docs/errors.md: no source file says {code}"
    texts = {text for _, text in said}
    for name, body in source(*SPEAKERS).items():
        for arguments in calls(body, "error_set|dt_fail|rpc_call_finish|server_abort|fail|event_failure"):
            code = re.search(r"\b(ERR_\w+|GRPC_\w+)\b", arguments)
            if code and code.group(1) not in VISIBLE:
                continue
            first = next((text for text in literals(arguments) if " " in text), None)
            if code and first and first not in texts and first not in INTERNAL:
                yield f"docs/errors.md: lacks a text of {name}: {code.group(1)} {first}"


# ---- commands ----------------------------------------------------------------------------------------

PROGRAMS = {"cd", "cp", "curl", "sqlite3", "install", "kill", "cmake", ".", "python3", "pip", "npm", "node",
            "go", "javac", "java", "mvn", "systemctl", "echo"}


def check_commands(pages):
    """Marks, and what the commands of code blocks name."""
    for page in pages.values():
        for before, block in zip([None] + page.blocks, page.blocks):
            if block.language == "text" and before and before.mark in ("run", "ready"):
                continue
            if page.name not in GUESTS and block.language and not block.mark:
                yield f"{block}: the block is not marked (see tests/docs/pages.py)"
            if block.is_shell():
                for command in block.commands():
                    yield from (f"{block}: {finding}" for finding in check_command(command))
            if block.mark.startswith("from: "):
                path = ROOT / block.mark.removeprefix("from: ")
                if not path.exists() or block.text not in path.read_text():
                    yield f"{block}: is not in {block.mark.removeprefix('from: ')}"
    targets = make_targets()
    for page in pages.values():
        for code in page.inline():
            found = re.match(r"make ([a-z]+)\b", code)
            if found and found.group(1) not in targets:
                yield f"{page.name}: there is no `make {found.group(1)}`"


def make_targets():
    rules = re.findall(r"^([a-z ]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


def check_command(command):
    for part in re.split(r"\s*(?:&&|;|\|)\s*", command):
        words = [word for word in part.split() if not re.match(r"[A-Z_]+=", word)]
        if words:
            yield from check_words(words)


def check_words(words):
    program = words[0].strip('"')
    if program == "make":
        for word in words[1:]:
            if "=" not in word and word not in make_targets():
                yield f"there is no `make {word}`"
    elif program.endswith("perdure"):
        pass  # held to its help by live_checks.py
    elif program == "cmake" and words[1] == "--preset":
        if f'"name": "{words[2]}"' not in (ROOT / "CMakePresets.json").read_text():
            yield f"there is no preset {words[2]}"
    elif program.startswith("build"):
        name = re.sub(r"^build[\w-]*/", "", program)
        if not list(ROOT.glob(name + ".c")):
            yield f"{program} is built from nothing"
    elif program.startswith(("$", ".venv/")) or program in PROGRAMS:
        pass
    elif not (ROOT / program).exists():
        yield f"{program} is no program that this check knows"
    for word in words[1:]:
        if re.match(r"(tests|tools|src|docs|examples)/\S+$", word) and not list(ROOT.glob(word)):
            yield f"{word} does not exist"


def check_examples(pages):
    """README.md has the very commands of the pages of the examples, and their output."""
    said, outputs = {}, [block.text for block in pages["README.md"].blocks if block.language == "text"]
    for block in pages["README.md"].blocks:
        commands = list(block.commands()) if block.is_shell() else []
        if commands and commands[0].startswith("cd examples/"):
            said.setdefault(commands[0].removeprefix("cd examples/"), []).append(commands[1:])
    folders = {path.parent.name: Page(path) for path in ROOT.glob("examples/*/README.md")}
    for name in sorted(set(folders) ^ set(said)):
        yield f"README.md: the example in {name}: there or shown, not both"
    for name in sorted(set(folders) & set(said)):
        real = [list(block.commands()) for block in folders[name].blocks if block.is_shell()]
        for commands in said[name]:
            if commands not in real:
                yield f"README.md: {name}: {commands}, but examples/{name}/README.md says {real}"
        if not any(block.text in outputs for block in folders[name].blocks if block.language == "text"):
            yield f"README.md: lacks the output that examples/{name}/README.md shows"


def checks():
    for name, function in sorted(globals().items()):
        if name.startswith("check_") and name not in ("check_version", "check_command", "check_words"):
            yield name.removeprefix("check_"), function


# A page, what is changed in it, and the check that must notice.
CHANGES = [
    ("docs/errors.md", "`name must not be empty`", "`name must be empty`", check_error_texts),
    ("docs/errors.md", "| ALREADY_EXISTS | `Orch", "| DATA_LOSS | `Orch", check_error_texts),
    ("docs/protocol.md", "| `QueryEntities` | later", "| `QueryEntities` | yes", check_rpcs),
    ("docs/protocol.md", "| `Hello` | yes", "| `Hallo` | yes", check_rpcs),
    ("docs/protocol.md", "| `capabilities`", "| `capability`", check_fields),
    ("docs/protocol.md", "128 MiB in all", "12 MiB in all", check_settings),
    ("docs/operating.md", "`overload.disk_free`", "`overload.disk`", check_settings),
    ("docs/operating.md", "(#metrics)", "(#metric)", check_links),
    ("docs/operating.md", "make build\n", "make nothing\n", check_commands),
    ("docs/testing.md", "`tests/lib/world.h`", "`tests/lib/earth.h`", check_paths),
    ("docs/dependencies.md", "≥ 1.52", "≥ 7.52", check_dependencies),
    ("ARCHITECTURE.md", "`orch_hydrate()`", "`orch_dehydrate()`", check_names),
    ("ARCHITECTURE.md", "| loop | base |", "| loop | base, store |", check_layers),
    ("ARCHITECTURE.md", "| `trash` |", "| `rubbish` |", check_store_tables),
    ("README.md", "npm ci", "npm install", check_examples),
    ("README.md", "total = yield", "sum = yield", check_commands),
    ("CHANGELOG.md", "## 0.1.0", "## 0.0.9", check_release),
]


def self_test(pages):
    """Yields what the helpers and checks above fail to notice."""
    cases = [
        (list(literals('f("a %zu b" /* "no" */ " c", x, "d %" PRIu64 " e");')), ["a … b c", "d … e"]),
        (list(literals('"id \'%.*s\' \\"x\\""')), ["id '…' \"x\""]),
        (list(calls('error_set(e, ERR_X, "a (b)", g(1)); h(2)', "error_set")), ['e, ERR_X, "a (b)", g(1)']),
        (braces("a/{b,c}.h"), ["a/b.h", "a/c.h"]),
        (bool(list(check_command("make nonsense"))), True),
        (bool(list(check_command("make run ARGS=x"))), False),
        (bool(list(check_command("tools/no-such.sh"))), True),
        (bool(list(check_command("build-asan/tests/unit/test_nothing"))), True),
    ]
    for got, want in cases:
        if got != want:
            yield f"{got!r} is not {want!r}"
    for name, old, new, check in CHANGES:
        if old not in pages[name].text:
            yield f"{name}: {old!r} is not there to be changed"
            continue
        before = set(check(pages))
        if set(check({**pages, name: pages[name].changed(old, new)})) == before:
            yield f"{name}: {new!r} in place of {old!r} is not noticed"
