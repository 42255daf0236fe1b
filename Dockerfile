# softmax-server and its two clients in an image of what they need and nothing else: no shell, no package manager.
#
#   docker build -t softmax-server .
#   docker run --gpus all -p 50051:50051 -p 9400:9400 softmax-server
#
# BASE_BUILD must be Debian 12 or 13 or Ubuntu 24.04; its C library goes into the image. With nvcc >= 12.4 in it the
# server has the CUDA kernels for every supported architecture; without it one line of the build says so and the server
# runs on the CPU. Nothing of NVIDIA's is in the image: cudart is linked statically and the driver comes from the host.
ARG BASE_BUILD=nvidia/cuda:13.0.1-devel-ubuntu24.04

FROM ${BASE_BUILD} AS build
WORKDIR /src
COPY scripts/common.sh scripts/setup.sh scripts/
RUN bash scripts/setup.sh build
COPY . .
# The checkout does not travel, so the commit is told: --build-arg COMMIT=$(git rev-parse --short=12 HEAD)
ARG COMMIT=
RUN SOFTMAX_COMMIT=${COMMIT} bash scripts/package.sh /opt/softmax && bash scripts/image_root.sh /opt/softmax /image

FROM scratch
COPY --from=build /image /
# The NVIDIA container runtime mounts the driver when it sees the first two. PTX for a GPU newer than the build is
# compiled once into the cache, so mount something writable there when the root is read-only. The library path is where
# clusters with a driver installer of their own mount it.
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility \
    CUDA_CACHE_PATH=/tmp/cuda-cache \
    LD_LIBRARY_PATH=/usr/local/nvidia/lib64 \
    PATH=/opt/softmax/bin
# A number, so that Kubernetes' runAsNonRoot can be checked without a user database.
USER 65532:65532
EXPOSE 50051 9400
STOPSIGNAL SIGTERM
# By gRPC and without a shell; Kubernetes has probes of its own for the same service.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["/opt/softmax/bin/softmax-client", "--address", "localhost:50051", "--health"]
ENTRYPOINT ["/opt/softmax/bin/softmax-server"]
