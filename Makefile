# Each target is one script; the scripts say what they need and why.
.PHONY: help run check test soak bench demo screenshots lint sbom fuzz image wheel packages release

help: ## this list
	@sed -n 's/^\([a-z]*\): ## /  make \1\t/p' $(MAKEFILE_LIST)

run: ## build and serve on 127.0.0.1:8000 with the embedded store (PROFILE=release for speed)
	@scripts/run.sh

check: ## the checks before each commit: formatting, clippy and most Rust tests, on SQLite
	@scripts/check.sh

test: ## start what the tests need and run every test
	@scripts/test.sh

soak: ## what goes wrong, over and over with other dice for SOAK_MINUTES=60 (SOAK_SEED=N begins with the same ones again)
	@scripts/soak.sh

bench: ## the benchmarks, as ratios against references of the same run (BENCH_QUICK=1 for a quick look)
	@scripts/bench.sh

demo: ## a real Dask workload that reports to a temporary server (DEMO_KEEP=1 keeps it running)
	@scripts/demo.sh

screenshots: ## pictures of all pages of the dashboard, with real Dask clusters and an invented team
	@scripts/screenshots.sh

fuzz: ## what reads text from outside, with inputs that nobody chose, FUZZ_SECONDS=60 each
	@scripts/fuzz.sh $(or $(FUZZ_SECONDS),60)

image: ## the release build laid out and run as the image would be, without Docker
	@scripts/image.sh

wheel: ## the wheels of the Python package and of the server in dist (GALVO_SERVER_BIN=PROGRAM instead of a release build)
	@scripts/wheel.sh

release: ## what a release of VERSION=… consists of, with checksums, in dist
	@scripts/release.sh "$(VERSION)"

packages: ## the tests of the Helm chart, the systemd unit, the files of a release and the quick start, with the debug build
	@scripts/packages.sh

lint: ## formatting, lints, documentation, licences, advisories (ADVISORY_DB=DIRECTORY without a network), bill of materials
	@scripts/lint.sh

sbom: ## the bill of materials of a release, target/galvo.cdx.json (CycloneDX)
	@scripts/sbom.sh
