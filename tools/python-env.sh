#!/bin/sh
# Makes .tools/python, a virtual environment with the Python SDK, gRPC and pytest at the versions of
# python-requirements.txt. Instant when it is there. Then: . tools/env.sh; "$PYTHON" ...
set -eu
. "$(dirname "$0")/stamp.sh"
stamp_begin python "$root/tools/python-requirements.txt"

rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    -r "$root/tools/python-requirements.txt" >&2
"$dir/bin/python" -c 'import durabletask, google.protobuf, grpc, grpc_tools, h2, pytest'
stamp_end
