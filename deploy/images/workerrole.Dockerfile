# The worker role: one static program beside Debian's ffmpeg. A base that has ffmpeg
# already is used as it is.
#
# From a clone, with nothing but Docker: docker build -f deploy/images/workerrole.Dockerfile .
# `make images` gives the program that it has built instead of the stage.
ARG BASE=docker.io/library/debian:12-slim
FROM docker.io/library/golang:1.26 AS build
ARG VERSION=dev
WORKDIR /source
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X github.com/cutroom/cutroom/shared/product.version=$VERSION" -o /out/ ./workerrole

FROM ${BASE}
RUN if [ ! -x /usr/bin/ffmpeg ]; then \
		apt-get update && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends ca-certificates ffmpeg && \
		rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig /var/log/*; \
	fi && mkdir -p /scratch && chown 65532:65532 /scratch
COPY --from=build /out/workerrole /workerrole
USER 65532:65532
# Off loopback the role demands WORKERROLE_ADMIN_TOKEN. /scratch is the one place that it
# writes to: mount a volume or a tmpfs there when the root is read-only.
ENV WORKERROLE_ADMIN_ADDR=0.0.0.0:9091 WORKERROLE_SCRATCH=/scratch CUTROOM_LOG_FORMAT=json
EXPOSE 9091
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/workerrole", "healthcheck"]
ENTRYPOINT ["/workerrole"]
