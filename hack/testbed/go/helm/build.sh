go build -ldflags "$LDFLAGS -X helm.sh/helm/v4/internal/version.version=v$VERSION" -o "$OUT/" tool
