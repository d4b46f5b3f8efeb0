# stamp.sh - sourced by the *-env.sh scripts: makes a folder of .tools once, and again when its
# inputs change.
#
#   stamp_begin NAME INPUT...   locks .tools/NAME; exits 0 at once if it was made from these inputs
#   stamp_end                   says that it is made
#
# Set by it: $root, the checkout; $dir, .tools/NAME, which may hold the remains of an older one.
root=$(cd "$(dirname "$0")/.." && pwd)

stamp_begin() {
    name=$1
    shift
    dir=$root/.tools/$name
    stamp_file=$root/.tools/$name.stamp
    mkdir -p "$root/.tools"
    stamp_want=$(cat "$0" "$@" | cksum)
    [ "$(cat "$stamp_file" 2>/dev/null)" = "$stamp_want" ] && exit 0
    exec 9>"$root/.tools/$name.lock"
    flock 9 # another suite may be making it
    [ "$(cat "$stamp_file" 2>/dev/null)" = "$stamp_want" ] && exit 0
    rm -f "$stamp_file"
    echo "installing .tools/$name" >&2
}

stamp_end() {
    echo "$stamp_want" >"$stamp_file"
}

# at_least WANT HAVE: versions of numbers and dots.
at_least() {
    [ -n "$2" ] && [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}
