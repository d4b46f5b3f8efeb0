#!/bin/sh
# The released Java SDK against a real server: tests/sdk/java.
# timeout: 480
# parallel: yes
set -eu
cd "$(dirname "$0")/../.."
sh tools/java-env.sh
. tools/env.sh
mkdir -p build-sdk/java-sdk
"$JAVAC" -nowarn -cp "$JAVA_CLASSPATH" -d build-sdk/java-sdk tests/sdk/java/Main.java
exec python3 -B tests/sdk/run.py java "$JAVA" -cp "build-sdk/java-sdk:$JAVA_CLASSPATH" Main
