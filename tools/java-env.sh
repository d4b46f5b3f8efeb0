#!/bin/sh
# Makes .tools/java/lib: the jars of the Java SDK and of all it needs at run time, for javac and java
# with -cp "$JAVA_CLASSPATH". Instant when it is there. Then: . tools/env.sh; "$JAVA" ...
set -eu
. "$(dirname "$0")/stamp.sh"
stamp_begin java "$root/tools/java/pom.xml"

rm -rf "$dir"
mkdir -p "$dir"
mvn -q -B -f "$root/tools/java/pom.xml" "-Dmaven.repo.local=$root/.tools/m2" \
    dependency:copy-dependencies -DincludeScope=runtime "-DoutputDirectory=$dir/lib" >&2
[ -e "$dir/lib/durabletask-client-1.5.0.jar" ]
stamp_end
