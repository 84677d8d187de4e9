# The images of Weir, for amd64 and arm64. `docker compose build` makes those that docker-compose.yml
# runs; `docker build --target regional .` makes one. docs/compose.md lists the targets. No stage runs
# a program of the image's own architecture, so that each machine makes the images of both.
ARG GO=golang:1.26
ARG ENVOY=envoyproxy/envoy:v1.40.0
ARG VALKEY=valkey/valkey:8.1.4
ARG CONSUL=hashicorp/consul:1.21.0
ARG COLLECTOR=otel/opentelemetry-collector-contrib:0.155.0
ARG JAEGER=jaegertracing/jaeger:2.13.0
ARG PROMETHEUS=prom/prometheus:v3.16.0
ARG GRAFANA=grafana/grafana:12.0.0

# One stage builds everything: the programs share most of their packages. Go compiles for the other
# architecture as fast as for its own; weir.wasm is the same on both. Static binaries
# without paths, version control stamps and build ids are the same bytes on every machine with the
# same Go: the tag above takes the newest patch, and --build-arg GO=golang:1.26.8 one of them.
FROM --platform=$BUILDPLATFORM ${GO} AS build
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o /out/weir.wasm ./wasmfilter
ARG TARGETOS TARGETARCH
ENV GOOS=$TARGETOS GOARCH=$TARGETARCH
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -ldflags="-s -w -buildid=" -o /out/ ./cmd/... ./test/certs
# Directories that the user of the programs may write to. A new volume takes over the owner.
RUN mkdir -p /dirs/state /dirs/certs/aggregator /dirs/certs/region-eu /dirs/certs/region-us /dirs/certs/pop-eu /dirs/certs/pop-us

# The native module is a C library. The image of Go has a C compiler for its own architecture.
FROM build AS native
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    case $TARGETARCH in arm64) machine=aarch64 ;; *) machine=x86_64 ;; esac; compiler=$machine-linux-gnu-gcc \
 && { command -v $compiler || { apt-get update -qq && apt-get install -qq -y --no-install-recommends \
      gcc-$(echo $machine | tr _ -)-linux-gnu libc6-dev-$TARGETARCH-cross; }; } >/dev/null \
 && CGO_ENABLED=1 CC=$compiler go build -buildmode=c-shared -ldflags="-s -w -buildid=" -o /out/weir.so ./wasmfilter/native

# A region's replica. Its state file and its copy of the rules are in the working directory.
FROM scratch AS regional
COPY --from=build /out/weir-regional /out/weir /
COPY --from=build --chown=65532:65532 /dirs/state /var/lib/weir
WORKDIR /var/lib/weir
VOLUME /var/lib/weir
USER 65532:65532
EXPOSE 8080 8081 8090
ENTRYPOINT ["/weir-regional"]

# The aggregator.
FROM scratch AS global
COPY --from=build /out/weir-global /out/weir /
COPY --from=build --chown=65532:65532 /dirs/state /var/lib/weir
WORKDIR /var/lib/weir
VOLUME /var/lib/weir
USER 65532:65532
EXPOSE 8080 8090
ENTRYPOINT ["/weir-global"]

# A PoP: stock Envoy and the filter, as both modules. WEIR_FILTER of docker-compose.yml chooses one.
FROM ${ENVOY} AS pop
COPY --from=build /out/weir.wasm /out/weir /usr/local/lib/weir/
COPY --from=native /out/weir.so /usr/local/lib/weir/
COPY --chmod=0644 compose/pop.sh compose/pop.yaml compose/native.yaml /etc/weir/
USER 65532:65532
EXPOSE 10000 9902
ENTRYPOINT ["sh", "/etc/weir/pop.sh"]

# Makes certificates for trying TLS, once.
FROM scratch AS certs
COPY --from=build /out/certs /make-certs
COPY --from=build --chown=65532:65532 /dirs/certs /certs
USER 65532:65532
ENTRYPOINT ["/make-certs"]

# ---- The rest is for docker-compose.yml: official images and their configuration. Files of the
# repository are copied, with a mode, and not mounted: the users of the containers could not read
# them where git ran with umask 077.

# What the PoPs protect, and the first rules.
FROM pop AS demo
COPY --chmod=0644 compose/upstream.yaml compose/rules.yaml /etc/weir/

FROM ${VALKEY} AS valkey
COPY --chmod=0644 compose/valkey.conf compose/valkey-init.sh /etc/weir/

FROM ${CONSUL} AS consul
COPY --chmod=0644 compose/consul.hcl /consul/config/server.hcl

# The collector has no program that could check its health.
FROM ${COLLECTOR} AS collector
COPY --from=build /out/weir /weir
COPY --chmod=0644 compose/collector.yaml /etc/otelcol-contrib/config.yaml

FROM ${JAEGER} AS jaeger
COPY --chmod=0644 compose/jaeger.yaml /etc/weir/jaeger.yaml
CMD ["--config=/etc/weir/jaeger.yaml"]

FROM ${PROMETHEUS} AS prometheus
COPY --chmod=0644 compose/prometheus.yml /etc/prometheus/prometheus.yml
COPY --chmod=0644 observability/alerts/*.yaml /etc/prometheus/alerts/

FROM ${GRAFANA} AS grafana
COPY --chmod=0644 compose/grafana/datasources.yaml /etc/grafana/provisioning/datasources/weir.yaml
COPY --chmod=0644 compose/grafana/dashboards.yaml /etc/grafana/provisioning/dashboards/weir.yaml
COPY --chmod=0644 observability/dashboards/*.json /etc/weir/dashboards/

# What `docker build .` makes.
FROM regional
