"""`perdure key`: what is made, shown and revoked, and the file it is kept in."""

import os
import re
import shutil
import stat
import tempfile

from command import begin, perdure


class Folder:
    def __init__(self, t):
        self.path = tempfile.mkdtemp(prefix="perdure-keys-")
        t.later(self)

    def file(self, name="keys"):
        return os.path.join(self.path, name)

    def close(self):
        shutil.rmtree(self.path, ignore_errors=True)


def read(path):
    with open(path) as f:
        return f.read()


def test_create_list_revoke(t):
    f = Folder(t).file()
    key = perdure("key", "create", "--api-keys", f).ok().out.strip()
    assert re.fullmatch(r"pdk_[0-9a-f]{12}_[0-9a-f]{64}", key), key
    made = perdure("key", "create", "--api-keys", f, "--roles", "read,admin", "--hubs", "Shop,b_1", "--name",
                   "the till", "--json").ok().json
    assert made["roles"] == ["read", "admin"] and made["hubs"] == ["shop", "b_1"] and made["name"] == "the till"
    assert made["key"].split("_")[1] == made["id"] != key.split("_")[1]
    text = read(f)
    for secret in (key, made["key"]):
        assert secret.split("_")[2] not in text, "the file holds the secret itself"
    assert stat.S_IMODE(os.stat(f).st_mode) == 0o600
    rows = perdure("key", "list", "--api-keys", f).ok().rows
    assert rows[0] == ["ID", "ROLES", "HUBS", "CREATED", "NAME"] and len(rows) == 3
    assert rows[1][:3] == [key.split("_")[1], "client,worker", "*"]
    assert rows[2][:3] == [made["id"], "read,admin", "shop,b_1"] and rows[2][4] == "the till"
    listed = perdure("key", "list", "--api-keys", f, "--json").ok().json["keys"]
    assert listed[1] == {k: v for k, v in made.items() if k != "key"}
    assert perdure("key", "revoke", made["id"], "--api-keys", f).ok().out == "revoked %s\n" % made["id"]
    perdure("key", "revoke", made["id"], "--api-keys", f).failed(4, made["id"], "key list")
    assert [k["id"] for k in perdure("key", "list", "--json", env={"PERDURE_API_KEYS": f}).ok().json["keys"]] \
        == [key.split("_")[1]]


def test_wrong_words(t):
    f = Folder(t).file()
    perdure("key").failed(2, "missing")
    perdure("key", "make", "--api-keys", f).failed(2, '"make"', "create, list and revoke")
    perdure("key", "create").failed(2, "--api-keys", "PERDURE_API_KEYS")
    perdure("key", "create", "x", "--api-keys", f).failed(2, '"x"', "too many")
    perdure("key", "revoke", "--api-keys", f).failed(2, "ID")
    perdure("key", "create", "--api-keys", f, "--roles", "boss").failed(2, "--roles", '"boss"', "admin")
    perdure("key", "create", "--api-keys", f, "--hubs", "a b").failed(2, "--hubs", '"a b"')
    perdure("key", "create", "--api-keys", f, "--name", "a\nb").failed(2, "--name", "control")
    perdure("key", "create", "--api-keys", f, "--name", "x" * 201).failed(2, "--name", "200")
    perdure("key", "list", "--api-keys", f, "--roles", "read").failed(2, "key create")
    assert not os.path.exists(f)
    perdure("key", "list", "--api-keys", f).failed(2, f, "No such file", "key create")
    perdure("key", "revoke", "0" * 12, "--api-keys", f).failed(2, f, "No such file")
    perdure("key", "create", "--api-keys", "/nonexistent/keys").failed(1, "/nonexistent", "No such file")


def test_what_people_wrote_stays(t):
    """Comments and other keys are kept; a file that is wrong is left as it is."""
    f = Folder(t).file()
    perdure("key", "create", "--api-keys", f).ok()
    with open(f, "a") as out:
        out.write("\n# the second one is for ann")  # without a line's end
    made = perdure("key", "create", "--api-keys", f, "--json").ok().json
    before = read(f)
    assert "\n# the second one is for ann\n" in before
    again = perdure("key", "create", "--api-keys", f, "--json").ok().json
    perdure("key", "revoke", again["id"], "--api-keys", f).ok()
    assert read(f) == before
    perdure("key", "revoke", made["id"].upper(), "--api-keys", f).failed(4)
    with open(f, "a") as out:
        out.write("rubbish\n")
    broken = read(f)
    perdure("key", "create", "--api-keys", f).failed(2, f, "line ")
    perdure("key", "revoke", made["id"], "--api-keys", f).failed(2, f, "line ")
    assert read(f) == broken and os.listdir(os.path.dirname(f)) == ["keys"]


def test_many_at_once(t):
    """Commands that run at the same time lose nothing of each other."""
    f = Folder(t).file()
    running = [begin("key", "create", "--api-keys", f, "--name", str(i)) for i in range(20)]
    keys = [p.communicate(timeout=60)[0].strip() for p in running]
    keys = [k.decode() if isinstance(k, bytes) else k for k in keys]
    listed = perdure("key", "list", "--api-keys", f, "--json").ok().json["keys"]
    assert sorted(k["id"] for k in listed) == sorted(k.split("_")[1] for k in keys)
    running = [begin("key", "revoke", k.split("_")[1], "--api-keys", f) for k in keys[:10]]
    for p in running:
        p.communicate(timeout=60)
        assert p.returncode == 0
    listed = perdure("key", "list", "--api-keys", f, "--json").ok().json["keys"]
    assert sorted(k["id"] for k in listed) == sorted(k.split("_")[1] for k in keys[10:])
