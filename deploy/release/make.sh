#!/usr/bin/env bash
# Makes what a release of tarry needs, from the commit that is checked out:
#
#   deploy/release/make.sh 0.1.0            # into dist/
#   deploy/release/make.sh 0.1.0 DIRECTORY
#
# - tarry_VERSION_OS_ARCH.tar.gz: the static binary, licences, the sample of all settings, the unit, the alerts
# - tarry_VERSION_OS_ARCH.cdx.json: what the binary is made of (CycloneDX)
# - tarry_VERSION_ARCH.deb: for Debian and Ubuntu, checked by lintian
# - tarry_VERSION_oci.tar: the image for all architectures; skopeo copy --all oci-archive:FILE docker://NAME:VERSION
# - notes.md: the version's part of CHANGELOG.md
# - SHA256SUMS: of all of them
#
# PLATFORMS selects some, for example PLATFORMS=linux/amd64. Two runs on one commit with the same tools make the same
# files: all times are the commit's. It needs, of Debian: debhelper, lintian, umoci, skopeo, jq, ca-certificates.
set -euo pipefail
cd "$(dirname "$0")/../.."
. .ci/flags

fail() { echo "deploy/release/make.sh: $*" >&2 && exit 1; }
[[ ${1:-} =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || fail "the version is ${1:-missing}: want one such as 0.1.0"
for tool in dpkg-buildpackage lintian umoci skopeo jq; do
  type "$tool" >/dev/null || fail "$tool is missing: apt-get install debhelper lintian umoci skopeo jq"
done
[[ $1 = *-* ]] || [ -z "$(git status --porcelain)" ] || fail "the checkout has changes that are in no commit"

version=$1 dist=${2:-dist} here=$PWD/deploy/release
mkdir -p "$dist"
[ -z "$(ls -A "$dist")" ] || fail "$dist is not empty"
dist=$(cd "$dist" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What has a hyphen is a release before the release: its changes stand under Unreleased.
section=$version
[[ $version != *-* ]] || section=Unreleased
awk -v want="## $section" '/^## /{on = $0 == want || index($0, want " ") == 1; next} on' CHANGELOG.md |
  sed '/./,$!d' >"$dist/notes.md"
[ -s "$dist/notes.md" ] || fail "CHANGELOG.md has no section \"## $section\""

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)

# pack writes a tar of what is in a directory, the same for the same files.
pack() { tar -C "$1" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf - "${@:2}"; }

# licences prints those of tarry and of every module that is part of it.
licences() {
  local path dir file
  go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/tarry |
    sort -u | while read -r path dir; do
    for file in "$dir"/LICEN[CS]E* "$dir"/NOTICE* "$dir"/COPYING*; do
      [ ! -f "$file" ] || printf '\n======== %s: %s\n\n%s\n' "$path" "${file##*/}" "$(<"$file")"
    done
  done
}

# package makes the Debian package of one binary.
package() { # BINARY ARCH
  local root=$work/deb/tarry log=$work/deb.log
  rm -rf "$work/deb" && mkdir -p "$root"
  cp -r "$here/debian" "$root/"
  cp -r "$1" "$work/licences.txt" deploy/tarry.yaml CHANGELOG.md "$work/complete/"* "$root/"
  cp deploy/tarry.service "$root/debian/"
  printf 'tarry (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "${version/-/\~}" \
    "$(sed -n 's/^Maintainer: //p' "$here/debian/control")" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" \
    >"$root/debian/changelog"
  (cd "$root" && dpkg-buildpackage -b -uc -us -d -a"$2" >"$log" 2>&1) || { cat "$log" && fail "no package for $2"; }
  lintian --fail-on error,warning --allow-root "$work"/deb/*.deb || fail "lintian finds fault with the package"
  mv "$work"/deb/*.deb "$dist/tarry_${version}_$2.deb"
}

# layer adds the image of one binary to the layout.
layer() { # BINARY ARCH
  local image=$work/oci:$version-$2
  [ -d "$work/oci" ] || umoci init --layout "$work/oci"
  umoci new --image "$image"
  umoci config --image "$image" --created "$created" --history.created "$created" --os linux --architecture "$2" \
    --author "$(sed -n 's/^Maintainer: //p' "$here/debian/control")" --config.user 65532:65532 \
    --config.entrypoint /tarry --config.cmd serve --config.env TARRY_HTTP_LISTEN=:7070 --config.exposedports 7070/tcp \
    --config.label "org.opencontainers.image.version=$version" \
    --config.label "org.opencontainers.image.revision=$(git rev-parse HEAD)" \
    --config.label org.opencontainers.image.licenses=Apache-2.0 \
    --config.label org.opencontainers.image.source=https://github.com/tarry-mq/tarry
  local root=$work/root
  rm -rf "$root" && install -D -m 0755 "$1" "$root/tarry"
  install -D -m 0644 "$work/licences.txt" "$root/licences.txt"
  # The authorities for redis.tls and for tls:// in nats.url.
  install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
  find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
  umoci insert --rootless --image "$image" --history.created "$created" "$root" / >/dev/null
}

# index joins the images of all architectures under one name, from which each machine takes its own.
index() {
  local blobs=$work/oci/blobs/sha256 list digest
  list=$(jq -c '{schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: [.manifests[] | {
    mediaType, digest, size, platform: {os: "linux", architecture:
      (.annotations["org.opencontainers.image.ref.name"] | split("-") | last)}}]}' "$work/oci/index.json")
  digest=$(printf %s "$list" | sha256sum | cut -d ' ' -f 1)
  printf %s "$list" >"$blobs/$digest"
  jq -n --arg digest "sha256:$digest" --arg name "$version" --argjson size "${#list}" '{schemaVersion: 2, manifests: [{
    mediaType: "application/vnd.oci.image.index.v1+json", digest: $digest, size: $size,
    annotations: {"org.opencontainers.image.ref.name": $name}}]}' >"$work/oci/index.json"
  umoci gc --layout "$work/oci" 2>/dev/null || true # what umoci wrote on the way
  pack "$work/oci" . >"$dist/tarry_${version}_oci.tar"
}

{ cat LICENSE && printf '\n======== Go\n\n' && cat "$(go env GOROOT)/LICENSE" && licences; } >"$work/licences.txt"
platforms=${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}
for platform in $platforms; do
  name=tarry_${version}_${platform/\//_}
  mkdir "$work/$name"
  CGO_ENABLED=0 GOOS=${platform%/*} GOARCH=${platform#*/} go build -trimpath \
    -ldflags "-s -w -X main.version=v$version" -o "$work/$name/tarry" ./cmd/tarry
done
own=$work/tarry_${version}_$(go env GOHOSTOS)_$(go env GOHOSTARCH)/tarry
[ -x "$own" ] || fail "PLATFORMS lacks this machine's, whose binary writes what shells complete"
mkdir -p "$work"/complete/{bash,zsh,fish}
"$own" completion bash >"$work/complete/bash/tarry"
"$own" completion zsh >"$work/complete/zsh/_tarry"
"$own" completion fish >"$work/complete/fish/tarry.fish"

for platform in $platforms; do
  name=tarry_${version}_${platform/\//_} folder=$work/tarry_${version}_${platform/\//_}
  echo "== $name"
  "$(tool cyclonedx-gomod)" bin -json -std -noserial -notimestamp -output "$dist/$name.cdx.json" \
    -version "v$version" "$folder/tarry"
  cp LICENSE README.md CHANGELOG.md "$work/licences.txt" deploy/tarry.yaml deploy/tarry.service deploy/alerts.yml \
    "$folder/"
  pack "$work" "$name" | gzip -n >"$dist/$name.tar.gz"
  if [[ $platform = linux/* ]]; then
    package "$folder/tarry" "${platform#*/}"
    layer "$folder/tarry" "${platform#*/}"
  fi
done
index
(cd "$dist" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
ls -l "$dist"
