# Thin: says what to call. CMake builds (CMakePresets.json), tools/run-tests tests.
#
#   make build     build/perdure, as users run it
#   make run       serve on the default ports; ARGS="--store memory" for more flags
#   make test      everything that runs on a change, under 20 minutes on 2 cores
#   make nightly   what takes long
#   make scale     full sizes of tests/scale, about 40 minutes; CASES="waiters timers" picks some
#   make bench     Perdure and other servers under the same load; ARGS=--quick takes a quarter of an hour
#   make asan      build and run the unit tests under the sanitizers; also: dev, tsan
#   make fuzz      build the fuzzers into build-fuzz/tests/fuzz
#   make format    format all C code in place
#   make check     only the checks of style, layers and headers
#   make deps      install missing Debian packages
JOBS ?= $(shell nproc)

.PHONY: build run test nightly scale dev asan tsan fuzz bench format check deps clean

build: build/build.ninja
	@cmake --build build -j $(JOBS) --target perdure

build/build.ninja: CMakePresets.json
	@tools/deps.sh build
	@cmake --preset release

run: build
	@build/perdure serve $(ARGS)

test:
	@tools/deps.sh
	@tools/run-tests $(SUITES)

nightly: build
	@tools/deps.sh
	@cmake --build build -j $(JOBS) --target test_programs sim
	@tools/run-tests --nightly $(SUITES)

scale: build
	@cmake --build build -j $(JOBS) --target scale_drive scale_bad_disk
	@PERDURE=$(CURDIR)/build/perdure python3 tests/scale/run.py $(CASES)

bench: build
	@tools/bench-env.sh
	@python3 tests/bench/compare.py $(ARGS)

dev asan tsan:
	@tools/deps.sh
	@cmake --preset $@ >/dev/null
	@cmake --build build-$@ -j $(JOBS) --target unit_tests
	@ctest --preset $@ -j $(JOBS)

fuzz:
	@tools/deps.sh
	@cmake --preset $@ >/dev/null
	@cmake --build build-$@ -j $(JOBS) --target fuzzers

format:
	@tools/check-format.sh --fix

check:
	@tools/run-tests checks

deps:
	@tools/deps.sh

clean:
	@rm -rf build build-*
