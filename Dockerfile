# The images of Weir. `docker compose build` makes those that docker-compose.yml runs;
# `docker build --target regional .` makes one. docs/compose.md lists the targets.
ARG GO=golang:1.26
ARG ENVOY=envoyproxy/envoy:v1.40.0
ARG COLLECTOR=otel/opentelemetry-collector-contrib:0.155.0

# One stage builds everything: the programs share most of their packages. Static binaries
# without paths, version control stamps and build ids are the same bytes on every machine with the
# same Go: the tag above takes the newest patch, and --build-arg GO=golang:1.26.8 one of them.
FROM ${GO} AS build
WORKDIR /src
COPY . .
ENV CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go build -ldflags="-s -w -buildid=" -o /out/ ./cmd/weir ./test/certs \
 && go build -ldflags="-s -w -buildid=" -o /out/weir-regional ./regional \
 && go build -ldflags="-s -w -buildid=" -o /out/weir-global ./global \
 && GOOS=wasip1 GOARCH=wasm go build -buildmode=c-shared -ldflags="-s -w" -o /out/weir.wasm ./wasmfilter
# Directories that the user of the programs may write to. A new volume takes over the owner.
RUN mkdir -p /dirs/state /dirs/certs/global /dirs/certs/region-eu /dirs/certs/region-us /dirs/certs/pop-eu /dirs/certs/pop-us

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

# A PoP: stock Envoy and the filter.
FROM ${ENVOY} AS pop
COPY --from=build /out/weir.wasm /out/weir /usr/local/lib/weir/
COPY compose/pop.sh compose/pop.yaml /etc/weir/
USER 65532:65532
EXPOSE 10000 9902
ENTRYPOINT ["sh", "/etc/weir/pop.sh"]

# The filter alone, as Envoy Gateway and Istio read it from a registry.
FROM scratch AS wasm
COPY --from=build /out/weir.wasm /plugin.wasm

# Makes certificates for trying TLS, once.
FROM scratch AS certs
COPY --from=build /out/certs /make-certs
COPY --from=build --chown=65532:65532 /dirs/certs /certs
USER 65532:65532
ENTRYPOINT ["/make-certs"]

# The collector has no program that could check its health.
FROM ${COLLECTOR} AS collector
COPY --from=build /out/weir /weir
COPY compose/collector.yaml /etc/otelcol-contrib/config.yaml

# What `docker build .` makes.
FROM regional
