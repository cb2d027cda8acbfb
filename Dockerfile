# The one binary with the distributed roles: docker build -t quipu .
# The version is that of rust-toolchain.toml.
FROM rust:1.95.0-bookworm AS build
# The image's own toolchain, whatever components the file asks for.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY . .
# The caches stay with the builder: a second build compiles what has changed.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package quipu --features cluster \
    && install -D target/release/quipu /out/quipu

FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates libssl3 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --no-create-home quipu
COPY --from=build /out/quipu /usr/local/bin/quipu
USER 10001
EXPOSE 7070 7071
ENTRYPOINT ["quipu"]
CMD ["--help"]
