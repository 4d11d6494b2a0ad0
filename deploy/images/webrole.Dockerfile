# The web role: one static program on a base that brings certificates and nothing else
# that is needed. `make images` builds the program and gives the base.
ARG BASE
FROM ${BASE}
COPY webrole /webrole
USER 65532:65532
# Off loopback the role demands WEBROLE_TOKEN. It writes nothing to its disk.
ENV WEBROLE_ADDR=0.0.0.0:8080 WEBROLE_ADMIN_ADDR=0.0.0.0:9090 CUTROOM_LOG_FORMAT=json
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s CMD ["/webrole", "healthcheck"]
ENTRYPOINT ["/webrole"]
