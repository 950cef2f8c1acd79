#!/usr/bin/env bash
# Builds the Ollama server from its Go module, once, into the user's cache and prints the path of the binary.
#
# The module zip has no vendor folders, so three headers of the C++ part are missing from it. Two come from Debian
# (nlohmann-json3-dev, libstb-dev), the third, miniaudio.h, from the module of a Go binding that ships it.
# A cold build takes some four minutes on two cores; a warm call only prints the path.
#
#   GANTRY_OLLAMA_BIN   use this server and build nothing
#   XDG_CACHE_HOME      parent of the cache (default ~/.cache)
set -euo pipefail

version=v0.17.4
malgo=v0.11.24

if [[ -n "${GANTRY_OLLAMA_BIN:-}" ]]; then
	echo "$GANTRY_OLLAMA_BIN"
	exit 0
fi

cache="${XDG_CACHE_HOME:-$HOME/.cache}/gantry/ollama/$version"
if [[ -x "$cache/ollama" ]]; then
	echo "$cache/ollama"
	exit 0
fi

missing() {
	echo "ollama: cannot build the server: $1" >&2
	exit 3
}
command -v go >/dev/null || missing "no go on PATH"
command -v g++ >/dev/null || missing "no g++ on PATH (apt-get install g++)"
[[ -e /usr/include/nlohmann/json.hpp ]] || missing "nlohmann/json.hpp is not installed (apt-get install nlohmann-json3-dev)"
[[ -d /usr/include/stb ]] || missing "stb headers are not installed (apt-get install libstb-dev)"

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [[ -x "$cache/ollama" ]]; then # somebody else built it while we waited
	echo "$cache/ollama"
	exit 0
fi

echo "ollama: building $version into $cache (about four minutes, once)" >&2
cd "$cache" # outside of any workspace or module
export GOWORK=off GOFLAGS=
headers="$(go mod download -json "github.com/gen2brain/malgo@$malgo" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')"
[[ -n "$headers" ]] || missing "the module github.com/gen2brain/malgo@$malgo could not be fetched"
mkdir -p include
ln -sfn "$headers" include/miniaudio

CGO_ENABLED=1 CGO_CPPFLAGS="-I$cache/include" CGO_CFLAGS=-O2 CGO_CXXFLAGS=-O2 GOBIN="$cache/new" \
	nice -n 10 go install "github.com/ollama/ollama@$version" >&2
mv "$cache/new/ollama" "$cache/ollama" # a rename: the binary is there whole or not at all
rmdir "$cache/new"
echo "$cache/ollama"
