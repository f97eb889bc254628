# A static binary on an empty base, run by nobody in particular.
FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=${VERSION}" -o /out/gvbll ./cmd/gvbll \
 && mkdir /out/data

FROM scratch
COPY --from=build /out/gvbll /gvbll
COPY --from=build --chown=65532:65532 /out/data /data
USER 65532:65532
VOLUME /data
EXPOSE 8473
ENTRYPOINT ["/gvbll"]
CMD ["--help"]
