# A small image that answers: docker build -t mphil . ; docker run -p 8765:8765 -v "$PWD/runs/first/bundle:/bundle:ro" mphil
# A tag moves; whoever needs the same image every time gives its digest: --build-arg BASE=python:3.11-slim@sha256:...
ARG BASE=python:3.11-slim
FROM ${BASE} AS build
WORKDIR /source
RUN python -m venv /opt/mphil
ENV PATH=/opt/mphil/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# torch first: given the address of PyTorch's CPU builds, without gigabytes of CUDA packages.
ARG TORCH_INDEX=""
COPY constraints.txt .
RUN pip install -c constraints.txt ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch
# The loops of the fast path are compiled into the package: there is no C compiler where the image runs.
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY pyproject.toml setup.py README.md LICENSE ./
COPY src src
RUN pip install -c constraints.txt '.[serve]' \
    && python -c "from mphil.nn.fast.library import path_taken; assert 'packaged' in path_taken('cpu'), path_taken('cpu')"

FROM ${BASE}
# What RDKit's drawings link to.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends libexpat1 libxext6 libxrender1 \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/mphil /opt/mphil
RUN useradd --create-home --uid 10001 mphil && mkdir /bundle && chown mphil /bundle
ENV PATH=/opt/mphil/bin:$PATH PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1
USER mphil
WORKDIR /home/mphil
VOLUME /bundle
EXPOSE 8765
HEALTHCHECK --start-period=60s --interval=30s --timeout=5s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/healthz', timeout=4)"]
ENTRYPOINT ["mphil"]
CMD ["serve", "/bundle", "--host", "0.0.0.0", "--port", "8765"]
