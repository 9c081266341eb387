#!/bin/sh
# Fetches the libraries of the page at pinned versions, and checks their hashes: htm with Preact, which the program embeds, and axe-core,
# which only tests use. Needs registry.npmjs.org.
set -eu
cd "$(dirname "$0")/.."
htm=3.1.1 htm_sha256=2425b9bee11409177bcabc7f32e319926fc6690c1701c0b257c88bdff2d5ba90
preact=10.5.15 preact_sha256=38ed030f0e0870102136bcee7a691fc820d7d0e65e3273beb590bd27eb23fcea # only its license: htm has the library
axe=4.14.1 axe_sha256=e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# fetch NAME VERSION SHA256 FILE TO
fetch() {
	curl -fsSL "https://registry.npmjs.org/$1/-/$1-$2.tgz" -o "$dir/$1.tgz"
	echo "$3  $dir/$1.tgz" | sha256sum -c - >/dev/null
	tar -xzf "$dir/$1.tgz" -C "$dir" --one-top-level="$1"
	mkdir -p "$(dirname "$5")"
	cp "$dir/$1/package/$4" "$5"
}

assets=cmd/espalier/cli/ui/assets/lib
fetch htm $htm $htm_sha256 preact/standalone.module.js $assets/preact.js
cp "$dir/htm/package/LICENSE" $assets/LICENSE.htm
fetch preact $preact $preact_sha256 LICENSE $assets/LICENSE.preact
fetch axe-core $axe $axe_sha256 axe.min.js "$dir/axe.min.js"
gzip -9nc "$dir/axe.min.js" >test/ui/testdata/axe.min.js.gz # MPL-2.0, unmodified
