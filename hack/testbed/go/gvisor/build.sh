# The shim lowers its OOM score, which needs CAP_SYS_RESOURCE, and gives up where it may not: oom_linux.go.txt takes the
# place of the file that does so. Go refuses overlays over the module cache, hence the vendor directory.
go mod vendor
replaced=$PWD/vendor/github.com/containerd/containerd/v2/pkg/sys/oom_linux.go
test -f "$replaced"
printf '{"Replace": {"%s": "%s"}}' "$replaced" "$PWD/oom_linux.go.txt" >overlay.json
go build -mod=vendor -overlay overlay.json -ldflags "$LDFLAGS -X gvisor.dev/gvisor/runsc/version.version=$VERSION" \
	-o "$OUT/" gvisor.dev/gvisor/runsc gvisor.dev/gvisor/shim
mv "$OUT/shim" "$OUT/containerd-shim-runsc-v1"
