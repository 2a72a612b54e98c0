"""What the cluster is made of, longest build first, so that the two builders end at about the same time."""

from testbed import versions
from testbed.build import Component
from testbed.places import SOURCE

COMPONENTS = tuple(
    Component(name, version, SOURCE / "go" / name)
    for name, version in (
        ("kube", versions.KUBERNETES),
        ("helm", versions.HELM),
        ("containerd", versions.CONTAINERD),
        ("gvisor", versions.GVISOR),
        ("kube-router", versions.KUBE_ROUTER),
        ("coredns", versions.COREDNS),
        ("versitygw", versions.VERSITYGW),
        ("cni", versions.CNI_PLUGINS),
        ("pause", versions.PAUSE),
    )
)
