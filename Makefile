# A thin front for CMake. `make demo` and `make test` also install what is missing.
JOBS ?= $(shell nproc)
CMAKE_BUILD = cmake --build --parallel $(JOBS) --preset

.PHONY: all setup demo test bench asan tsan clang arm64 lint format format-check install clean

all: build/build.ninja
	$(CMAKE_BUILD) release

build/build.ninja: | setup
	cmake --preset release

setup:
	scripts/setup.sh

demo: setup all
	./build/sluice run --chat -p "What does happy mean?"

test: setup all
	ctest --preset release -j $(JOBS)

bench: setup all
	./build/sluice bench kernels
	./build/sluice bench decode

# Other builds, each with the tests: sanitizers, the other compiler, the other architecture.
asan tsan clang arm64:
	scripts/setup.sh developer
	cmake --preset $@
	$(CMAKE_BUILD) $@
	ctest --preset $@ -j $(JOBS)

lint: all
	scripts/setup.sh developer
	scripts/check_includes.sh
	scripts/check_calls.sh
	scripts/check_tidy.sh build

format format-check:
	scripts/setup.sh developer
	scripts/format.sh $@

# PREFIX: where to, /usr/local otherwise
install: all
	cmake --install build $(if $(PREFIX),--prefix $(PREFIX))

clean:
	rm -rf build build-*
