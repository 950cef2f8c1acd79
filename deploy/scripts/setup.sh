#!/usr/bin/env bash
# Makes a machine ready for `make test`: as root on Debian or Ubuntu it installs the packages that the tests use, then builds
# the Ollama server once. Elsewhere it says what is missing and which tests will skip for it. It is quick when everything is
# there, and may be run again at any time.
#
#   GANTRY_TEST_REQUIRE   what must not be missing (postgres, ollama, docker, namespace, …; "all"): then a failure here ends it
#   GANTRY_SETUP=0        change nothing, only say
set -euo pipefail
cd "$(dirname "$0")/../.."

say() { echo "setup: $*"; }

required() { [[ ",${GANTRY_TEST_REQUIRE:-}," == *",$1,"* || ",${GANTRY_TEST_REQUIRE:-}," == *,all,* ]]; }

# need : package : what shows that it is there (a program, or a path) : what is tested with it
wanted=(
	"postgres:postgresql:/usr/lib/postgresql/*/bin/postgres:the postgres backends"
	"redis:redis-server:redis-server:the redis backend"
	"ripgrep:ripgrep:rg:searches by commands in the sandbox, and the comparison of the searches of stores with it"
	"patch:patch:patch:the diffs that memory shows"
	"docker:docker.io:dockerd:container tests"
	"docker:docker-compose:docker-compose:the compose file"
	"docker:iptables:iptables:container networks"
	"docker:iproute2:ip:container networks"
	"namespace:util-linux:nsenter:namespaces"
	"namespace:debootstrap:debootstrap:root file systems for the sandbox"
	"ollama:g++:g++:the Ollama server"
	"ollama:nlohmann-json3-dev:/usr/include/nlohmann/json.hpp:the Ollama server"
	"ollama:libstb-dev:/usr/include/stb/stb_image.h:the Ollama server"
	"python:python3-grpcio:/usr/lib/python3/dist-packages/grpc/__init__.py:the Python client example"
	"python:python3-protobuf:/usr/lib/python3/dist-packages/google/protobuf/__init__.py:the Python client example"
	"python:protobuf-compiler:protoc:the Python client example"
	"python:libprotobuf-dev:/usr/include/google/protobuf/descriptor.proto:the Python client example"
	"python:protobuf-compiler-grpc:grpc_python_plugin:the Python client example"
)

# there says whether a program is on PATH or in the directories of system programs, or a path exists.
there() {
	if [[ "$1" == /* ]]; then
		compgen -G "$1" >/dev/null
	else
		PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null
	fi
}

packages=() needs=() lost=()
for line in "${wanted[@]}"; do
	IFS=: read -r need package probe use <<<"$line"
	if ! there "$probe"; then
		packages+=("$package")
		needs+=("$need")
		lost+=("$package ($use)")
	fi
done
# A service that a package would start at once takes ports and memory that the tests do not want: none is started.
without_services() {
	local policy=/usr/sbin/policy-rc.d
	if [[ -e $policy ]]; then
		"$@"
		return
	fi
	printf '#!/bin/sh\nexit 101\n' >$policy
	chmod 755 $policy
	local status=0
	"$@" || status=$?
	rm -f $policy
	return $status
}

install() {
	say "installing for the tests: ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	local log
	log="$(mktemp)"
	if ! { apt-get update -q && without_services apt-get install -y -q --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
		tail -n 20 "$log"
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
}

can_install() {
	[[ "${GANTRY_SETUP:-1}" != 0 && "$(id -u)" == 0 ]] && command -v apt-get >/dev/null && [[ -e /etc/debian_version ]]
}

if ((${#packages[@]})); then
	if can_install && install; then
		say "installed ${#packages[@]} packages"
	else
		say "not installed, so tests that need them are skipped:"
		printf 'setup:   %s\n' "${lost[@]}"
		for need in "${needs[@]}"; do
			if required "$need"; then
				say "but $need is required (GANTRY_TEST_REQUIRE=${GANTRY_TEST_REQUIRE:-})"
				exit 1
			fi
		done
	fi
fi

if [[ "${GANTRY_SETUP:-1}" != 0 ]]; then
	if server="$(deploy/scripts/ollama.sh)"; then
		say "Ollama server: $server"
	else
		say "no Ollama server: tests of its provider on the real server are skipped"
		if required ollama; then exit 1; fi
	fi
fi
say "ready"
