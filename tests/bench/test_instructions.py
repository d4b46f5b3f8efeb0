"""The guard guards: a count that grew by more than 10 % fails, a smaller growth does not, another compiler is not compared."""
import importlib.util
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
spec = importlib.util.spec_from_file_location("instructions", os.path.join(HERE, "instructions.py"))
guard = importlib.util.module_from_spec(spec)
spec.loader.exec_module(guard)

OUTPUT = """fl=(1) /any/where/src/base/bytes.c
fn=(1) one
10 5
+2 7
cfi=(2) /any/where/src/base/arena.c
cfn=(2) two
calls=1 30
* 100
fe=(3) /usr/include/other.h
3 1000
fi=(1)
12 3
fl=(2)
fn=(2)
30 100
"""


def check(what, ok):
    print("%s instructions.%s" % ("PASS" if ok else "FAIL", what), flush=True)
    return ok


def only_own_and_self_cost():
    with tempfile.NamedTemporaryFile("w", suffix=".out") as f:
        f.write(OUTPUT)
        f.flush()
        own = {guard.source_of(n): c for n, c in guard.costs(f.name).items() if guard.source_of(n)}
    return own == {"src/base/bytes.c": 15, "src/base/arena.c": 100}


def main():
    kept = {"hello1": 1000}

    def verdict(n, compiler="GNU 12"):
        return guard.judge("hello1", n, kept, compiler, "GNU 12").split()[0]

    ok = check("only_own_and_self_cost", only_own_and_self_cost())
    ok = check("growth_fails", verdict(1101) == "FAIL" and verdict(1100) == "PASS") and ok
    ok = check("less_is_fine", verdict(500) == "PASS") and ok
    ok = check("other_compilers_are_not_compared", verdict(9999, "Clang 14") == "SKIP") and ok
    unknown = guard.judge("chain50", 1, kept, "GNU 12", "GNU 12").startswith("FAIL")
    ok = check("every_scenario_is_kept", unknown and set(guard.read_kept()[0]) == set(guard.ROUNDS)) and ok
    sys.exit(0 if ok else 1)


main()
