"""The layout of a page in headless Chromium, without a network."""

import html
import json
import re
import shutil
import subprocess

# Without a window, and without Chromium's background activity.
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Measures the position, alignment and broken words of each cell in Galvo's tables. Hyphens and
# slashes are allowed line breaks.
MEASURE = r"""
<script>
window.addEventListener("load", () => {
  const word = /[\p{L}\p{N}_.:]+/gu;
  const texts = (node) => {
    const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) if (walker.currentNode.data.trim()) found.push(walker.currentNode);
    return found;
  };
  const box = (text, begin, end) => {
    const range = document.createRange();
    range.setStart(text, begin);
    range.setEnd(text, end);
    return range;
  };
  const measured = (cell) => {
    const broken = [];
    const rects = [];
    for (const text of texts(cell)) {
      for (const { 0: found, index } of text.data.matchAll(word)) {
        const lines = new Set();
        for (const rect of box(text, index, index + found.length).getClientRects())
          if (rect.width) lines.add(Math.round(rect.bottom));
        if (lines.size > 1) broken.push(found);
      }
      rects.push(...box(text, 0, text.data.length).getClientRects());
    }
    const style = getComputedStyle(cell);
    return {
      text: cell.textContent,
      align: style.textAlign,
      broken,
      lines: new Set(rects.map((rect) => Math.round(rect.bottom))).size,
      left: Math.min(...rects.map((rect) => rect.left)),
      right: Math.max(...rects.map((rect) => rect.right)),
    };
  };
  const tables = [...document.querySelectorAll(".galvo table")].map((table) => ({
    head: [...table.querySelectorAll("th")].map(measured),
    rows: [...table.querySelectorAll("tbody tr")].map((row) => [...row.children].map(measured)),
    // What lies beside the table must be reached by scrolling it.
    scrolls: table.parentElement.scrollWidth >= table.getBoundingClientRect().width - 1,
  }));
  const items = [...document.querySelectorAll(".galvo li")].map(measured);
  const result = document.createElement("script");
  result.type = "application/json";
  result.id = "measured";
  result.textContent = JSON.stringify({ tables, items, rules: document.styleSheets.length });
  document.body.append(result);
});
</script>
"""


def chromium(directory, *arguments):
    """Returns Chromium's output, with an exclusive profile."""
    program = shutil.which("chromium")
    assert program, "chromium is missing: scripts/test.sh installs it"
    command = [
        program,
        *FLAGS,
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--user-data-dir={directory / 'chromium'}",
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def layout(page, directory, width):
    """Returns the measures of the tables in an HTML page, in a window of ``width`` pixels."""
    file = directory / f"page-{width}.html"
    file.write_text(page.replace("</body>", MEASURE + "</body>"), encoding="utf-8")
    dom = chromium(directory, f"--window-size={width},2000", "--dump-dom", file.as_uri())
    (found,) = re.findall(
        r'<script type="application/json" id="measured">(.*?)</script>', dom, re.S
    )
    return json.loads(html.unescape(found))
