# An example of what reports to Galvo: Dask and nothing else. The plugin comes from the server.
FROM python:3.13-slim-bookworm
RUN pip install --no-cache-dir "dask[distributed]"
# What Dask writes down for itself goes where everybody may write.
ENV HOME=/tmp
USER 10002:10002
WORKDIR /tmp
ENTRYPOINT ["dask"]
