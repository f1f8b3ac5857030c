# Shadowlane in a container:
#
#   docker build -t shadowlane .
#   docker run -p 8080:8080 -p 127.0.0.1:8090:8090 shadowlane serve --engine http://10.0.0.5:8000
#   docker run -p 8080:8080 -p 127.0.0.1:8090:8090 -v ./config:/etc/shadowlane:ro shadowlane serve -c /etc/shadowlane/shadowlane.yaml
#
# Ports, reloads and stops: docs/operation.md, "In a container".

# The full image has the C compiler for the compiled parts (docs/decisions/0006-compiled-where-wanted.md).
FROM python:3.13 AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /source
RUN python -m venv /opt/shadowlane
# Dependencies first: they change less often than the source.
COPY pyproject.toml ./
RUN python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' \
      > requirements.txt \
 && /opt/shadowlane/bin/pip install --only-binary :all: --requirement requirements.txt
COPY . .
# Hidden: functions call one another directly, and are put into one another, where others might be put in their place.
RUN CFLAGS=-fvisibility=hidden HATCH_BUILD_HOOK_ENABLE_MYPYC=1 /opt/shadowlane/bin/pip install --no-deps .

FROM python:3.13-slim
# Numeric, so that Kubernetes can tell it is not root; it owns only the folder of the experiments' logs.
RUN mkdir -p /var/lib/shadowlane && chown 65532:65532 /var/lib/shadowlane
COPY --from=build /opt/shadowlane /opt/shadowlane
# Inside a container every interface is the container's own.  These win over a file's listen, admin and state_dir.
ENV PATH=/opt/shadowlane/bin:$PATH \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    SHADOWLANE_LISTEN=0.0.0.0:8080 \
    SHADOWLANE_ADMIN=0.0.0.0:8090 \
    SHADOWLANE_STATE_DIR=/var/lib/shadowlane
USER 65532:65532
WORKDIR /var/lib/shadowlane
VOLUME /var/lib/shadowlane
EXPOSE 8080 8090
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8090/livez', timeout=2)"]
ENTRYPOINT ["shadowlane"]
CMD ["--help"]
