# The server as an image: docker build -f docker/api.Dockerfile -t galvo .
# The cache mounts keep downloaded crates and compiled dependencies between builds, so a change to the
# source recompiles the workspace only. They need BuildKit, which is Docker's default.
#
# scripts/dockerfile.py reads this file for scripts/oci_image.py, which makes the image of a release from it without
# Docker. scripts/image.sh runs that image. The reader knows the instructions that are used here, and fails for any
# other.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# The mounts are not part of the image, so the binary leaves them within the same step.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package galvo --bin galvo \
    && cp target/release/galvo /usr/local/bin/galvo
RUN docker/root.sh /image /usr/local/bin/galvo

FROM scratch
# --build-arg REVISION="$(git rev-parse HEAD)" names the commit.
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Galvo" \
    org.opencontainers.image.description="The open, self-hosted analytics server for Dask" \
    org.opencontainers.image.version="0.1.0" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /
# What is copied belongs to root unless it is said otherwise.
COPY --from=build --chown=10001:10001 /image/var/lib/galvo /var/lib/galvo
# By number, so that an orchestrator can tell it is not root.
USER 10001:10001
WORKDIR /var/lib/galvo
ENV GALVO_LISTEN=0.0.0.0:8000 \
    GALVO_DATABASE_URL=sqlite:///var/lib/galvo/galvo.db?mode=rwc
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s CMD ["/usr/local/bin/galvo", "ready"]
ENTRYPOINT ["/usr/local/bin/galvo"]
CMD ["serve"]
