# An example of what reports to Galvo: Dask, and Galvo's Python package, which is the context of the build.
FROM python:3.13-slim-bookworm
COPY . /tmp/galvo
RUN pip install --no-cache-dir "dask[distributed]" /tmp/galvo && rm -r /tmp/galvo
# What Dask writes down for itself goes where everybody may write.
ENV HOME=/tmp
USER 10002:10002
WORKDIR /tmp
ENTRYPOINT ["dask"]
