# The web role: one static program on a base that brings certificates and nothing else
# that is needed.
#
# From a clone, with nothing but Docker: docker build -f deploy/images/webrole.Dockerfile .
# `make images` gives the program that it has built instead of the stage.
ARG BASE=gcr.io/distroless/static-debian12:nonroot
FROM docker.io/library/golang:1.26 AS build
ARG VERSION=dev
WORKDIR /source
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X github.com/cutroom/cutroom/shared/product.version=$VERSION" -o /out/ ./webrole

FROM ${BASE}
COPY --from=build /out/webrole /webrole
USER 65532:65532
# Off loopback the role demands WEBROLE_TOKEN. It writes nothing to its disk.
ENV WEBROLE_ADDR=0.0.0.0:8080 WEBROLE_ADMIN_ADDR=0.0.0.0:9090 CUTROOM_LOG_FORMAT=json
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/webrole", "healthcheck"]
ENTRYPOINT ["/webrole"]
