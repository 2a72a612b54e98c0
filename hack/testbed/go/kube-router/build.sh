go build -ldflags "$LDFLAGS -X github.com/cloudnativelabs/kube-router/v2/pkg/version.Version=$VERSION" -o "$OUT/" tool
