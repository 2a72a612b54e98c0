# One binary for etcd, the control plane, the node agent, the service proxy and kubectl; links give it its names.
stamp=k8s.io/component-base/version
minor=${VERSION#1.}
go build -ldflags "$LDFLAGS -X $stamp.gitVersion=v$VERSION -X $stamp.gitMajor=1 -X $stamp.gitMinor=${minor%.*} -X $stamp.gitTreeState=clean" -o "$OUT/kube" .
for part in etcd kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubectl; do
	ln -s kube "$OUT/$part"
done
