"""Every version of the test cluster, in one place: a bump is one line here and one `go get` in `go/<component>/`.

The Go modules' own files (`go/*/go.mod`, `go.sum`) pin what these parts are made of; `tests/cluster` checks that the
two agree, so a version here is never only a label.
"""

KUBERNETES = "1.36.3"
ETCD = "3.6.8"
CONTAINERD = "2.4.2"
CNI_PLUGINS = "1.9.1"
KUBE_ROUTER = "2.1.0"
COREDNS = "1.14.7"
HELM = "4.3.1"
VERSITYGW = "1.8.0"
# A commit of gVisor's `go` branch, the only one that the Go tools can build; `@latest` and `@go` do not work.
GVISOR = "0.0.0-20260701204157-69c2d17aea96"
PAUSE = "1"
