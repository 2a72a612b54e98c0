# The images of Sandhold, one target each. `hack/images` prepares a context of its own for every target and runs this
# file with docker or buildah. No step needs the network: wheels and the static binary are fetched and built outside.
#
# BASE is any image with python3, its venv module and CA certificates; the wheels must have been fetched for its Python.
ARG BASE=python:3.11-slim-bookworm

# What runs beside every agent: one static file, no shell, no libc. The pod gives it the agent's user.
FROM scratch AS sandhold-keeper
COPY sandhold-keeper /sandhold-keeper
USER 65532:65532
ENTRYPOINT ["/sandhold-keeper"]

# An agent's image as people bring it, for the demonstration and the tests: it knows nothing of Sandhold.
FROM ${BASE} AS sample-agent
USER 10001:10001
WORKDIR /workspace
CMD ["python3"]

# Installs with hashes checked, by a pip that does not come along.
FROM ${BASE} AS packages
COPY . /context/
RUN python3 -m venv /opt/pip \
 && python3 -m venv --without-pip /opt/sandhold \
 && /opt/pip/bin/pip --python /opt/sandhold install --no-cache-dir --no-index --find-links /context/wheels \
      --no-deps --require-hashes --requirement /context/runtime.lock \
 && /opt/pip/bin/pip --python /opt/sandhold install --no-cache-dir --no-index --no-deps /context/sandhold-*.whl

# Operator and mover; the chart says which of the two a container runs. USER is there because libraries ask for a user's
# name, and no password file knows the number that a cluster may choose instead of ours.
FROM ${BASE} AS sandhold
COPY --from=packages /opt/sandhold /opt/sandhold
ENV PATH=/opt/sandhold/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    USER=sandhold \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 65532:65532
CMD ["sandhold-operator"]
