# Both ways end in the same image: one static binary on nothing, an unprivileged user, no shell, nothing to write. A
# release's is made without Docker, by deploy/release/make.sh.
#
#   docker build -t tarry .                                          from source, with BuildKit; pulls a Go image
#   docker build -f Dockerfile --target prebuilt -t tarry DIR        from DIR/tarry, built as below; pulls nothing
#
#   docker run --read-only --cap-drop ALL --security-opt no-new-privileges -p 7070:7070 -e TARRY_HTTP_TOKEN=... tarry
#
# Settings come from the environment, or from a file that is mounted and named in TARRY_CONFIG. The process writes no
# file. "docker stop" gives 10 s, which is what stop.timeout may take: allow more (--stop-timeout 15).
#
# BuildKit, Docker's own since 23, runs only the stages that the wanted one needs. The classic builder runs all above it:
# so prebuilt stands above the one that pulls, and is all that the classic builder can make.
ARG GO=golang:1.26-alpine

FROM scratch AS base
# Inside a container loopback reaches nobody. Without http.token or http.insecure tarry refuses this address by name.
ENV TARRY_HTTP_LISTEN=:7070
# A number, so that an orchestrator can see that it is not root (runAsNonRoot) without reading /etc/passwd.
USER 65532:65532
EXPOSE 7070
# Asks /readyz. A healthy standby is ready too. It asks where TARRY_HTTP_LISTEN or the file of TARRY_CONFIG says that the
# instance listens, over https with http.tls.cert: then set TARRY_TLS_CA and TARRY_TLS_SERVER_NAME as well, and with
# http.tls.ca TARRY_TLS_CERT and TARRY_TLS_KEY; or TARRY_HTTP_PROBE_LISTEN=127.0.0.1:7071 and
# TARRY_SERVER=http://127.0.0.1:7071.
HEALTHCHECK --interval=5s --timeout=5s --start-period=15s --retries=3 CMD ["/tarry", "health"]
ENTRYPOINT ["/tarry"]
CMD ["serve"]

# No certificates of authorities in this one. redis.tls and tls:// in nats.url need them unless nats.tls.ca names a file:
# mount the host's, as in -v /etc/ssl/certs:/etc/ssl/certs:ro.
FROM base AS prebuilt
COPY tarry /tarry

FROM ${GO} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# As "tarry version" shows it; without one it says "devel".
ARG VERSION
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/tarry ./cmd/tarry

# No time zones: all times are UTC or carry their own offset.
FROM base
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /out/tarry /tarry
