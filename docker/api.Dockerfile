# The server as an image: docker build -f docker/api.Dockerfile -t galvo .
# The cache mounts keep downloaded crates and compiled dependencies between builds, so a change to the
# source recompiles the workspace only. They need BuildKit, which is Docker's default.

FROM rust:1.95-slim-bookworm AS build
WORKDIR /src
COPY . .
# The mounts are not part of the image, so the binary leaves them within the same step.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --locked --release --package galvo --bin galvo \
    && cp target/release/galvo /usr/local/bin/galvo

FROM debian:bookworm-slim
RUN useradd --system --uid 10001 --no-create-home --shell /usr/sbin/nologin galvo \
    && install -d -m 700 -o galvo /var/lib/galvo
COPY --from=build /usr/local/bin/galvo /usr/local/bin/galvo
# By number, so that an orchestrator can tell it is not root.
USER 10001
WORKDIR /var/lib/galvo
ENV GALVO_LISTEN=0.0.0.0:8000 \
    GALVO_DATABASE_URL=sqlite:///var/lib/galvo/galvo.db?mode=rwc
EXPOSE 8000
ENTRYPOINT ["galvo"]
CMD ["serve"]
