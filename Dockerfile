# A static binary on an empty base, run by nobody in particular. From the sources here:
#
#   docker build .
#
# Or, after make release, for two platforms from the same binaries as the archives':
#
#   docker buildx build --target release --platform linux/amd64,linux/arm64 .
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG TARGETARCH
RUN CGO_ENABLED=0 GOARCH=$TARGETARCH go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/gvbll ./cmd/gvbll \
 && mkdir /data

FROM scratch AS image
USER 65532:65532
VOLUME /data
EXPOSE 8473
# Of a worker: docker run --no-healthcheck for other commands. --http and --http-config are known from the environment.
HEALTHCHECK --interval=10s --timeout=6s --start-period=10s CMD ["/gvbll", "probe"]
ENTRYPOINT ["/gvbll"]
CMD ["--help"]

FROM image AS release
ARG TARGETARCH
COPY --chown=65532:65532 dist/data /data
COPY dist/linux-${TARGETARCH} /

FROM image
COPY --from=build --chown=65532:65532 /data /data
COPY --from=build /out/gvbll /gvbll
