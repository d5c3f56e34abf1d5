# moelab in a container: docker build -t moelab . && docker run --rm -v "$PWD:/work" moelab run zipmoe-orin --out out/result.json
# What it writes belongs to the user that is given: docker run --user "$(id -u):$(id -g)" ...
FROM debian:12 AS build
WORKDIR /moelab
COPY install_dependencies.sh .
RUN ./install_dependencies.sh package
COPY . .
RUN cmake --preset release -DBUILD_TESTING=OFF -DMOELAB_BENCH=OFF -DMOELAB_EXPERIMENTS=OFF \
 && cmake --build build/release \
 && cpack -G DEB --config build/release/CPackConfig.cmake -B /package

FROM debian:12-slim
COPY --from=build /package/*.deb /tmp/
RUN apt-get update && apt-get install -y --no-install-recommends /tmp/*.deb && rm -rf /tmp/*.deb /var/lib/apt/lists/*
WORKDIR /work
ENTRYPOINT ["moelab"]
