module=github.com/containerd/containerd/v2
go build -ldflags "$LDFLAGS -X $module/version.Version=v$VERSION" -o "$OUT/" \
	$module/cmd/containerd $module/cmd/containerd-shim-runc-v2 $module/cmd/ctr
